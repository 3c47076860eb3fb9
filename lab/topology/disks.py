"""Disks of a machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from lab.buses import BUSES, Bus
from lab.topology.problems import Checked, Problem, unique, within

Holds = Literal["nothing", "data", "old-system"]

DISK_GIB = 20
MOST_GIB = 1 << 16
#: What `is_vendor` asks for.
VENDORS_CHARACTERS = "printable characters (ASCII), with a space at neither end"
_SERIAL = re.compile(r"^[A-Za-z0-9_.-]{1,20}$")
_WWN = re.compile(r"^0x[0-9a-f]{16}$")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST = len(_LETTERS)
_WITH_WWN = " or ".join(name for name, bus in BUSES.items() if bus.wwn)
_WITH_ROTATION = " or ".join(name for name, bus in BUSES.items() if bus.rotation)
_WITH_MODEL = " or ".join(name for name, bus in BUSES.items() if bus.model_length)
_WITH_VENDOR = " or ".join(name for name, bus in BUSES.items() if bus.vendor_length)
_WITH_PORTALS = " or ".join(name for name, bus in BUSES.items() if bus.remote)


class Disk(Checked, frozen=True, kw_only=True):
    """One disk of a machine.

    `size_gib` is in GiB (sparse); `serial` is its serial number (default: the machine's name and the device's); `root`
    marks the disk to install on. `holds` says what is on it beforehand (lab.machines.disks): nothing, somebody's data
    (a file system, a volume group, random bytes), or an old system's volume group. `wwn` (`0x` and 16 digits), `model`
    and `rotational` are what SATA and SCSI disks tell, `vendor` what SCSI disks do. With `bus: iscsi` the disk is one
    of a target in the lab, which answers in the networks that `portals` names; the machine's firmware attaches it, by
    several portals as one disk with several paths (multipath). A disk that `can_fail` does so by the faults DiskErrors
    and DiskSlow (lab.machines.failing).
    """

    size_gib: int = DISK_GIB
    serial: str = ""
    root: bool = False
    holds: Holds = "nothing"
    bus: Bus = "virtio"
    wwn: str = ""
    model: str = ""
    vendor: str = ""
    rotational: bool | None = None
    portals: tuple[str, ...] = ()
    can_fail: bool = False

    def problems(self) -> Iterator[Problem]:
        """See the class."""
        yield from within("size_gib", self.size_gib, 1, MOST_GIB)
        # A virtio disk reports up to 20 bytes of serial number (virtio 1.1, 5.2.6.1), which udev puts into names; ATA
        # and NVMe have as many.
        if self.serial and not _SERIAL.fullmatch(self.serial):
            yield "serial", f"{self.serial!r} is not of up to 20 letters, digits, dots, dashes and underscores"
        if self.wwn and not _WWN.fullmatch(self.wwn):
            yield "wwn", f"{self.wwn!r} is not 0x and 16 lower-case hex digits"
        bus = BUSES[self.bus]
        if self.wwn and not bus.wwn:
            yield "wwn", f"a {self.bus} disk has none; use bus {_WITH_WWN}"
        if self.rotational is not None and not bus.rotation:
            yield "rotational", f"a {self.bus} disk does not say so; use bus {_WITH_ROTATION}"
        if self.model and not bus.model_length:
            yield "model", f"a {self.bus} disk has none of its own; use bus {_WITH_MODEL}"
        elif len(self.model) > bus.model_length or not self.model.isprintable():
            yield "model", f"{self.model!r} is not of up to {bus.model_length} printable characters"
        if self.vendor and not bus.vendor_length:
            yield "vendor", f"a {self.bus} disk has none of its own; use bus {_WITH_VENDOR}"
        elif not is_vendor(self.vendor, bus.vendor_length):
            yield "vendor", f"{self.vendor!r} is not of up to {bus.vendor_length} {VENDORS_CHARACTERS}"
        for name, text in (("model", self.model), ("vendor", self.vendor)):
            if bus.remote and "," in text:
                yield name, f"{text!r}: the lab's iSCSI target takes none with a comma"
        if bus.remote and not self.portals:
            yield "portals", "an iSCSI disk needs the networks that its target is reached by"
        if self.portals and not bus.remote:
            yield "portals", f"a {self.bus} disk has none; use bus {_WITH_PORTALS}"
        if bus.remote and self.can_fail:
            yield "can_fail", "an iSCSI disk is the target's; use another bus"
        yield from unique([(f"portals[{i}]", name) for i, name in enumerate(self.portals)], "network")

    @property
    def multipath(self) -> bool:
        """True if there are several ways to it."""
        return len(self.portals) > 1


def is_vendor(text: str, length: int) -> bool:
    """Return whether a disk can have it for its vendor, in a field of so many bytes that it fills up with spaces."""
    return len(text) <= length and text.isascii() and text.isprintable() and text == text.strip(" ")


def kernel_names(disks: tuple[Disk, ...]) -> list[str]:
    """Return the kernel's names, without /dev/, as it detects disks in this order, remote ones after all others."""
    counts: Counter[str] = Counter()
    names = [""] * len(disks)
    for index, disk in sorted(enumerate(disks), key=lambda item: BUSES[item[1].bus].remote):
        kind = BUSES[disk.bus].kernel
        number, counts[kind] = counts[kind], counts[kind] + 1
        names[index] = f"nvme{number}n1" if kind == "nvme" else f"{kind}{_LETTERS[number % MOST]}"
    return names
