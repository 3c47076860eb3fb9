"""Live systems of machines that are installed, and the disk that one of them chooses (with the real jq)."""

import base64
import json
import subprocess
from importlib import resources

import pytest

from installer.config.types.platform import RootDeviceHints
from installer.create.stages.hosts import hints_fields
from installer.ignition.validation import problems
from installer.ipi import hostimage

GB = 1000**3
POINTER = json.dumps({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": "https://192.0.2.5:22623/x"}]}}})


def disk(path, size, **fields):
    """Return a device as lsblk writes it."""
    plain = {"type": "disk", "serial": None, "wwn": None, "model": None, "vendor": None, "hctl": None}
    return {"path": path, "size": size, "rota": False, "rm": False, "ro": False} | plain | fields


DISKS = [
    disk("/dev/sr0", 20 * GB, type="rom"),
    disk("/dev/sda", 500 * GB, serial="A-1", model="WD Gold 10", vendor="ATA", rota=True, hctl="0:0:0:0"),
    disk("/dev/sdb", 100 * GB, serial="B-1", wwn="0x5000", model="SSD 9", rota=False),
    disk("/dev/sdc", 2 * GB, serial="C-1"),
    disk("/dev/sdd", 50 * GB, rm=True),
    disk("/dev/sde", 60 * GB, ro=True),
]


@pytest.mark.parametrize(
    ("hints", "chosen"),
    [
        ({}, "/dev/sdb"),
        ({"device_name": "/dev/sda"}, "/dev/sda"),
        ({"device_name": "/dev/sdd"}, ""),
        ({"serial_number": "A-1"}, "/dev/sda"),
        ({"serial_number": "A"}, ""),
        ({"serial_number": "C-1"}, ""),
        ({"model": "Gold"}, "/dev/sda"),
        ({"vendor": "ATA", "rotational": True}, "/dev/sda"),
        ({"rotational": False}, "/dev/sdb"),
        ({"hctl": "0:0:0:0"}, "/dev/sda"),
        ({"wwn": "0x5000"}, "/dev/sdb"),
        ({"min_size_gigabytes": 101}, "/dev/sda"),
        ({"min_size_gigabytes": 501}, ""),
    ],
)
def test_the_smallest_disk_for_which_all_hints_hold_is_chosen(tmp_path, hints, chosen):
    wanted = RootDeviceHints(**hints)
    (tmp_path / "hints.json").write_text(json.dumps(hints_fields(wanted)))
    program = resources.files("installer.ipi").joinpath("data/choose-disk.jq")
    found = subprocess.run(
        ["jq", "--raw-output", "--arg", "device", wanted.device_name, "--slurpfile", "hints",
         str(tmp_path / "hints.json"), "--from-file", str(program)],
        input=json.dumps({"blockdevices": DISKS}), capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    assert found.stdout.strip() == chosen


@pytest.mark.parametrize("connections", [{}, {"eno1.nmconnection": "[connection]\n"}])
def test_a_hosts_config_holds_its_pools_with_its_name_and_its_networks(connections):
    hints = RootDeviceHints(serial_number="A-1")
    config = json.loads(hostimage.host_config(POINTER.encode(), "master-0", hints, connections=connections, ssh_key=""))
    assert problems(config) == []
    files = {
        file["path"]: base64.b64decode(file["contents"]["source"].partition("base64,")[2])
        for file in config["storage"]["files"]
    }
    assert json.loads(files["/etc/node0-install/hints.json"]) == {"serialNumber": "A-1"}
    installed = json.loads(files["/etc/node0-install/config.ign"])
    assert problems(installed) == []
    assert installed["ignition"] == json.loads(POINTER)["ignition"]
    assert [file["path"] for file in installed["storage"]["files"]] == ["/etc/hostname"]
    assert ("/etc/node0-install/copy-network" in files) is bool(connections)
    assert [path for path in files if path.startswith("/etc/NetworkManager")] == [
        f"/etc/NetworkManager/system-connections/{name}" for name in connections
    ]
