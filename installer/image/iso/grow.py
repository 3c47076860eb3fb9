"""Files that become longer, and short again: Ignition configs that outgrow the embed area, additions to the initrd.

The file moves to the image's end, longer than before.

OpenShift unpacks the image and makes a new one (assisted-image-service, pkg/isoeditor); here nothing else moves: only
the file's directory records change, and what they were is kept at the very end, so that `reset` gives the original
bytes again. New length, and when to grow: reference/installer.md §3.2.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass

from installer.common import cpio
from installer.common.formats import jsontext
from installer.common.iso9660 import SECTOR, SYSTEM_AREA, Extent, Iso
from installer.common.kargareas import kargs_area
from installer.errors import IsoError, NoEmbedArea, NotIso9660
from installer.image.iso.embed import CONFIG_NAME, Patch, ignition_area, ignition_patch, set_kargs_patches
from installer.image.iso.overlay import Overlay
from installer.image.iso.records import boot_images, moved, records_of, volume_size_patches

_MAGIC = b"node0-undo-v1\0\0\0"
_FOOTER = struct.Struct("<16sQQ")  # magic, bytes of the undo text before this footer, size of the image before
_INFO = "coreos/igninfo.json"
INITRD = "images/pxeboot/initrd.img"
_S390X_BOOT = "cdboot.img"
_HEADER = SYSTEM_AREA - 24


def grown_length(area: int, content: int) -> int:
    """Return the length of the embed area for `content` bytes: quarters of what it was, one of them left free."""
    chunk = (area + 3) // 4
    if content + chunk <= area:
        return area
    return (1 + (content + chunk - 1) // chunk) * chunk


def _file_of(iso: Iso, area: Extent) -> Extent | None:
    """Return the file that the area is in, if the area reaches to its end and only its name leads there: it can grow.

    A boot image is loaded from where the boot catalog says, as long as it was made: s390x has its area in one.
    """
    info = iso.file(_INFO)
    name = "images/ignition.img"
    if info is not None:
        name = str(jsontext.loads(info).get("file", ""))
    file = iso.find(name)
    if name.endswith(_S390X_BOOT) or (file is not None and file.offset in boot_images(iso)):
        return None
    if file is None or file.directory or area.offset + area.length != file.offset + file.length:
        return None
    return file if file.offset <= area.offset else None


def embed_ignition(overlay: Overlay, path: object, config: bytes) -> bool:
    """Put `config` into the image; True when its embed area had to grow. Raises EmbedTooBig where it cannot."""
    iso = overlay.iso(str(path))
    area = ignition_area(iso)
    packed = cpio.compress(cpio.pack({CONFIG_NAME: config}))
    length = grown_length(area.length, len(packed))
    file = _file_of(iso, area)
    if length == area.length or file is None:
        overlay.apply([ignition_patch(iso, config)])
        return False
    prefix = area.offset - file.offset
    patches = _info_patches(iso, prefix, length) + _header_patches(iso, area, new_place(overlay) + prefix, length)
    relocate(overlay, iso, file, packed, keep=prefix, length=prefix + length, patches=patches)
    return True


def add_to_initrd(overlay: Overlay, path: object, archive: bytes) -> bool:
    """Append a compressed cpio archive to the live system's initrd; False where no boot loader would read it.

    Boot loaders find the initrd by its name, but on s390x, where a copy of it is in the boot image. Raises IsoError.
    """
    iso = overlay.iso(str(path))
    file = iso.find(INITRD)
    if file is None or file.directory:
        raise IsoError(str(path), f"has no {INITRD}: it is not a CoreOS live ISO")
    if iso.find(f"images/{_S390X_BOOT}") is not None or file.offset in boot_images(iso):
        return False
    patches: list[Patch] = []
    area = ignition_area(iso)
    if file.offset <= area.offset < file.offset + file.length:
        inside = area.offset - file.offset
        patches += _info_patches(iso, inside, area.length, always=True)
        patches += _header_patches(iso, area, new_place(overlay) + inside, area.length)
    tail = bytes(-file.length % 4) + archive
    relocate(overlay, iso, file, tail, keep=file.length, length=file.length + len(tail), patches=patches)
    return True


def new_place(overlay: Overlay) -> int:
    """Return the byte offset that `relocate` will give the next file: the first sector after the image's end."""
    return (overlay.size + SECTOR - 1) // SECTOR * SECTOR


