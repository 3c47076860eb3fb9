"""newc cpio archives, as the kernel unpacks them over its initramfs (Linux, init/initramfs.c and
Documentation/driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

import gzip
import lzma
import mmap
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass

TRAILER = "TRAILER!!!"
# To Python a number may have a sign, blanks and underscores: a size below zero would never come to an end.
_HEADER = re.compile(rb"07070[12][0-9A-Fa-f]{104}")
_HEADER_BYTES = 110
_MAGICS = (b"070701", b"070702")
_GZIP, _XZ, _ZSTD, _LZ4_LEGACY = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x02\x21\x4c\x18"
_DECOMPRESS_SECONDS = 300
#: Bytes that an archive of an image may unpack to.
UNPACKED_LIMIT = 256 << 20


class BadArchive(ValueError):
    """An archive that the kernel would not unpack; ``str()`` says where and why."""


@dataclass(frozen=True)
class Member:
    """A file of an archive. ``data`` is a link's target too; ``mode`` has its type, ``rdev`` a device's number."""

    name: str
    mode: int
    data: memoryview
    _: KW_ONLY
    rdev: int = 0
    inode: tuple[int, int, int] = (0, 0, 0)
    links: int = 1


def _padding(length: int, align: int = 4) -> bytes:
    return bytes(-length % align)


def header(name: str, size: int, mode: int, inode: int, *, align: int = 4) -> bytes:
    """Return header and name of a member whose data begins at a multiple of ``align``, if the header does.

    The padding is part of the name (more than one NUL at its end), which the kernel and cpio(1) read over.
    """
    raw = name.encode() + b"\0"
    raw += _padding(_HEADER_BYTES + len(raw), align) if align > 4 else b""
    # ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    fields = (inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(raw), 0)
    head = _MAGICS[0] + b"".join(b"%08X" % value for value in fields) + raw
    return head + _padding(len(head))


def pieces(members: Iterable[tuple[str, int, bytes | mmap.mmap]], align: int = 4) -> Iterator[bytes | mmap.mmap]:
    """Yield an archive, piece by piece, of (path, mode with its file type, content; a link's is where it leads).

    The first member's data begins at a multiple of ``align``. No directories are added: one that is a link in the
    archive before this one would be replaced by them.
    """
    inode = 0
    for inode, (name, mode, content) in enumerate(members, 1):
        yield header(name, len(content), mode, inode, align=align if inode == 1 else 4)
        yield content
        yield _padding(len(content))
    yield header(TRAILER, 0, 0, inode + 1)


def pack(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    """Return an archive of regular files, with the directories that they need; the same input gives the same bytes."""
    return pack_modes([(path, content, mode) for path, content in sorted(files.items())])


def pack_modes(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """Return an archive of regular files (path, content, permission bits) in their order, with their directories."""
    members: list[tuple[str, int, bytes | mmap.mmap]] = []
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


def joined(*archives: bytes) -> bytes:
    """Join compressed archives that are not empty, as an initrd may hold several: each begins at a multiple of four."""
    whole = b""
    for archive in archives:
        whole = whole + _padding(len(whole)) + archive if archive else whole
    return whole


def members(archive: bytes | memoryview) -> Iterator[Member]:
    """Yield the members of one archive, up to its trailer, zeros, or its end. Raises BadArchive."""
    view, position = memoryview(archive), 0
    while True:
        member, position = _member(view, position)
        if member.name == TRAILER:
            return
        yield member
        if _ends(view, position):
            return


def _ends(view: memoryview, position: int) -> bool:
    """Check whether an archive ends here without a trailer, which the kernel does not ask for."""
    return position >= len(view) or not view[position]


def _member(view: memoryview, position: int) -> tuple[Member, int]:
    head = bytes(view[position : position + _HEADER_BYTES])
    if not _HEADER.fullmatch(head):
        raise BadArchive(f"byte {position}: not a newc cpio archive")
    fields = [int(head[6 + 8 * index : 14 + 8 * index], 16) for index in range(13)]
    inode, mode, _, _, links, _, size, major, minor, rmajor, rminor, name_size, _ = fields
    start = position + _HEADER_BYTES
    data = -(-(start + name_size) // 4) * 4
    end = data + size
    if end > len(view):
        raise BadArchive(f"byte {position}: truncated cpio archive")
    name = bytes(view[start : start + name_size]).partition(b"\0")[0].decode(errors="surrogateescape")
    rdev = os.makedev(rmajor & 0xFFF, rminor & 0xFFFFF)
    member = Member(name, mode, view[data:end], rdev=rdev, inode=(major, minor, inode), links=links)
    return member, min(-(-end // 4) * 4, len(view))


def unpack(archive: bytes) -> dict[str, bytes]:
    """Return the regular files of one archive. Raises BadArchive."""
    return {member.name: bytes(member.data) for member in members(archive) if member.mode & 0o170000 == 0o100000}


def compress(archive: bytes, limit: int | None = None) -> bytes:
    """Compress by gzip, which every kernel unpacks fast, or by xz with CRC-32 where only that fits `limit` bytes."""
    packed = gzip.compress(archive, 9, mtime=0)
    if limit is not None and len(packed) > limit:
        smaller = lzma.compress(archive, lzma.FORMAT_XZ, lzma.CHECK_CRC32, 6)
        return smaller if len(smaller) < len(packed) else packed
    return packed


def decompress(data: bytes) -> bytes:
    """Unpack the first part of an initrd if gzip or xz has compressed it, or return all of it. Raises BadArchive."""
    return _inflated(memoryview(data), UNPACKED_LIMIT)[0] if data.startswith((_GZIP, _XZ)) else data


def _inflated(view: memoryview, limit: int) -> tuple[bytes, int]:
    """Return the content of a gzip or xz stream, and the stream's length."""
    inflate = (
        zlib.decompressobj(wbits=31)
        if bytes(view[:2]) == _GZIP
        else lzma.LZMADecompressor(lzma.FORMAT_XZ, UNPACKED_LIMIT)
    )
    try:
        plain = inflate.decompress(view, limit + 1)
    except (zlib.error, lzma.LZMAError) as error:
        raise BadArchive(str(error)) from None
    if len(plain) > limit:
        raise BadArchive(f"it unpacks to more than {limit} bytes")
    if not inflate.eof:
        raise BadArchive("a compressed archive that is cut short")
    return plain, len(view) - len(inflate.unused_data)


def archives(image: bytes | memoryview, limit: int, *, packed: bool = True) -> Iterator[memoryview]:
    """Yield the archives of an initrd, unpacked, in their order; `limit`: bytes of each that gzip or xz has compressed.

    Those within a compressed archive must not be `packed` again, as for the kernel. Raises BadArchive: something else
    than zeros or an archive follows, or a compressed one is broken.
    """
    view = memoryview(image)
    position = 0
    while (position := _skip_zeros(view, position)) < len(view):
        rest = view[position:]
        head = bytes(rest[:6])
        if head in _MAGICS:
            length = _length(rest)
            yield rest[:length]
        elif not packed:
            raise BadArchive("junk within a compressed archive")
        else:
            try:
                unpacked, length = _decompressed(rest, head, limit)
            except BadArchive as error:
                raise BadArchive(f"byte {position}: {error}") from None
            yield from archives(unpacked, limit, packed=False)
        position += length


def _skip_zeros(view: memoryview, position: int) -> int:
    step = 1 << 16
    while position < len(view):
        block = bytes(view[position : position + step])
        rest = block.lstrip(b"\0")
        if rest:
            return position + len(block) - len(rest)
        position += len(block)
    return position


def _length(view: memoryview) -> int:
    """Return the length of the archive that begins here, its trailer included."""
    member, position = _member(view, 0)
    while member.name != TRAILER and not _ends(view, position):
        member, position = _member(view, position)
    return position


def _decompressed(rest: memoryview, head: bytes, limit: int) -> tuple[bytes, int]:
    """Return the archive that is compressed here, and the length of its compressed form."""
    if head.startswith((_GZIP, _XZ)):
        return _inflated(rest, limit)
    if head.startswith(_LZ4_LEGACY):
        length = _lz4_length(rest)
        return _run(["lz4", "-dc"], rest[:length]), length
    if head.startswith(_ZSTD):
        # Only the decompressor knows where a frame ends: what follows must be zeros or another frame.
        return _run(["zstd", "-dcq"], bytes(rest).rstrip(b"\0")), len(rest)
    raise BadArchive(f"neither a cpio archive nor a known compression ({head.hex()})")


def _lz4_length(rest: memoryview) -> int:
    """Measure a legacy lz4 stream: up to a block of length 0, else all blocks; its own magic may follow."""
    position = len(_LZ4_LEGACY)
    while position + 4 <= len(rest):
        size = int.from_bytes(rest[position : position + 4], "little")
        if not size:
            break
        if bytes(rest[position : position + 4]) == _LZ4_LEGACY:
            position += 4
            continue
        if position + 4 + size > len(rest):
            raise BadArchive("an lz4 archive that is cut short")
        position += 4 + size
    return position


def _run(command: list[str], data: bytes | memoryview) -> bytes:
    done = subprocess.run(command, input=data, capture_output=True, timeout=_DECOMPRESS_SECONDS, check=False)
    if done.returncode:
        raise BadArchive(f"{command[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
