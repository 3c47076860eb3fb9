"""What the kernel does with an initrd: newc cpio archives, compressed or not, one after another (Linux,
Documentation/driver-api/early-userspace/buffer-format.rst and init/initramfs.c)."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from lab.machines.container.firmware.formats.errors import BadArchive

HEADER = 110
TRAILER = "TRAILER!!!"
_MAGICS = (b"070701", b"070702")
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"
_DECOMPRESS_SECONDS = 300


@dataclass(frozen=True)
class Member:
    """A file. ``data`` is a link's target, too; ``mode`` has the file's type, ``rdev`` a device's number."""

    name: str
    mode: int
    data: memoryview
    mtime: int = 0
    _: KW_ONLY
    rdev: int = 0
    inode: tuple[int, int, int] = (0, 0, 0)
    links: int = 1


def archives(image: bytes | memoryview) -> Iterator[memoryview]:
    """The archives of an initrd, unpacked, in their order: what the kernel sees one after the other.

    Raises BadArchive: something else than zeros or an archive follows, or a compressed one is broken.
    """
    view = memoryview(image)
    position = 0
    while True:
        position = _skip_zeros(view, position)
        if position >= len(view):
            return
        head = bytes(view[position : position + 6])
        if head in _MAGICS:
            end = _end(view, position)
            yield view[position:end]
        else:
            unpacked, end = _decompress(view, position, head)
            yield from archives(unpacked)
        position = end


def members(archive: memoryview) -> Iterator[Member]:
    """The files of one archive, without its trailer.

    Raises BadArchive: a header is none, or the archive ends within a file.
    """
    position = 0
    while position < len(archive):
        member, position = _member(archive, position)
        if member.name == TRAILER:
            return
        yield member


def _skip_zeros(view: memoryview, position: int) -> int:
    step = 1 << 16
    while position < len(view):
        block = bytes(view[position : position + step])
        rest = block.lstrip(b"\0")
        if rest:
            return position + len(block) - len(rest)
        position += len(block)
    return position


def _member(view: memoryview, position: int) -> tuple[Member, int]:
    head = bytes(view[position : position + HEADER])
    if len(head) < HEADER or head[:6] not in _MAGICS:
        raise BadArchive(f"byte {position}: no cpio header")
    try:
        fields = [int(head[6 + 8 * index : 14 + 8 * index], 16) for index in range(13)]
    except ValueError:
        raise BadArchive(f"byte {position}: a cpio header that is not hexadecimal") from None
    inode, mode, _, _, links, mtime, size, major, minor, rmajor, rminor, name_size, _ = fields
    start = position + HEADER
    data = -(-(start + name_size) // 4) * 4
    end = data + size
    if end > len(view) or not name_size:
        raise BadArchive(f"byte {position}: the archive ends within a file")
    name = bytes(view[start : start + name_size]).partition(b"\0")[0].decode(errors="surrogateescape")
    rdev = os.makedev(rmajor & 0xFFF, rminor & 0xFFFFF)
    member = Member(name, mode, view[data:end], mtime, rdev=rdev, inode=(major, minor, inode), links=links)
    return member, min(-(-end // 4) * 4, len(view))


def _end(view: memoryview, position: int) -> int:
    start = position
    while position < len(view):
        member, position = _member(view[start:], position - start)
        position += start
        if member.name == TRAILER:
            break
    return position


def _decompress(view: memoryview, position: int, head: bytes) -> tuple[bytes, int]:
    """The archive that is compressed at ``position``, and where its compressed form ends."""
    rest = view[position:]
    try:
        if head.startswith(_GZIP):
            gzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = gzip.decompress(rest)
            if not gzip.eof:
                raise BadArchive(f"byte {position}: a gzip archive that is cut short")
            return data, len(view) - len(gzip.unused_data)
        if head.startswith(_XZ):
            xz = lzma.LZMADecompressor()
            data = xz.decompress(rest)
            if not xz.eof:
                raise BadArchive(f"byte {position}: an xz archive that is cut short")
            return data, len(view) - len(xz.unused_data)
    except (zlib.error, lzma.LZMAError) as error:
        raise BadArchive(f"byte {position}: {error}") from None
    if head.startswith(_LZ4_LEGACY):
        length = _lz4_length(rest)
        return _run(["lz4", "-dc"], rest[:length], position), position + length
    if head.startswith(_ZSTD):
        # Only the decompressor knows where a frame ends: what follows must be zeros or another frame.
        return _run(["zstd", "-dcq"], bytes(rest).rstrip(b"\0"), position), len(view)
    raise BadArchive(f"byte {position}: neither a cpio archive nor a known compression ({head.hex()})")


def _lz4_length(rest: memoryview) -> int:
    """Where a legacy lz4 stream ends: at a block of length 0 or, as its own magic may follow, beyond all blocks."""
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


def _run(command: list[str], data: bytes | memoryview, position: int) -> bytes:
    done = subprocess.run(command, input=data, capture_output=True, timeout=_DECOMPRESS_SECONDS, check=False)
    if done.returncode:
        raise BadArchive(f"byte {position}: {command[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def unpack(archive: memoryview, root: Path) -> None:
    """Put an archive's files below ``root``, over what is there, as the kernel does: directories are kept, all else is
    replaced; owners are root. No link of an earlier archive leads out of ``root``.

    Raises BadArchive: a name leads out of ``root``, or the archive is broken.
    """
    first: dict[tuple[int, int, int], Path] = {}
    for member in members(archive):
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise BadArchive(f"{member.name!r} leads out of the initramfs")
        if not parts:
            continue
        target = _within(root, parts)
        if target is not None:
            _create(member, target, first)


def _within(root: Path, parts: list[str]) -> Path | None:
    """Where a member goes, links to directories followed within ``root``; None when its directory is not there, which
    the kernel passes over without a word."""
    directory = root
    for part in parts[:-1]:
        step = directory / part
        hops = 0
        while step.is_symlink():
            hops += 1
            link = os.readlink(step)
            base = root if link.startswith("/") else step.parent
            step = Path(os.path.normpath(base / link.lstrip("/")))
            if hops > 40 or not step.is_relative_to(root):
                return None
        if not step.is_dir():
            return None
        directory = step
    return directory / parts[-1]


def _create(member: Member, target: Path, first: dict[tuple[int, int, int], Path]) -> None:
    kind, permissions = stat.S_IFMT(member.mode), stat.S_IMODE(member.mode)
    if kind == stat.S_IFDIR and target.is_dir() and not target.is_symlink():
        target.chmod(permissions)
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    elif target.is_symlink() or target.exists():
        if first.get(member.inode) == target and member.links > 1:
            return
        target.unlink()
    if kind == stat.S_IFDIR:
        target.mkdir()
    elif kind == stat.S_IFLNK:
        target.symlink_to(bytes(member.data).decode(errors="surrogateescape"))
        return
    elif kind == stat.S_IFREG:
        if member.links > 1 and member.inode in first:
            # The last of a file's names brings its content (cpio -H newc).
            target.hardlink_to(first[member.inode])
            if not len(member.data):
                return
        with target.open("wb") as file:
            file.write(member.data)
        if member.links > 1:
            first.setdefault(member.inode, target)
    elif kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
        try:
            os.mknod(target, kind, member.rdev)
        except PermissionError:
            # Device files are left out: a machine may make none, and has its own in /dev.
            return
    else:
        raise BadArchive(f"{member.name!r} has an unknown type of file ({member.mode:o})")
    target.chmod(permissions)
