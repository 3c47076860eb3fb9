"""Disks for rootDeviceHints: what labs have, and what is told of what they have not."""

import pytest

from lab.derive import hints
from lab.derive.fields import Field, Problems


def disks(values):
    """The disks for hints, and what is wrong with these."""
    problems = Problems()
    field = Field(value=values, source="f", path="h", problems=problems)
    return hints.disks(field), [line for _, line in problems.lines]


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
        {"deviceName": "/dev/disk/by-id/wwn-0x5000c500a0b1c2d3"},
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
            "h.vendor: 'SanDisk 3': disks of labs have up to 8 printable characters (ASCII), with",
        ),
        (
            {"vendor": "DELL "},
            "h.vendor: 'DELL ': disks of labs have up to 8 printable characters (ASCII), with a space",
        ),
        (
            {"vendor": "DÉLL"},
            "h.vendor: 'DÉLL': disks of labs have up to 8 printable characters (ASCII), with a space ",
        ),
        (
            {"vendor": "DELL", "deviceName": "/dev/nvme0n1"},
            "h.vendor: deviceName means bus nvme, whose disks tell none",
        ),
        (
            {"vendor": "DELL", "deviceName": "/dev/disk/by-id/ata-X_S-1"},
            "h.vendor: deviceName means bus sata, whose disks tell ATA in a lab; name one under /dev/sd",
        ),
        (
            {"vendor": "DELL", "model": "SAMSUNG MZ7KM480HAHP"},
            "h.model: 'SAMSUNG MZ7KM480HAHP': a scsi disk, which the other hints ask for, has up to 16 characters",
        ),
        ({"vendor": "QEMU", "deviceName": "/dev/vda"}, "h.vendor: deviceName means bus virtio, whose disks tell none"),
        ({"rotational": True, "deviceName": "/dev/nvme0n1"}, "h.rotational: deviceName means bus nvme"),
        ({"minSizeGigabytes": 999999}, "h.minSizeGigabytes: 999999: disks of labs have up to 65536 GiB"),
        ({"deviceName": "/dev/nvme99n1"}, "h.deviceName: /dev/nvme99n1: machines of a lab have up to 26 disks"),
        ({"wwn": 0x5000C500A0B1C2D3}, "h.wwn: 5764824129520911059 is a number to YAML: put it in quotes"),
        ({"deviceNam": "/dev/sda"}, "h.deviceNam: there is no such hint; there are deviceName, hctl, "),
    ],
)
def test_what_cannot_be_had_is_told_by_its_hint(values, line):
    found_disks, [wrong] = disks(values)
    assert found_disks == ()
    assert wrong.startswith(line)
