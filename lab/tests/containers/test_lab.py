"""A lab of container machines: its BMC, and what is left of it."""

import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from drivers.errors import DriverError, ScreenshotError
from drivers.protocols import BootDevice, PowerState
from lab import topology
from lab.host import preflight
from lab.lab import Lab

SHAPE = topology.sno().on("container")
PROBLEMS = preflight.problems(SHAPE, Path("/"), "")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
]


def small(shape):
    """The same with little memory, which nobody has to wait for."""
    nodes = tuple(msgspec.structs.replace(node, memory_mib=256, disk_gib=1, vcpu=1) for node in shape.nodes)
    return msgspec.structs.replace(shape, nodes=nodes)


def groups(lab_id):
    return list(Path("/sys/fs/cgroup").glob(f"*/node0/{lab_id}"))


def test_redfish_drives_container_machines(tmp_path):
    with Lab(small(SHAPE), artifacts=tmp_path / "evidence") as lab:
        assert sorted(lab.bmc.systems()) == sorted(node.uuid for node in lab.nodes.values())
        node = lab.nodes["master-0"]
        assert node.power.state() is PowerState.OFF
        assert node.boot.first() is BootDevice.DISK
        node.boot.set_first(BootDevice.CD)
        assert node.boot.first() is BootDevice.CD
        image = tmp_path / "some.iso"
        image.write_bytes(b"no image at all" * 4096)
        node.boot_image(image)
        assert node.media.inserted().endswith("/some.iso")
        node.console.wait_for(r"No bootable device", 30)
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
        # The daemon's end is the machines' end.
        node.power.on()
        lab.services.stop("machined")
        lab.services.start("machined")
        assert node.power.state() is PowerState.OFF


def test_a_killed_supervisor_leaves_no_group(tmp_path):
    lab = Lab(small(SHAPE), artifacts=tmp_path)
    lab.start()
    try:
        for node in lab.nodes.values():
            node.power.on()
        deadline = time.monotonic() + 30
        while not groups(lab.id):
            assert time.monotonic() < deadline, "no machine has made its groups"
            time.sleep(0.05)
        assert lab._record is not None
        os.kill(lab._record.supervisor[0], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while groups(lab.id) or Path(f"/proc/{lab._record.init}").exists():
            assert time.monotonic() < deadline, groups(lab.id)
            time.sleep(0.05)
    finally:
        lab.stop()
