"""A lab of container machines: its BMC, and what is left of it."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from drivers.errors import DriverError, ScreenshotError
from drivers.protocols import BootDevice, PowerState
from lab import topology
from lab.evidence.folder import strangers
from lab.host import records
from lab.lab import Lab
from lab.machines import containers
from lab.testing.containers.kit import PATIENCE
from lab.tests.machines import kit
from lab.waiting import wait_until

SHAPE = topology.sno().with_machines("container")
pytestmark = [pytest.mark.lab, kit.needs_lab(SHAPE)]


def small(shape):
    """Reduce a topology's memory, so that no lab has to wait for it."""
    nodes = tuple(msgspec.structs.replace(node, memory_mib=256, disk_gib=1, vcpu=1) for node in shape.nodes)
    return msgspec.structs.replace(shape, nodes=nodes)


def groups(lab_id):
    return list(Path("/sys/fs/cgroup").glob(f"*/node0/{lab_id}"))


def test_redfish_drives_container_machines(tmp_path):
    with Lab(small(SHAPE), artifacts=tmp_path / "evidence") as lab:
        assert sorted(lab.bmc.systems()) == sorted(node.uuid for node in lab.nodes.values())
        node = lab.nodes["master-0"]
        assert node.power.state() is PowerState.OFF
        assert node.boot.first() is not BootDevice.CD
        node.boot.set_first(BootDevice.CD)
        assert node.boot.first() is BootDevice.CD
        image = tmp_path / "some.iso"
        image.write_bytes(b"no image at all" * 4096)
        node.boot_image(image)
        assert node.media.inserted().endswith("/some.iso")
        node.console.wait_for(r"No bootable (device|option)", PATIENCE)
        # As with a machine of its own: it stands there, and is on.
        assert node.power.state() is PowerState.ON
        node.link.set_up(False)
        assert not node.link.is_up()
        node.link.set_up(True)
        node.media.eject()
        assert node.media.inserted() is None
        with pytest.raises(ScreenshotError, match="container"):
            node.screenshot()
        with pytest.raises(DriverError):
            lab.bmc.system("00000000-0000-0000-0000-000000000000").state()
        node.power.off()
        assert node.power.state() is PowerState.OFF
        assert lab.collect() == []
        assert (tmp_path / "evidence/machines/master-0.json").exists()
        assert strangers(tmp_path / "evidence") == []
        # The daemon's end is the machines' end.
        node.power.on()
        lab.services.stop("machined")
        lab.services.start("machined")
        assert node.power.state() is PowerState.OFF


def until(event, reached):
    wait_until(reached, PATIENCE, event, poll=0.05)


def powered_on(lab):
    """Power on until the machines have their groups; returns the lab's record."""
    for node in lab.nodes.values():
        node.power.on()
    until("the machines' groups", lambda: groups(lab.id))
    return records.read(lab.id)


def reaper_of(lab_id):
    """Find the process that removes a lab's groups when the lab is gone."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"lab.machines.container.reaper" in words and lab_id.encode() in words:
            return int(folder.name)
    raise AssertionError("the lab has no reaper")


def test_a_killed_supervisor_leaves_no_group(tmp_path):
    lab = Lab(small(SHAPE), artifacts=tmp_path)
    lab.start()
    try:
        record = powered_on(lab)
        os.kill(record.supervisor[0], signal.SIGKILL)
        until("no group", lambda: not groups(lab.id) and not Path(f"/proc/{record.init}").exists())
    finally:
        lab.stop()


def test_what_a_killed_reaper_leaves_goes_with_the_labs_remains(tmp_path):
    lab = Lab(small(SHAPE), artifacts=tmp_path)
    lab.start()
    try:
        record = powered_on(lab)
        os.kill(reaper_of(lab.id), signal.SIGKILL)
        os.kill(record.supervisor[0], signal.SIGKILL)
        until("no process", lambda: not Path(f"/proc/{record.init}").exists())
        assert groups(lab.id)
        until("the lab's end", lambda: records.look_at(record.root).state is records.State.ENDED)
        # Another lab that runs is not touched.
        with Lab(small(SHAPE), artifacts=tmp_path / "other") as other:
            powered_on(other)
            lines = containers.reap()
            assert groups(other.id)
        assert any(lab.id in line for line in lines) or not record.root.exists()
        assert not groups(lab.id)
    finally:
        lab.stop()


def test_a_killed_reaper_leaves_no_group_when_its_lab_ends_in_order(tmp_path):
    lab = Lab(small(SHAPE), artifacts=tmp_path)
    lab.start()
    try:
        powered_on(lab)
        os.kill(reaper_of(lab.id), signal.SIGKILL)
    finally:
        lab.stop()
    until("no group", lambda: not groups(lab.id))
