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
    assert (wrong, disk.bus, disk.rotational) == ([], bus, rotational)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"vendor": "ata"},
            "h.vendor: 'ata': the vendors of a lab's disks are QEMU (scsi) and ATA (sata); there are no others",
        ),
        ({"vendor": "QEMU", "deviceName": "/dev/vda"}, "h.vendor: deviceName means bus virtio, whose disks tell none"),
        ({"vendor": "ATA", "hctl": "0:0:0:0"}, "h.hctl: a lab's SCSI disks have it, and their vendor is not ATA"),
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
