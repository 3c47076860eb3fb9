"""Live media of CoreOS's layout: a kernel and initrds at fixed places, arguments where the medium lists them."""

from __future__ import annotations

import os
from typing import BinaryIO

from installer.common.iso9660 import Extent, Iso, NotIso9660
from installer.common.kargareas import ARGUMENT, INFO, current_kargs, kargs_area
from lab.machines.container.firmware import erofs
from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry, Room, copy_to_memory
from lab.machines.container.spec import FirmwareKind

KERNEL = "/images/pxeboot/vmlinuz"
INITRDS = ("/images/pxeboot/initrd.img", "/images/ignition.img")
# Platforms of El Torito, and the bytes of a boot catalog that begin a section.
_PLATFORMS: dict[FirmwareKind, int] = {"bios": 0x00, "uefi": 0xEF}
_SECTIONS = (0x90, 0x91)


class Medium(Iso):
    """An ISO image in a drive or on a stick, or one that was fetched."""

    def __init__(self, image: BinaryIO) -> None:
        """Read its descriptors and directories. Raises NotIso9660, OSError."""
        super().__init__(image, "the medium")
        self.image = image
        self.files = self.tree()
        self.platforms = self._platforms()

    def _platforms(self) -> set[int]:
        """Return the platforms of its boot catalogs: of the validation entry, and of each section."""
        found = set()
        for _, catalog in self.boot_catalogs():
            if catalog[0] != 1 or catalog[30:32] != b"\x55\xaa":
                raise self.fault("its boot catalog is damaged")
            found |= {catalog[1], *(catalog[at + 1] for at in range(64, len(catalog), 32) if catalog[at] in _SECTIONS)}
        return found


def entry(medium: Medium, firmware: FirmwareKind) -> Entry:
    """Find what the medium starts under ``firmware``. Raises NoEntry, BootStopped."""
    try:
        if _PLATFORMS[firmware] not in medium.platforms:
            raise NoEntry("no boot image for this firmware on the medium")
        area = kargs_area(medium)
        if area is None:
            raise BootStopped(
                f"error: the medium has no {INFO}: a container's firmware starts live media of CoreOS; use virtual "
                "machines for others."
            )
        text = current_kargs(medium, area)
    except NotIso9660 as error:
        raise BootStopped(f"error: {error}") from error
    for name in (KERNEL, *INITRDS):
        if _file(medium, name) is None:
            raise BootStopped(f"error: file `{name}' not found.")
    words = ARGUMENT.findall(text.encode(errors="surrogateescape").decode(errors="replace"))
    return Entry(KERNEL, (f"BOOT_IMAGE={KERNEL}", *words), INITRDS)


def initrds(medium: Medium, chosen: Entry, room: Room) -> list[int]:
    """Read initrds into files in memory. Raises BootStopped."""
    files = []
    for extent in filter(None, (_file(medium, name) for name in chosen.initrds)):
        room.take(extent.name, extent.length)
        medium.image.seek(extent.offset)
        files.append(copy_to_memory(medium.image, extent.length))
    return files


def _file(medium: Medium, name: str) -> Extent | None:
    """Look up a file in what was read of the medium."""
    found = medium.files.get(name.strip("/"))
    return None if found is None or found.directory else found


def index(medium: Medium) -> int | None:
    """Make an index of the medium for erofs: a file in memory; None where erofs has no form for it."""
    try:
        content = erofs.index(medium.files, medium.size, medium.volume_id)
    except erofs.CannotIndex:
        return None
    descriptor = os.memfd_create("medium.erofs")
    os.write(descriptor, content)
    return descriptor
