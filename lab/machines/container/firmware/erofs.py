"""An index that lets the kernel's erofs mount an ISO image: directories and inodes here, the files' data where it lies
in the image, which is the file system's second device (Linux, fs/erofs/erofs_fs.h).

For kernels that have erofs and no iso9660; both are read-only file systems with the same files.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from installer.common.iso9660 import SECTOR, Extent
from lab.errors import LabError

MAGIC = 0xE0F5E1E2
SUPER_OFFSET = 1024
CHUNKED_FILE, DEVICE_TABLE = 0x4, 0x8
FLAT_PLAIN, CHUNK_BASED = 0, 4
CHUNK_INDEXES = 0x20
# Chunks of 2 GiB: most files have one.
CHUNK_BITS = 20
REGULAR, DIRECTORY = 1, 2
SLOT = 32
_BLOCK_BITS = SECTOR.bit_length() - 1
_SUPER = struct.Struct("<IIIBBHQQIIII16s16sIHHHBBIQB23x")
_DEVICE = struct.Struct("<64sII56x")
_INODE = struct.Struct("<HHHHQIIIIQII16x")
_CHUNK = struct.Struct("<HHI")
_DIRENT = struct.Struct("<QHBB")


class CannotIndex(LabError):
    """A medium that such an index has no form for."""


@dataclass
class _Node:
    number: int
    _: KW_ONLY
    children: dict[str, _Node] = field(default_factory=dict)
    extent: Extent | None = None
    parent: _Node | None = None
    place: int = 0
    blocks: bytes = b""

    @property
    def size(self) -> int:
        if self.extent is None:
            return len(self.blocks)
        chunks = -(-self.extent.length // (SECTOR << CHUNK_BITS))
        return -(-(_INODE.size + chunks * _CHUNK.size) // SLOT) * SLOT


def index(tree: Mapping[str, Extent], image_size: int, volume: str = "") -> bytes:
    """Make an index of these files and directories, to be mounted with ``device=`` the ISO image's device, of
    ``image_size`` bytes.

    Raises CannotIndex: a file does not begin at a block of the medium or ends beyond it; a name is too long.
    """
    nodes = _nodes(tree, image_size)
    # The superblock's block and the device table's, then inodes, then directories.
    meta = 2
    # The first slot stays empty: programs pass over entries with inode 0.
    place = SLOT
    for node in nodes:
        node.place = place // SLOT
        place += _INODE.size if node.extent is None else node.size
    inode_blocks = -(-place // SECTOR)
    start = meta + inode_blocks
    inodes, contents = bytearray(SLOT), bytearray()
    for node in nodes:
        if node.extent is None:
            node.blocks = _directory(node)
            at = start + len(contents) // SECTOR
            contents += node.blocks
            inodes += _inode(node, at)
        else:
            inodes += _inode(node, 0)
    total = start + len(contents) // SECTOR
    head = bytearray(2 * SECTOR)
    _SUPER.pack_into(
        head,
        SUPER_OFFSET,
        *(MAGIC, 0, 0, _BLOCK_BITS, 0, nodes[0].place, len(nodes), 0, 0, total, meta, 0, bytes(16)),
        *(volume.encode()[:16], CHUNKED_FILE | DEVICE_TABLE, 0, 1, SECTOR // _DEVICE.size, 0, 0, 0, 0, 0),
    )
    _DEVICE.pack_into(head, SECTOR, b"iso9660", image_size // SECTOR, 0)
    return bytes(head) + bytes(inodes).ljust(inode_blocks * SECTOR, b"\0") + bytes(contents)


def _nodes(tree: Mapping[str, Extent], image_size: int) -> list[_Node]:
    root = _Node(1)
    root.parent = root
    nodes = [root]

    def step(parent: _Node, name: str) -> _Node:
        if len(name.encode(errors="surrogateescape")) > 255:
            raise CannotIndex(f"the name {name!r} is longer than 255 bytes")
        if name not in parent.children:
            child = _Node(len(nodes) + 1, parent=parent)
            parent.children[name] = child
            nodes.append(child)
        return parent.children[name]

    for path, extent in sorted(tree.items()):
        node = root
        for name in path.split("/"):
            node = step(node, name)
        if not extent.directory:
            if extent.offset % SECTOR or extent.offset + extent.length > image_size:
                raise CannotIndex(f"{path} lies at bytes {extent.offset} to {extent.offset + extent.length}")
            node.extent = extent
    return nodes


def _inode(node: _Node, block: int) -> bytes:
    if node.extent is None:
        links = 2 + sum(child.extent is None for child in node.children.values())
        layout, mode, size, content = FLAT_PLAIN, stat.S_IFDIR | 0o555, len(node.blocks), block
        chunks = b""
    else:
        layout, mode, size, links = CHUNK_BASED, stat.S_IFREG | 0o444, node.extent.length, 1
        content = CHUNK_INDEXES | CHUNK_BITS
        first, step = node.extent.offset // SECTOR, 1 << CHUNK_BITS
        count = -(-size // (SECTOR << CHUNK_BITS))
        chunks = b"".join(_CHUNK.pack(0, 1, first + chunk * step) for chunk in range(count))
    # Bit 0: the long form.
    format_ = 1 | layout << 1
    inode = _INODE.pack(format_, 0, mode, 0, size, content, node.number, 0, 0, 0, 0, links) + chunks
    return inode.ljust(-(-len(inode) // SLOT) * SLOT, b"\0")


def _directory(node: _Node) -> bytes:
    """Return a directory's blocks: in each, entries sorted by name's bytes over all blocks, then the names."""
    parent = node.parent or node
    entries = [(b".", node.place, DIRECTORY), (b"..", parent.place, DIRECTORY)]
    for name, child in node.children.items():
        entries.append(
            (name.encode(errors="surrogateescape"), child.place, DIRECTORY if child.extent is None else REGULAR)
        )
    entries.sort()
    blocks, held, room = bytearray(), list[tuple[bytes, int, int]](), SECTOR
    for entry in entries:
        need = _DIRENT.size + len(entry[0])
        if need > room:
            blocks += _block(held)
            held, room = [], SECTOR
        held.append(entry)
        room -= need
    return bytes(blocks + _block(held))


def _block(entries: list[tuple[bytes, int, int]]) -> bytes:
    at = len(entries) * _DIRENT.size
    heads, names = bytearray(), bytearray()
    for name, place, kind in entries:
        heads += _DIRENT.pack(place, at + len(names), kind, 0)
        names += name
    return bytes(heads + names).ljust(SECTOR, b"\0")