def relocate(
    overlay: Overlay, iso: Iso, file: Extent, tail: bytes, *, keep: int, length: int, patches: list[Patch]
) -> None:
    """Move a file to the image's end: its first `keep` bytes, `tail`, and zeros up to `length`.

    `patches`: what else changes with that. What all of them replace is kept at the very end.
    """
    start, before = new_place(overlay), overlay.size
    patches = [*(moved(record, start, length) for record in records_of(iso, file)), *patches]
    end = start + (length + SECTOR - 1) // SECTOR * SECTOR
    # How long the undo text is does not depend on the size that the volumes get.
    room = len(_undo(overlay, [*patches, *volume_size_patches(iso, end)], before))
    total = end + (room + SECTOR - 1) // SECTOR * SECTOR
    patches += volume_size_patches(iso, total)
    undo = _undo(overlay, patches, before)
    overlay.move(start, file.offset, keep)
    overlay.write_at(start + keep, tail)
    overlay.zero(start + keep + len(tail), length - keep - len(tail))
    overlay.apply(patches)
    overlay.zero(overlay.size, total - overlay.size)
    overlay.write_at(total - len(undo), undo)


def _info_patches(iso: Iso, prefix: int, length: int, always: bool = False) -> list[Patch]:
    """Return a new igninfo.json, where the one in the image gives a length, or `always`."""
    extent = iso.find(_INFO)
    if extent is None:
        return []
    info = jsontext.loads(iso.read(extent.offset, extent.length))
    if not (info.get("length") or always):
        return []
    text = json.dumps({**info, "offset": prefix, "length": length}).encode()
    room = (extent.length + SECTOR - 1) // SECTOR * SECTOR
    if len(text) > room:
        raise iso.fault(f"{_INFO} has no room for a longer text")
    padded = text.ljust(extent.length, b"\n")
    records = records_of(iso, extent) if len(padded) != extent.length else []
    return [Patch(extent.offset, padded), *(moved(record, extent.offset, len(padded)) for record in records)]


def _header_patches(iso: Iso, area: Extent, offset: int, length: int) -> list[Patch]:
    """Return the header of 2020's images with the area's new place, for images whose header names the area."""
    if iso.read(_HEADER, 24) != struct.pack("<8sQQ", b"coreiso+", area.offset, area.length):
        return []
    return [Patch(_HEADER, struct.pack("<8sQQ", b"coreiso+", offset, length))]


def _undo(overlay: Overlay, patches: list[Patch], size: int) -> bytes:
    saved = []
    for patch in patches:
        overlay.seek(patch.offset)
        saved.append([patch.offset, base64.b64encode(overlay.read(len(patch.data))).decode()])
    text = json.dumps(saved, separators=(",", ":")).encode()
    return text + _FOOTER.pack(_MAGIC, len(text), size)


def undo_growth(overlay: Overlay, path: object) -> bool:
    """Take back the last growth, if there was one; True if so. Raises NotIso9660 for a damaged record of it."""
    size = overlay.size
    if size < _FOOTER.size:
        return False
    overlay.seek(size - _FOOTER.size)
    magic, length, before = _FOOTER.unpack(overlay.read(_FOOTER.size))
    if magic != _MAGIC:
        return False
    try:
        if before > size - _FOOTER.size - length:
            raise ValueError
        overlay.seek(size - _FOOTER.size - length)
        saved = [(int(offset), base64.b64decode(data)) for offset, data in jsontext.loads(overlay.read(length))]
        if any(offset < 0 or offset + len(data) > before for offset, data in saved):
            raise ValueError
    except (ValueError, TypeError) as error:
        raise NotIso9660(str(path), "the record of how the image grew is damaged") from error
    for offset, data in saved:
        overlay.write_at(offset, data)
    overlay.truncate(before)
    return True


@dataclass(frozen=True)
class Growth:
    """Growth of an image: `area` if the embed area is longer than it was made, `initrd` in bytes."""

    area: bool
    initrd: int


def _lengths(overlay: Overlay, path: object) -> tuple[int, int]:
    iso = overlay.iso(str(path))
    initrd = iso.find(INITRD)
    try:
        area = ignition_area(iso).length
    except NoEmbedArea:
        area = 0
    return area, 0 if initrd is None else initrd.length


def growth(overlay: Overlay, path: object) -> Growth:
    """Measure the growth of the image, which is not changed. Raises IsoError."""
    probe = Overlay(overlay.base)
    current = _lengths(probe, path)
    while undo_growth(probe, path):
        pass
    original = _lengths(probe, path)
    return Growth(current[0] != original[0], current[1] - original[1])


def reset_image(overlay: Overlay, path: object) -> None:
    """Undo growth, empty the Ignition area, and put the default kernel arguments back. Raises IsoError."""
    while undo_growth(overlay, path):
        pass
    iso = overlay.iso(str(path))
    area = ignition_area(iso)
    overlay.zero(area.offset, area.length)
    kargs = kargs_area(iso)
    if kargs is not None:
        overlay.apply(set_kargs_patches(iso, kargs, kargs.default))
