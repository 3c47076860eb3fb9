"""Disks for rootDeviceHints, and the hints that no disk of a lab satisfies."""

import pytest

from lab.derive import hints
from lab.derive.inputs import ListedHost


def disks(values):
    """Return the disks for hints, and what is wrong with these."""
    problems: list[tuple[str, str]] = []
    host = ListedHost("f", "h", "", "", (), values, None)
    return hints.disks(host, problems), [line.removeprefix("h.rootDeviceHints.") for _, line in problems]


@pytest.mark.parametrize(
    ("values", "bus", "rotational"),
    [
        ({"deviceName": "/dev/nvme0n1", "rotational": False}, "nvme", None),
        ({"deviceName": "/dev/sda", "rotational": False}, "scsi", False),
        ({"vendor": "QEMU"}, "scsi", None),
        ({"vendor": "ATA", "rotational": True}, "sata", True),
        ({"vendor": "AT", "deviceName": "/dev/sda"}, "sata", None),
    ],
)
def test_a_disk_of_the_right_bus_is_made(values, bus, rotational):
    [disk], wrong = disks(values)
    assert (wrong, disk.bus, disk.rotational, disk.vendor) == ([], bus, rotational, "")


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"deviceName": "/dev/sda", "rotational": True},
        {"hctl": "0:0:0:0"},
        {"model": "PERC H740P Mini"},
        {"wwn": "0x5000c500a0b1c2d3", "serialNumber": "S-1", "minSizeGigabytes": 120},
    ],
)
@pytest.mark.parametrize("vendor", ["DELL", "ata", "Lenovo X", "HGST"])
def test_a_vendor_of_its_own_is_a_scsi_disks(vendor, others):
    [disk], wrong = disks({"vendor": vendor} | others)
    assert (wrong, disk.bus, disk.vendor, disk.model) == ([], "scsi", vendor, others.get("model", ""))


def test_a_disk_at_a_place_on_scsi_has_the_vendor_of_sata_when_asked():
    [disk], wrong = disks({"vendor": "ATA", "hctl": "0:0:0:0"})
    assert (wrong, disk.bus, disk.vendor) == ([], "scsi", "ATA")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"vendor": "SanDisk 3"},
            "vendor: 'SanDisk 3': disks of labs have up to 8 printable characters (ASCII), with",
        ),
        (
            {"vendor": "DELL "},
            "vendor: 'DELL ': disks of labs have up to 8 printable characters (ASCII), with a space",
        ),
        (
            {"vendor": "DÉLL"},
            "vendor: 'DÉLL': disks of labs have up to 8 printable characters (ASCII), with a space ",
        ),
        (
            {"vendor": "DELL", "deviceName": "/dev/nvme0n1"},
            "vendor: deviceName means bus nvme, whose disks tell none",
        ),
        (
            {"vendor": "DELL", "model": "SAMSUNG MZ7KM480HAHP"},
            "model: 'SAMSUNG MZ7KM480HAHP': scsi disks of labs have up to 16 printable",
        ),
        ({"vendor": "QEMU", "deviceName": "/dev/vda"}, "vendor: deviceName means bus virtio, whose disks tell none"),
        ({"rotational": True, "deviceName": "/dev/nvme0n1"}, "rotational: deviceName means bus nvme"),
        ({"minSizeGigabytes": 999999}, "minSizeGigabytes: 999999: disks of labs have up to 65536 GiB"),
        ({"deviceName": "/dev/nvme99n1"}, "deviceName: /dev/nvme99n1: machines of a lab have up to 26 disks"),
        ({"deviceName": "/dev/hda"}, "deviceName: /dev/hda: labs have no such disk; use /dev/vd"),
        ({"wwn": "1"}, "wwn: '1': disks of labs have one of 16 hex digits"),
        ({"serialNumber": "S" * 21}, "serialNumber: "),
        ({"hctl": "1:0:0:0"}, "hctl: '1:0:0:0': a lab's first SCSI disk is 0:0:0:0"),
    ],
)
def test_a_hint_that_no_disk_satisfies_is_reported(values, line):
    found_disks, [wrong] = disks(values)
    assert found_disks == ()
    assert wrong.startswith(line)
