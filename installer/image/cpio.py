"""newc cpio archives, as the kernel unpacks them over its initramfs (Linux: early userspace buffer format)."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"
# To Python a number may have a sign, blanks and underscores: a size below zero would never come to an end.
_HEADER = re.compile(rb"070701[0-9A-Fa-f]{104}")
#: Bytes that an archive of an image may unpack to.
UNPACKED_LIMIT = 256 << 20


def _pad4(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _member(inode: int, name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    # ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = _MAGIC + b"".join(b"%08X" % value for value in fields)
    return _pad4(header + encoded) + _pad4(content)


def pack(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    """Return an archive of regular files, with the directories that they need; the same input gives the same bytes."""
    return pack_modes([(path, content, mode) for path, content in sorted(files.items())])


def pack_modes(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """Return an archive of regular files (path, content, permission bits) in their order."""
    members: list[tuple[str, int, bytes]] = []
    seen: set[str] = set()
    for path, content, mode in files:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            directory = "/".join(parts[:depth])
            if directory not in seen:
                seen.add(directory)
                members.append((directory, 0o040755, b""))
        members.append(("/".join(parts), 0o100000 | mode, content))
    return b"".join(pieces(members))


def pieces(members: Iterable[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """Yield an archive, member by member, of (path, mode with its file type, content; a link's is where it leads).

    No directories are added: one that is a link in the archive before this one would be replaced by them.
    """
    inode = 0
    for inode, member in enumerate(members, 1):
        yield _member(inode, *member)
    yield _member(inode + 1, _TRAILER, 0, b"")


def joined(*archives: bytes) -> bytes:
    """Compressed archives that are not empty, as an initrd may hold several: each begins at a multiple of four."""
    whole = b""
    for archive in archives:
        whole = _pad4(whole) + archive if archive else whole
    return whole


def unpack(archive: bytes) -> dict[str, bytes]:
    """Return the regular files of one archive; ValueError if it is damaged."""
    files: dict[str, bytes] = {}
    position = 0
    while True:
        header = archive[position : position + 110]
        if not _HEADER.fullmatch(header):
            raise ValueError("not a newc cpio archive")
        values = [int(header[6 + 8 * i : 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = values[1], values[6], values[11]
        name_end = position + 110 + name_size
        name = archive[position + 110 : name_end - 1].decode()
        start = (name_end + 3) // 4 * 4
        if start + size > len(archive):
            raise ValueError("truncated cpio archive")
        if name == _TRAILER:
            return files
        if mode & 0o170000 == 0o100000:
            files[name] = archive[start : start + size]
        position = (start + size + 3) // 4 * 4


def compress(archive: bytes, limit: int | None = None) -> bytes:
    """gzip, which every kernel unpacks fast; xz with the kernel's CRC-32 check where only that fits `limit` bytes."""
    packed = gzip.compress(archive, 9, mtime=0)
    if limit is not None and len(packed) > limit:
        smaller = lzma.compress(archive, lzma.FORMAT_XZ, lzma.CHECK_CRC32, 6)
        return smaller if len(smaller) < len(packed) else packed
    return packed


def decompress(data: bytes) -> bytes:
    """Return the first member of a compressed archive, whatever padding follows; ValueError if it is damaged or too
    large."""
    try:
        if data.startswith(b"\x1f\x8b"):
            plain = zlib.decompressobj(wbits=31).decompress(data, UNPACKED_LIMIT + 1)
        elif data.startswith(b"\xfd7zXZ\0"):
            plain = lzma.LZMADecompressor(lzma.FORMAT_XZ, UNPACKED_LIMIT).decompress(data, UNPACKED_LIMIT + 1)
        else:
            plain = data
    except (zlib.error, lzma.LZMAError) as error:
        raise ValueError(str(error)) from None
    if len(plain) > UNPACKED_LIMIT:
        raise ValueError(f"it unpacks to more than {UNPACKED_LIMIT} bytes")
    return plain
