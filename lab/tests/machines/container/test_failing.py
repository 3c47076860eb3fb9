"""A container machine's disk that fails: what the machine itself gets to see of it."""

import contextlib
from pathlib import Path

import pytest

from lab.machines import failing
from lab.testing.containers.kit import PATIENCE
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

# A direct write, a file system's fsync, a partition's write, and a read that no page cache has: each by itself.
TRY = """
say() { "$@" >/dev/null 2>/tmp/why && echo yes || sed -n 's/.*: //p' /tmp/why | tail -n 1; }
say dd if=/dev/zero of=/dev/vda bs=1M seek=900 count=1 oflag=direct
say dd if=/dev/zero of=/dev/vda2 bs=4096 count=1 oflag=direct
say dd if=/dev/zero of=/mnt/x/file bs=4096 count=1 conv=fsync
say dd if=/dev/vda of=/dev/null bs=1M skip=901 count=1 iflag=direct
"""
PREPARE = """set -e
sgdisk -n 1:2048:+64M -n 2:0:+64M /dev/vda >/dev/null
mkfs.ext4 -q /dev/vda1
mkdir -p /mnt/x; mount /dev/vda1 /mnt/x
"""
WORKS, IO = "yes", "Input/output error"


@pytest.fixture
def place(world, tmp_path):
    disk = failing.Place(*(str(tmp_path / f"vda.{kind}") for kind in ("raw", "device", "medium")))
    with open(disk.image, "xb") as image:
        image.truncate(1 << 30)
    with contextlib.ExitStack() as held:
        failing.hold(disk, held)
        yield disk


def test_a_machine_gets_io_errors_and_its_disk_works_again(world, place):
    machine = world.boot(7, disk=Path(place.device))
    try:
        done = world.run(machine, PREPARE)
        assert done.returncode == 0, done.stderr

        def tried():
            return world.run(machine, TRY).stdout.splitlines()

        assert tried() == [WORKS] * 4
        failing.fail(place, reads=False)
        first, second, file, read = tried()
        assert (first, second, read) == (IO, IO, WORKS)
        # ext4 has made itself read-only, or says so.
        assert file in (IO, "Read-only file system")
        failing.fail(place, reads=True)
        assert tried()[3] == IO
        failing.mend(place)
        first, second, _, read = tried()
        assert (first, second, read) == (WORKS, WORKS, WORKS)

        # It can be switched on while its disk refuses writes, and has its errors then too.
        failing.fail(place, reads=False)
        machine.off()
        machine.on()
        wait_until(lambda: tried()[:1] == [IO], PATIENCE, "the machine that starts again")
    finally:
        failing.mend(place)
        machine.off()
