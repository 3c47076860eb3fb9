"""The kernel arguments that a CoreOS live ISO lists (reference/installer.md §3.2)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

from installer.common.formats import jsontext
from installer.common.iso9660 import SYSTEM_AREA, Extent, Iso

INFO = "coreos/kargs.json"
#: A kernel argument; blanks within quotes belong to it.
ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*")+')
_LIMIT = 2048
_HEADER = b"coreKarg"


@dataclass(frozen=True)
class KargsArea:
    """The kernel arguments of a live ISO: identical text in every area, each `length` bytes."""

    areas: tuple[Extent, ...]
    default: str
    pad: str
    ends: tuple[str, ...]


def json_object(iso: Iso, path: str) -> dict[str, Any] | None:
    """Read a JSON object from a file of the image, None if there is no such file. Raises the image's fault."""
    raw = iso.file(path)
    if raw is None:
        return None
    try:
        value = jsontext.loads(raw)
    except ValueError as error:
        raise iso.fault(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise iso.fault(f"{path} is not a JSON object")
    return value


def within(iso: Iso, area: Extent, name: str) -> Extent:
    """Check that the area lies in the image. Raises the image's fault."""
    if area.offset < 0 or area.length <= 0 or area.offset + area.length > iso.size:
        raise iso.fault(f"the {name} area lies outside the image")
    return area


def kargs_area(iso: Iso) -> KargsArea | None:
    """Return the kernel argument areas by kargs.json, else by the header in the system area, else None."""
    info = json_object(iso, INFO)
    if info is None:
        return _by_header(iso)
    try:
        return _by_description(iso, info)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise iso.fault(f"{INFO} does not have the form that CoreOS gives it") from None


def _by_description(iso: Iso, info: dict[str, Any]) -> KargsArea | None:
    areas, ends = [], []
    size = int(info.get("size") or 0)
    pad = "#"
    for entry in info.get("files") or ():
        file = iso.find(str(entry.get("path", "")))
        if file is None or file.directory:
            raise iso.fault(f"{INFO} names {entry.get('path')}, which is not in the image")
        areas.append(within(iso, file.slice(int(entry.get("offset") or 0), size), "kernel argument"))
        ends.append(str(entry.get("end") or "\n"))
        pad = str(entry.get("pad") or "#")
        if len(pad.encode()) != 1:
            raise ValueError
    return _checked(iso, KargsArea(tuple(areas), str(info.get("default") or "").strip(), pad, tuple(ends)), size)


def _by_header(iso: Iso) -> KargsArea | None:
    header = iso.read(SYSTEM_AREA - 24 - 72, 72)
    if header[:8] != _HEADER:
        return None
    size, default_at, *offsets = struct.unpack_from("<8Q", header, 8)
    if size > _LIMIT:
        raise iso.fault(f"kernel argument areas of {size} bytes: more than {_LIMIT}")
    used = offsets[: offsets.index(0)] if 0 in offsets else offsets
    areas = tuple(within(iso, Extent("coreKarg", at, size, False), "kernel argument") for at in used)
    default = iso.read(default_at, size).decode(errors="replace").rstrip("#\n\0 ").strip()
    return _checked(iso, KargsArea(areas, default, "#", ("\n",) * len(areas)), size)


def _checked(iso: Iso, area: KargsArea, size: int) -> KargsArea | None:
    if not area.areas:
        return None
    if size > _LIMIT or len(area.default) >= size:
        raise iso.fault(f"kernel argument areas of {size} bytes for a default of {len(area.default)}")
    return area


def current_kargs(iso: Iso, area: KargsArea) -> str:
    """Return the kernel arguments that are in the image now; all areas must agree."""
    texts = set()
    for extent, end in zip(area.areas, area.ends, strict=True):
        # Whatever bytes are there are kept.
        raw = iso.read(extent.offset, extent.length).decode(errors="surrogateescape")
        texts.add(raw.rstrip(area.pad).removesuffix(end).strip())
    if len(texts) != 1:
        raise iso.fault("the kernel argument areas differ from each other")
    return texts.pop()
