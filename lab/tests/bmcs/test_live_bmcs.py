"""A lab whose machines have all the vendors' BMCs, and IPMI."""

import json
from pathlib import Path

import msgspec
import pytest

from drivers.protocols import PowerState
from lab import topology
from lab.host import preflight
from lab.lab import Lab
from lab.testing.containers.kit import PATIENCE
from lab.testing.live import ipmitool
from lab.topology import Bmc, NodeSpec

SHAPE = topology.sno().with_machines("container")
PROBLEMS = preflight.problems(SHAPE, Path("/"), "")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
]
KINDS: tuple[Bmc, ...] = ("idrac", "idrac10", "ilo", "xcc", "supermicro", "fujitsu", "openbmc")


def shape():
    """One machine with little memory for each vendor, and one with the lab's own BMC."""
    nodes = tuple(
        NodeSpec(
            name=f"bmc-{kind}", role="master", mac=f"52:54:00:6e:30:{index:02x}", ip=f"192.168.111.{80 + index}",
            vcpu=1, memory_mib=256, disk_gib=1, bmc=kind,
        )
        for index, kind in enumerate((*KINDS, "lab"))
    )  # fmt: skip
    return msgspec.structs.replace(SHAPE, name="vendors", nodes=nodes, ipmi=True)


def test_every_vendors_bmc_drives_a_machine_of_one_lab(tmp_path, beside_labs):
    image = beside_labs / "some.iso"
    image.write_bytes(b"no image at all" * 4096)
    with Lab(shape(), artifacts=tmp_path / "evidence") as lab:
        assert lab.bmc.systems()
        for node in lab.nodes.values():
            node.media.insert(image)
        for node in lab.nodes.values():
            node.start()
        for node in lab.nodes.values():
            node.console.wait_for(r"No bootable (device|option)", PATIENCE)
            assert node.media.inserted().endswith("/some.iso")
            assert node.power.state() is PowerState.ON
            assert ipmitool(lab, node.spec, "power", "status") == "Chassis Power is on"
        for node in lab.nodes.values():
            ipmitool(lab, node.spec, "power", "off")
            assert node.power.state() is PowerState.OFF
            node.media.eject()
            assert node.media.inserted() is None
        log = (lab.layout.log / "bmc-requests.jsonl").read_text()
        entries = [json.loads(line) for line in log.splitlines()]
        assert {entry["bmc"] for entry in entries if "bmc" in entry} == {f"bmc-{kind}" for kind in KINDS}
        assert lab.credentials.bmc_password not in log
        # The daemon is killed: what the drives hold is known afterwards.
        node = lab.nodes["bmc-ilo"]
        node.media.insert(image)
        lab.services.stop("bmc")
        lab.services.start("bmc")
        assert node.media.inserted().endswith("/some.iso")
        assert lab.collect() == []
