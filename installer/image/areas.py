"""Where a CoreOS live ISO keeps its embed areas (reference/installer.md §3.1, §3.2)."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

from installer.errors import NoEmbedArea, NotIso9660

SECTOR = 2048
SYSTEM_AREA = 32768
HEADER_MAGIC = b"coreiso+"
HEADER_SIZE = 24  # magic, u64le offset, u64le length; at the very end of the system area


@dataclass(frozen=True)
class Area:
    """A region of an ISO, in bytes from its start."""

    offset: int
    length: int


def _iso_name(path: str) -> str:
    """The ISO 9660 name of a path: upper case, extension cut to three characters, version 1."""
    head, _, name = path.strip("/").rpartition("/")
    stem, dot, extension = name.partition(".")
    folder = f"/{head.upper()}" if head else ""
    return f"{folder}/{stem.upper()}{dot}{extension[:3].upper()};1"


@contextmanager
def opened(iso: Path) -> Iterator[pycdlib.PyCdlib]:
    """The ISO's directory; NotIso9660 when it cannot be read as one."""
    reader = pycdlib.PyCdlib()
    try:
        reader.open(str(iso))
    except (PyCdlibException, struct.error, ValueError, IndexError) as error:
        raise NotIso9660(iso, f"not an ISO 9660 image ({error})") from error
    except OSError as error:
        raise NotIso9660(iso, f"cannot be read: {error.strerror or error}") from error
    try:
        yield reader
    finally:
        reader.close()


def _lookup(reader: pycdlib.PyCdlib, path: str) -> dict[str, str] | None:
    """pycdlib's argument that names `path` in this ISO, or None when it has no such file."""
    choices = [{"iso_path": _iso_name(path)}, {"iso_path": f"/{path.strip('/').upper()};1"}]
    if reader.has_rock_ridge():
        choices.insert(0, {"rr_path": f"/{path.strip('/')}"})
    for choice in choices:
        try:
            record = reader.get_record(**choice)
        except PyCdlibException:
            continue
        if not record.is_dir():
            return choice
    return None


def file_area(reader: pycdlib.PyCdlib, path: str) -> Area | None:
    """Where a file's content lies, or None when the ISO has no such file."""
    choice = _lookup(reader, path)
    if choice is None:
        return None
    record = reader.get_record(**choice)
    return Area(record.extent_location() * SECTOR, record.get_data_length())


def read_file(reader: pycdlib.PyCdlib, path: str) -> bytes | None:
    """A file's content, or None when the ISO has no such file."""
    choice = _lookup(reader, path)
    if choice is None:
        return None
    out = io.BytesIO()
    reader.get_file_from_iso_fp(out, **choice)
    return out.getvalue()


def _from_igninfo(reader: pycdlib.PyCdlib, iso: Path) -> Area | None:
    raw = read_file(reader, "coreos/igninfo.json")
    if raw is None:
        return None
    try:
        info: Any = json.loads(raw)
        file, offset, length = str(info["file"]), int(info.get("offset") or 0), info.get("length")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoEmbedArea(iso, f"/coreos/igninfo.json is damaged: {error}") from error
    whole = file_area(reader, file)
    if whole is None:
        raise NoEmbedArea(iso, f"/coreos/igninfo.json names {file}, which the ISO does not have")
    size = whole.length - offset if length is None else int(length)
    if offset < 0 or size <= 0 or offset + size > whole.length:
        raise NoEmbedArea(
            iso, f"/coreos/igninfo.json names bytes {offset} to {offset + size} of {file} ({whole.length})"
        )
    return Area(whole.offset + offset, size)


def _from_header(iso: Path) -> Area | None:
    """The header of 2020 and 2021: the last 24 bytes of the system area."""
    with iso.open("rb") as file:
        file.seek(SYSTEM_AREA - HEADER_SIZE)
        header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE or not header.startswith(HEADER_MAGIC):
        return None
    offset, length = struct.unpack("<QQ", header[len(HEADER_MAGIC) :])
    return Area(offset, length)


def ignition_area(iso: Path) -> Area:
    """Where the Ignition config goes: igninfo.json, else the whole of images/ignition.img, else the old header."""
    with opened(iso) as reader:
        area = _from_igninfo(reader, iso) or file_area(reader, "images/ignition.img")
    area = area or _from_header(iso)
    if area is None:
        raise NoEmbedArea(iso, "no area for an Ignition config: not a CoreOS live ISO")
    size = iso.stat().st_size
    if area.length <= 0 or area.offset + area.length > size:
        raise NoEmbedArea(
            iso, f"its embed area ends at byte {area.offset + area.length}, the file has {size}: the ISO is cut short"
        )
    return area
