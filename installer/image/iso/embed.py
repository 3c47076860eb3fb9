"""Embed areas of CoreOS live ISOs: where they are, what is in them, what to write (reference/installer.md §3.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from installer.common.formats import jsontext
from installer.errors import EmbedTooBig, NoEmbedArea, NotIso9660
from installer.image import cpio
from installer.image.iso.iso9660 import SYSTEM_AREA, Extent, Iso

CONFIG_NAME = "config.ign"
_KARGS_LIMIT = 2048
_IGNITION_HEADER = b"coreiso+"
_KARGS_HEADER = b"coreKarg"


@dataclass(frozen=True)
class Patch:
    """Bytes to be written at a byte offset of the image; never longer than the area that they are for."""

    offset: int
    data: bytes = field(repr=False)  # an Ignition config, with its secrets


@dataclass(frozen=True)
class KargsArea:
    """The kernel arguments of a live ISO: identical text in every area, each `length` bytes."""

    areas: tuple[Extent, ...]
    default: str
    pad: str
    ends: tuple[str, ...]


def _json(iso: Iso, path: str) -> dict[str, Any] | None:
    raw = iso.file(path)
    if raw is None:
        return None
    try:
        value = jsontext.loads(raw)
    except ValueError as error:
        raise NotIso9660(iso.path, f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NotIso9660(iso.path, f"{path} is not a JSON object")
    return value


def _within(iso: Iso, area: Extent, what: str) -> Extent:
    if area.offset < 0 or area.length <= 0 or area.offset + area.length > iso.size:
        raise NotIso9660(iso.path, f"the {what} area lies outside the image")
    return area


def ignition_area(iso: Iso) -> Extent:
    """Find an Ignition config's place: by igninfo.json, else all of ignition.img, else the header of 2020's images."""
    info = _json(iso, "coreos/igninfo.json")
    if info is not None:
        name = str(info.get("file", ""))
        file = iso.find(name)
        if file is None or file.directory:
            raise NotIso9660(iso.path, f"coreos/igninfo.json names {name or 'no file'}, which is not in the image")
        offset = int(info.get("offset") or 0)
        length = int(info.get("length") or file.length - offset)
        if offset < 0 or offset + length > file.length:
            raise NotIso9660(iso.path, f"coreos/igninfo.json reaches beyond the end of {name}")
        return _within(iso, file.slice(offset, length), "Ignition embed")
    file = iso.find("images/ignition.img")
    if file is not None and not file.directory and file.length:
        return _within(iso, file, "Ignition embed")
    header = iso.read(SYSTEM_AREA - 24, 24)
    if header[:8] == _IGNITION_HEADER:
        offset, length = struct.unpack_from("<QQ", header, 8)
        return _within(iso, Extent("coreiso+", offset, length, False), "Ignition embed")
    raise NoEmbedArea(iso.path, "no Ignition embed area: this is not a CoreOS live ISO")


def embedded_ignition(iso: Iso) -> bytes | None:
    """Return the Ignition config in the image, or None if its area is empty."""
    area = ignition_area(iso)
    if area.length > cpio.UNPACKED_LIMIT:
        raise ValueError(f"an Ignition area of {area.length} bytes, more than {cpio.UNPACKED_LIMIT}")
    data = iso.read(area.offset, area.length)
    if not data.strip(b"\0"):
        return None
    return cpio.unpack(cpio.decompress(data)).get(CONFIG_NAME)


def ignition_patch(iso: Iso, config: bytes) -> Patch:
    """Return the patch that puts `config` into the image; EmbedTooBig if it does not fit."""
    area = ignition_area(iso)
    packed = cpio.compress(cpio.pack({CONFIG_NAME: config}), area.length)
    if len(packed) > area.length:
        raise EmbedTooBig(iso.path, "the Ignition config", len(packed), area.length)
    return Patch(area.offset, packed + bytes(area.length - len(packed)))


def kargs_area(iso: Iso) -> KargsArea | None:
    """Return the kernel argument areas by kargs.json, else by the header in the system area, else None."""
    info = _json(iso, "coreos/kargs.json")
    if info is not None:
        areas, ends = [], []
        size = int(info.get("size") or 0)
        pad = "#"
        for entry in info.get("files") or ():
            file = iso.find(str(entry.get("path", "")))
            if file is None or file.directory:
                raise NotIso9660(iso.path, f"coreos/kargs.json names {entry.get('path')}, which is not in the image")
            areas.append(_within(iso, file.slice(int(entry.get("offset") or 0), size), "kernel argument"))
            ends.append(str(entry.get("end") or "\n"))
            pad = str(entry.get("pad") or "#")
        default = str(info.get("default") or "").strip()
    else:
        header = iso.read(SYSTEM_AREA - 24 - 72, 72)
        if header[:8] != _KARGS_HEADER:
            return None
        size, default_at, *offsets = struct.unpack_from("<8Q", header, 8)
        if size > _KARGS_LIMIT:
            raise NotIso9660(iso.path, f"kernel argument areas of {size} bytes: more than {_KARGS_LIMIT}")
        used = offsets[: offsets.index(0)] if 0 in offsets else offsets
        areas = [_within(iso, Extent("coreKarg", at, size, False), "kernel argument") for at in used]
        ends, pad = ["\n"] * len(areas), "#"
        default = iso.read(default_at, size).decode(errors="replace").rstrip("#\n\0 ").strip()
    if not areas:
        return None
    if size > _KARGS_LIMIT or len(default) >= size:
        raise NotIso9660(iso.path, f"kernel argument areas of {size} bytes for a default of {len(default)}")
    return KargsArea(tuple(areas), default, pad, tuple(ends))


def current_kargs(iso: Iso, area: KargsArea) -> str:
    """Return the kernel arguments that are in the image now; all areas must agree."""
    texts = set()
    for extent, end in zip(area.areas, area.ends, strict=True):
        # Whatever bytes are there are kept.
        raw = iso.read(extent.offset, extent.length).decode(errors="surrogateescape")
        texts.add(raw.rstrip(area.pad).removesuffix(end).strip())
    if len(texts) != 1:
        raise NotIso9660(iso.path, "the kernel argument areas differ from each other")
    return texts.pop()


#: What becomes of kernel arguments: some are appended, or a function is given them and returns others.
KargsEdit = tuple[str, ...] | Callable[[str], str]


def edited_kargs(before: str, edit: KargsEdit) -> str:
    """Return the arguments after an edit."""
    return edit(before) if callable(edit) else " ".join([before, *edit]).strip()


def kargs_patches(iso: Iso, edit: KargsEdit) -> list[Patch]:
    """Return the patches that change the kernel arguments; NoEmbedArea if the image has no place for them."""
    if not edit:
        return []
    area = kargs_area(iso)
    if area is None:
        added = f"so {' '.join(edit)} cannot be added" if not callable(edit) else "so they cannot be changed"
        raise NoEmbedArea(iso.path, f"no kernel argument areas, {added}")
    return set_kargs_patches(iso, area, edited_kargs(current_kargs(iso, area), edit))


def set_kargs_patches(iso: Iso, area: KargsArea, text: str) -> list[Patch]:
    """Return the patches that make `text` the kernel arguments; EmbedTooBig if an area cannot hold it."""
    patches = []
    for extent, end in zip(area.areas, area.ends, strict=True):
        line = (text + end).encode(errors="surrogateescape")
        if len(line) > extent.length:
            raise EmbedTooBig(iso.path, "the kernel command line", len(line), extent.length)
        patches.append(Patch(extent.offset, line.ljust(extent.length, area.pad.encode())))
    return patches
