"""Disk images of machines: empty ones, and ones that have been used before.

Everything is written into plain files, without mounts or loop devices. A disk's content is derived from its serial
number, so that a failed comparison can be investigated.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from lab.errors import LabError
from lab.layout import Layout
from lab.machines.lvm import write_volume_group
from lab.topology import FROM_STICK, Disk, NodeSpec

MIB = 1 << 20
BLOCK = 64 << 10
# A disk full of data is random throughout for this much at its start and at its end; between them only the first block
# of each MiB is, where partitions, file systems and images begin. The zeros between are compared as well.
DENSE_MIB = 512
_LAST_MIB = 16
# Partitions of a disk full of data: start and size in MiB. The rest is a third one, with no recognisable content.
_FILES = (1, 199)
_VOLUMES = (200, 200)
STICK_GIB = 8
STICK_SERIAL = "STICK"
DATA_GROUP = "somebodys-data"
SYSTEM_GROUP = "old-system"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def make(path: Path, disk: Disk, serial: str) -> None:
    """Make the raw image of a disk, with its content."""
    size = disk.size_gib << 30
    with path.open("x+b") as image:
        image.truncate(size)
        if disk.holds == "old-system":
            _randomise(image, serial, [(0, 8 * MIB)])
            write_volume_group(image, 0, size, group=SYSTEM_GROUP, volume="root")
    if disk.holds == "data":
        _fill(path, size, serial)


def _fill(path: Path, size: int, serial: str) -> None:
    with path.open("r+b") as image:
        _randomise(image, serial, random_spans(size))
    first, rest = _VOLUMES[0] + _VOLUMES[1], "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
    lines = [
        "label: gpt",
        f"start={_FILES[0]}MiB, size={_FILES[1]}MiB, type={rest}, name=files",
        f"start={_VOLUMES[0]}MiB, size={_VOLUMES[1]}MiB, type=E6D6D379-F507-44C2-A23C-238F2A3DF928, name=volumes",
        f"start={first}MiB, type={rest}, name=rest",
    ]
    run_tool(["sfdisk", "-q", "--wipe", "never", "--wipe-partitions", "never", str(path)], "\n".join(lines) + "\n")
    # Beside the disk: what a killed process leaves goes with its lab.
    with tempfile.TemporaryDirectory(prefix="files-", dir=path.parent) as files:
        (Path(files) / "important.txt").write_text(f"This is the only copy. ({serial})\n")
        options = f"offset={_FILES[0] * MIB},nodiscard,lazy_itable_init=1,lazy_journal_init=1"
        run_tool(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "important", "-d", files, "-E", options, str(path), "199M"])
    with path.open("r+b") as image:
        write_volume_group(image, _VOLUMES[0] * MIB, _VOLUMES[1] * MIB, group=DATA_GROUP, volume="keep")


def random_spans(size: int) -> Iterator[tuple[int, int]]:
    """List the random parts of a disk full of data: offset and length in bytes, in order."""
    dense = min(DENSE_MIB * MIB, size)
    for offset in range(0, dense, 16 * MIB):
        yield offset, min(16 * MIB, dense - offset)
    last = max(size - _LAST_MIB * MIB, dense)
    yield from ((offset, BLOCK) for offset in range(dense, last, MIB))
    if last < size:
        yield last, size - last


def _randomise(image: BinaryIO, serial: str, spans: Iterable[tuple[int, int]]) -> None:
    """Write pseudo-random bytes derived from the serial number."""
    key = hashlib.sha256(serial.encode()).digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    for offset, length in spans:
        os.pwrite(image.fileno(), stream.update(bytes(length)), offset)


def run_tool(argv: list[str], text: str = "") -> None:
    """Run a tool of disks with this text as its input. Raises LabError when it fails or takes two minutes."""
    try:
        completed = subprocess.run(
            argv, input=text, capture_output=True, text=True, check=False, timeout=120, env=os.environ | {"PATH": _PATH}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{argv[0]} for a disk's content: {error}") from error
    if completed.returncode:
        raise LabError(f"{argv[0]} for a disk's content: {' '.join(completed.stderr.split())}")


def fingerprint(path: Path) -> str:
    """Hash a raw image as a machine sees it: SHA-256 of its size and each non-zero block with its offset.

    Holes and written zeros are the same to a machine, so they hash the same.
    """
    digest, zeros = hashlib.sha256(), bytes(BLOCK)
    with path.open("rb") as image:
        size = os.fstat(image.fileno()).st_size
        digest.update(struct.pack("<Q", size))
        for start, end in _extents(image, size):
            for offset in range(start, end, BLOCK):
                data = os.pread(image.fileno(), BLOCK, offset)
                if data != zeros[: len(data)]:
                    digest.update(struct.pack("<Q", offset))
                    digest.update(data)
    return digest.hexdigest()


def changed(layout: Layout) -> list[str]:
    """List the disks, except those to install on, that have changed since before any machine ran; a line each."""
    touched = []
    for node in layout.topology.nodes:
        for index, disk in enumerate(node.all_disks):
            image = layout.disk(node, index)
            if not disk.root and fingerprint(image) != layout.fingerprint(image).read_text():
                touched.append(f"{node.serial(index)} of {node.name}, which held {disk.holds}")
    return touched


def make_all(layout: Layout) -> None:
    """Make the disks of all nodes, and store their fingerprints (Layout.fingerprint)."""
    for node in layout.topology.nodes:
        for index, disk in enumerate(node.all_disks):
            image = layout.disk(node, index)
            make(image, disk, node.serial(index))
            layout.fingerprint(image).write_text(fingerprint(image))
        if layout.topology.boot in FROM_STICK:
            with layout.stick(node).open("x+b") as stick:
                stick.truncate(STICK_GIB << 30)


def write_stick(layout: Layout, node: NodeSpec, image: Path) -> None:
    """Write an image onto a node's USB stick, as `dd` does; the rest of the stick is empty."""
    stick = layout.stick(node)
    # Blocks are shared where the file system can; a machine that is on keeps the file that it has open.
    run_tool(["cp", "--reflink=auto", "--sparse=always", "--remove-destination", str(image), str(stick)])
    size = max(STICK_GIB << 30, stick.stat().st_size)
    with stick.open("r+b") as file:
        file.truncate(size)


def _extents(image: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """List the parts of a file that are not holes, in whole blocks: start and end, ascending, without overlap."""
    end = 0
    while end < size:
        try:
            start = os.lseek(image.fileno(), end, os.SEEK_DATA)
        except OSError:  # ENXIO: the rest is a hole
            return
        hole = os.lseek(image.fileno(), start, os.SEEK_HOLE)
        start, end = max(start // BLOCK * BLOCK, end), -(-hole // BLOCK) * BLOCK
        if start < end:
            yield start, end
