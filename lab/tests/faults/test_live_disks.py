"""Disks that fail and are slow on command, and what is left of them; needs root and loop devices."""

import errno
import mmap
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.errors import LabError
from lab.faults import DiskErrors, DiskSlow
from lab.host import records
from lab.lab import Lab
from lab.testing.live import skip_without_labs, small
from lab.topology import Disk
from lab.waiting import wait_until

SHAPE = topology.sno().with_machines("container")
pytestmark = [pytest.mark.lab, skip_without_labs(SHAPE)]
MIB = 1 << 20
PATIENCE = 60.0


def with_disks():
    """Return a node whose first disk cannot fail, and the two after it can."""
    disks = (Disk(size_gib=1), Disk(size_gib=1, root=True, can_fail=True), Disk(size_gib=1, bus="sata", can_fail=True))
    [node] = small(SHAPE).nodes
    return msgspec.structs.replace(SHAPE, nodes=(msgspec.structs.replace(node, disk_gib=1, disks=disks),))


def transfer(device, *, write, count=1):
    """Read or write so many MiB past the page cache; how long it took in seconds. Raises OSError."""
    disk = os.open(device, (os.O_WRONLY if write else os.O_RDONLY) | os.O_DIRECT)
    began = time.monotonic()
    try:
        with mmap.mmap(-1, MIB) as page:
            page.write(b"node0" * 8)
            for _ in range(count):
                os.writev(disk, [page]) if write else os.readv(disk, [page])
    finally:
        os.close(disk)
    return time.monotonic() - began


def code(device, *, write):
    """Return the number of the error, or 0."""
    try:
        transfer(device, write=write)
    except OSError as error:
        return error.errno
    return 0


def attached(root):
    """Return the files of a lab that loop devices have."""
    mentions = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            mentions += [line for line in file.read_text().splitlines() if str(root) in line]
        except OSError:
            continue
    return mentions


def test_a_disk_fails_and_works_again(tmp_path):
    with Lab(with_disks(), artifacts=tmp_path) as lab:
        spec = lab.nodes["master-0"].spec
        disk, other = lab.layout.device(spec, 1), lab.layout.device(spec, 2)
        assert (code(disk, write=True), code(disk, write=False)) == (0, 0)
        with lab.fault(DiskErrors("master-0")):
            assert (code(disk, write=True), code(disk, write=False)) == (errno.EIO, 0)
            assert code(other, write=True) == 0
        assert (code(disk, write=True), code(disk, write=False)) == (0, 0)
        with lab.fault(DiskErrors("master-0", "sda", "all")):
            assert (code(other, write=True), code(other, write=False)) == (errno.EIO, errno.EIO)
            assert code(disk, write=True) == 0
        assert (code(other, write=True), code(other, write=False)) == (0, 0)
        # What was written is what is read, and where the image has it.
        assert lab.layout.disk(spec, 1).read_bytes()[:10] == b"node0node0"

        for fault, why in (
            (DiskErrors("master-0", "vda"), r"vda of master-0 cannot fail: .*can_fail"),
            (DiskErrors("master-0", "sdx"), "master-0 has no disk 'sdx'; it has vda, vdb, sda"),
            (DiskSlow("master-0", 100, "vda"), "vda of master-0 cannot fail"),
        ):
            with pytest.raises(LabError, match=why), lab.fault(fault):
                pass
        with pytest.raises(LabError, match="no node 'nobody'"), lab.fault(DiskErrors("nobody")):
            pass


@pytest.mark.skipif("blkio" not in Path("/proc/self/cgroup").read_text(), reason="cgroup v1's blkio is not here")
def test_a_disk_is_slow_and_quick_again_and_a_killed_lab_leaves_nothing(tmp_path):
    limits = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
    lab = Lab(with_disks(), artifacts=tmp_path)
    lab.start()
    try:
        disk = lab.layout.device(lab.nodes["master-0"].spec, 1)
        medium = os.stat(disk.with_suffix(".medium")).st_rdev
        number = f"{os.major(medium)}:{os.minor(medium)} "
        with lab.fault(DiskSlow("master-0", 1024)):
            # A group that is made afterwards is limited too.
            group = limits.parent / f"test-{lab.id}"
            group.mkdir()
            try:
                wait_until(lambda: number in (group / limits.name).read_text(), PATIENCE, "the new group's limit")
            finally:
                group.rmdir()
            assert transfer(disk, write=True, count=3) > 2
            assert transfer(disk, write=False, count=3) > 2
        assert number not in limits.read_text()

        DiskSlow("master-0", 1024).begin(lab)
        assert number in limits.read_text()
        record = records.read(lab.id)
        assert attached(lab.layout.root)
        os.kill(record.supervisor[0], signal.SIGKILL)
        wait_until(lambda: not attached(lab.layout.root), PATIENCE, "the devices' end", poll=0.1)
        wait_until(lambda: number not in limits.read_text(), PATIENCE, "the limit's end", poll=0.1)
        assert not Path("/run/node0/slow", lab.id).exists()
    finally:
        lab.stop()
