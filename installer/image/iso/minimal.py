"""Minimal ISOs: without rootfs.img, which the live system then fetches from a URL (reference/installer.md §3.3).

The file's sectors are cut out and the plain files after it move up; all else stays where it was. OpenShift's minimal
image also has a placeholder for one more initrd, into which its image service puts static networks; here they are
appended to the initrd itself (`installer.ignition.early`).
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

from installer.common.formats import jsontext
from installer.common.iso9660 import PRIMARY, SECTOR, SUPPLEMENTARY, Extent, Iso, Record
from installer.common.kargareas import INFO, KargsArea, current_kargs, kargs_area
from installer.errors import ConfigError, IsoError, NoEmbedArea
from installer.image.iso.embed import set_kargs_patches
from installer.image.iso.overlay import Overlay
from installer.image.iso.records import boot_images, moved, records, records_of, volume_size_patches

ROOTFS = "images/pxeboot/rootfs.img"
# Partition tables have sectors of their own (UEFI 2.10 §5.3); an MBR has its entries at byte 446.
_DISK_SECTOR, _SIGNATURE, _MBR_ENTRIES, _MAX_ARRAY = 512, b"EFI PART", 446, 1 << 20
_LIVE_ISO = re.compile(r"(?:^|(?<=\s))coreos\.liveiso=\S+ ?")


def _sectors(length: int) -> int:
    return (length + SECTOR - 1) // SECTOR


def live_kargs(kargs: str) -> str:
    """Return kernel arguments without the one that names the ISO which holds the root file system."""
    return _LIVE_ISO.sub("", kargs)


def minimal_kargs(kargs: str, url: str) -> str:
    """Return kernel arguments of a minimal image, whose root file system is fetched from `url`."""
    return f'{live_kargs(kargs)} coreos.live.rootfs_url="{url}"'.strip()


def check_url(url: str) -> None:
    """Refuse URLs that a boot loader would read differently; ConfigError."""
    if not re.fullmatch(r"https?://[^\s\"'$\\]+", url):
        raise ConfigError(f"invalid rootfs URL {url}: an http or https URL without blanks, quotes, $ and \\ is needed")


def _rootfs(iso: Iso) -> Extent:
    extent = iso.find(ROOTFS)
    if extent is None or extent.directory:
        raise IsoError(iso.path, f"has no {ROOTFS}: it is a minimal image, or not a CoreOS live ISO")
    return extent


def extract_rootfs(overlay: Overlay, path: object, dest: Path) -> None:
    """Write the root file system of the image as `dest`. Raises IsoError."""
    extent = _rootfs(overlay.iso(str(path)))
    part = Overlay(overlay.base)
    part.move(0, extent.offset, extent.length)
    part.truncate(extent.length)
    part.save(dest, 0o644)


def make_minimal(overlay: Overlay, path: object, url: str) -> None:
    """Take the root file system out, and make the kernel arguments fetch it from `url`.

    Raises IsoError and its children where the image cannot be made minimal, ConfigError for a URL that cannot be used.
    """
    check_url(url)
    iso = overlay.iso(str(path))
    rootfs = _rootfs(iso)
    area = kargs_area(iso)
    if area is None:
        raise NoEmbedArea(str(path), "no kernel argument areas, so a rootfs URL cannot be added")
    _set_url(overlay, iso, area, url)
    _cut(overlay, overlay.iso(str(path)), rootfs)


def _set_url(overlay: Overlay, iso: Iso, area: KargsArea, url: str) -> None:
    """Set the URL in the arguments and their default, so that `reset` does not bring back the name of the full ISO."""
    default = minimal_kargs(area.default, url)
    overlay.apply(set_kargs_patches(iso, area, minimal_kargs(current_kargs(iso, area), url)))
    extent = iso.find(INFO)
    if extent is None:
        return
    info = jsontext.loads(iso.read(extent.offset, extent.length))
    text = json.dumps({**info, "default": default}).encode()
    if len(text) > _sectors(extent.length) * SECTOR:
        raise IsoError(iso.path, f"{INFO} has no room for a longer text")
    for record in records_of(iso, extent):
        overlay.apply([moved(record, extent.offset, len(text))])
    overlay.zero(extent.offset, _sectors(extent.length) * SECTOR)
    overlay.write_at(extent.offset, text)


def _remove_record(overlay: Overlay, iso: Iso, record: Record) -> None:
    """Remove a directory record: those after it in its sector move up."""
    end = (record.position // SECTOR + 1) * SECTOR
    after = record.position + record.size
    overlay.write_at(record.position, iso.read(after, end - after) + bytes(record.size))


def _fixed(iso: Iso, entries: list[Record]) -> list[int]:
    """Return offsets of all that must not move: directories, path tables, boot catalog and boot images."""
    offsets = [record.offset for record in entries if record.directory]
    for descriptor in iso.descriptors():
        sector = descriptor.sector
        if descriptor.kind in (PRIMARY, SUPPLEMENTARY):
            places = (struct.unpack_from(form, sector, at)[0] for form, at in (("<I", 140), ("<I", 144), (">I", 148)))
            offsets += [place * SECTOR for place in places]
    return offsets + boot_images(iso)


def _cut(overlay: Overlay, iso: Iso, rootfs: Extent) -> None:
    """Take the file out of the image, whose volumes and partition tables become as much shorter."""
    entries = records(iso)
    after = rootfs.offset + _sectors(rootfs.length) * SECTOR
    cut = after - rootfs.offset
    if any(place >= after for place in _fixed(iso, entries)):
        raise IsoError(iso.path, "has boot images or directories after its root file system, which cannot move")
    removed = [r for r in entries if not r.directory and (r.offset, r.length) == (rootfs.offset, rootfs.length)]
    old_size = overlay.size
    # First move the files' extents, then remove the record: removing one moves others.
    for record in entries:
        if not record.directory and record.length and record.offset >= after:
            overlay.apply([moved(record, record.offset - cut, record.length)])
    changed = overlay.iso(iso.path)
    for record in sorted(removed, key=lambda record: -record.position):
        _remove_record(overlay, changed, record)
    overlay.move(rootfs.offset, after, old_size - after)
    overlay.truncate(old_size - cut)
    overlay.apply(volume_size_patches(overlay.iso(iso.path), overlay.size))
    resize_tables(overlay, old_size)


def _read(overlay: Overlay, offset: int, length: int) -> bytes:
    overlay.seek(offset)
    return overlay.read(length)


def _resize_mbr(overlay: Overlay, old: int, new: int) -> None:
    """Partitions that reached to the end of the old image reach to the end of the new one."""
    raw = _read(overlay, 0, _DISK_SECTOR)
    if raw[510:512] != b"\x55\xaa":
        return
    for index in range(4):
        at = _MBR_ENTRIES + 16 * index
        start, count = struct.unpack_from("<II", raw, at + 8)
        if count and start + count > new:
            overlay.write_at(at + 12, struct.pack("<I", max(new - start, 1)))
        elif count and start + count == old:
            overlay.write_at(at + 12, struct.pack("<I", new - start))


def _crc(data: bytes) -> int:
    return zlib.crc32(data) & 0xFFFFFFFF


def resize_tables(overlay: Overlay, old_size: int) -> None:
    """Fit MBR and GPT of an image that was `old_size` bytes long to what it is now; nothing where it has none."""
    new = overlay.size // _DISK_SECTOR
    _resize_mbr(overlay, old_size // _DISK_SECTOR, new)
    header = bytearray(_read(overlay, _DISK_SECTOR, _DISK_SECTOR))
    # A backup header that was not at the end of the old image stays where it is.
    if header[:8] != _SIGNATURE or struct.unpack_from("<Q", header, 32)[0] != old_size // _DISK_SECTOR - 1:
        return
    header_size = struct.unpack_from("<I", header, 12)[0]
    entries_lba, count, entry_size = struct.unpack_from("<QII", header, 72)
    length = count * entry_size
    if not 92 <= header_size <= _DISK_SECTOR or not 0 < length <= _MAX_ARRAY or entry_size < 128:
        return
    array = bytearray(_read(overlay, entries_lba * _DISK_SECTOR, length))
    array_sectors = (length + _DISK_SECTOR - 1) // _DISK_SECTOR
    last_usable = new - array_sectors - 2
    if len(array) != length or last_usable < 0:
        return
    for at in range(0, length, entry_size):
        first, last = struct.unpack_from("<QQ", array, at + 32)
        if any(array[at : at + 16]) and last > last_usable:
            struct.pack_into("<Q", array, at + 40, max(first, last_usable))
    overlay.write_at(entries_lba * _DISK_SECTOR, bytes(array))
    struct.pack_into("<QQ", header, 24, 1, new - 1)
    struct.pack_into("<Q", header, 48, last_usable)
    struct.pack_into("<I", header, 88, _crc(bytes(array)))
    _put_header(overlay, header, header_size, 1)
    # The backup: the array, then the header in the last sector.
    overlay.write_at((new - 1 - array_sectors) * _DISK_SECTOR, bytes(array))
    struct.pack_into("<QQ", header, 24, new - 1, 1)
    struct.pack_into("<Q", header, 72, new - 1 - array_sectors)
    _put_header(overlay, header, header_size, new - 1)


def _put_header(overlay: Overlay, header: bytearray, size: int, lba: int) -> None:
    struct.pack_into("<I", header, 16, 0)
    struct.pack_into("<I", header, 16, _crc(bytes(header[:size])))
    overlay.write_at(lba * _DISK_SECTOR, bytes(header))
