"""Embed areas of CoreOS live ISOs: places, content, and patches that change it (reference/installer.md §3.2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from installer.common import cpio
from installer.common.iso9660 import SYSTEM_AREA, Extent, Iso
from installer.common.kargareas import ARGUMENT, KargsArea, current_kargs, json_object, kargs_area, within
from installer.errors import ConfigError, EmbedTooBig, NoEmbedArea

CONFIG_NAME = "config.ign"
_IGNITION_HEADER = b"coreiso+"
#: Arguments without which the image would not find its root or its configuration.
NEEDED = ("coreos.liveiso", "coreos.live.rootfs_url", "ignition.firstboot", "ignition.platform.id")


@dataclass(frozen=True)
class Patch:
    """Bytes to be written at a byte offset of the image; never longer than the area that they are for."""

    offset: int
    data: bytes = field(repr=False)  # an Ignition config, with its secrets


def ignition_area(iso: Iso) -> Extent:
    """Find the area of the Ignition config: by igninfo.json, else all of ignition.img, else by the header of 2020."""
    info = json_object(iso, "coreos/igninfo.json")
    if info is not None:
        name = str(info.get("file", ""))
        file = iso.find(name)
        if file is None or file.directory:
            raise iso.fault(f"coreos/igninfo.json names {name or 'no file'}, which is not in the image")
        try:
            offset = int(info.get("offset") or 0)
            length = int(info.get("length") or file.length - offset)
        except (ValueError, TypeError, OverflowError):
            raise iso.fault("coreos/igninfo.json does not have the form that CoreOS gives it") from None
        if offset < 0 or offset + length > file.length:
            raise iso.fault(f"coreos/igninfo.json reaches beyond the end of {name}")
        return within(iso, file.slice(offset, length), "Ignition embed")
    file = iso.find("images/ignition.img")
    if file is not None and not file.directory and file.length:
        return within(iso, file, "Ignition embed")
    header = iso.read(SYSTEM_AREA - 24, 24)
    if header[:8] == _IGNITION_HEADER:
        offset, length = struct.unpack_from("<QQ", header, 8)
        return within(iso, Extent("coreiso+", offset, length, False), "Ignition embed")
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


def name_of(argument: str) -> str:
    """Return an argument's name, up to the first ``=``."""
    return argument.partition("=")[0]


def operated(text: str, operations: Sequence[Mapping[str, str]]) -> str:
    """Do each {operation, value} in turn to ``text``. Raises ConfigError for an operation that cannot be done.

    ``append`` adds; ``replace`` puts NAME=VALUE in the place of the first argument of that name, and takes out others;
    ``delete`` takes out every argument that is the value, or, for a value without ``=``, has it as its name.
    """
    arguments = ARGUMENT.findall(text)
    for item in operations:
        operation, value = item["operation"], item["value"]
        if operation == "append":
            arguments.append(value)
            continue
        name = name_of(value)
        if name in NEEDED:
            raise ConfigError(f"kernel argument {value} cannot be {operation}d: the image needs its own {name}")
        whole = operation == "delete" and "=" in value
        hit = [
            at for at, argument in enumerate(arguments) if (argument == value if whole else name_of(argument) == name)
        ]
        if not hit:
            raise ConfigError(f"kernel argument {value} cannot be {operation}d: the image has {' '.join(arguments)}")
        if operation == "replace":
            arguments[hit.pop(0)] = value
        arguments = [argument for at, argument in enumerate(arguments) if at not in hit]
    return " ".join(arguments)
