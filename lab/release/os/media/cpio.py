"""cpio archives in the kernel's "newc" form, written with members aligned where a reader mounts them in place."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

HEADER_LENGTH = 110
TRAILER = "TRAILER!!!"
# The kernel takes names up to PATH_MAX, the closing NUL included.
NAME_MAX = 4096


@dataclass(frozen=True)
class Member:
    """One regular file of an archive; ``mode`` are its permission bits."""

    name: str
    source: bytes | Path
    mode: int = 0o644

    @property
    def size(self) -> int:
        """Length of the content in bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size


def header(name: str, size: int, mode: int, inode: int, *, offset: int = 0, align: int = 4) -> bytes:
    """Header and name of a member that begins at ``offset`` of the archive, padded so that its data is aligned.

    The padding is part of the name field (more than one NUL at its end), which the kernel and cpio(1) read over.

    Raises:
        ValueError: ``align`` is no multiple of 4, or the padded name would be longer than the kernel takes.
    """
    if align % 4:
        raise ValueError(f"cpio data can be aligned to multiples of 4, not to {align}")
    raw = name.encode() + b"\0"
    data = offset + HEADER_LENGTH + len(raw)
    raw += b"\0" * (-data % align)
    if len(raw) > NAME_MAX:
        raise ValueError(f"the name of {name!r} with its padding has {len(raw)} bytes; the kernel takes {NAME_MAX}")
    fields = (inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(raw), 0)
    return b"070701" + b"".join(b"%08X" % field for field in fields) + raw


def write_archive(out: BinaryIO, members: Sequence[Member], align: int = 4) -> list[int]:
    """Write an archive of ``members`` at the start of ``out``; returns the offset of each one's data in bytes.

    ``align`` (bytes) holds for the first member's data only, which is the one that is mounted in place.
    """
    offsets: list[int] = []
    position = 0
    for inode, member in enumerate(members, start=1):
        head = header(member.name, member.size, 0o100000 | member.mode, inode, offset=position, align=align)
        align = 4
        out.write(head)
        position += len(head)
        offsets.append(position)
        if isinstance(member.source, bytes):
            out.write(member.source)
        else:
            with member.source.open("rb") as data:
                shutil.copyfileobj(data, out, 1 << 20)
        padding = -member.size % 4
        out.write(b"\0" * padding)
        position += member.size + padding
    out.write(header(TRAILER, 0, 0, 0, offset=position))
    return offsets
