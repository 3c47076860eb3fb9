"""Disks that can be made to fail: two loop devices, one above the other, in front of the image.

The machine has the upper one. The lower one, the medium, is what fails: the kernel refuses what is written to a block
device that is read-only (EPERM, block/fops.c), and reads nothing beyond a device's end. A loop device that meets either
below it ends the request with an I/O error (drivers/block/loop.c), and stays as it is for all who have it open. So this
needs neither device mapper nor a daemon in the path, and the disk is as quick as any other until it fails
(feasibility.md, "Disks that fail").
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.layout import Layout
from lab.machines.container.kernel.loops import Loop, attach, move
from lab.waiting import wait_until

_SECTOR = 512
# linux/fs.h
_BLKROSET = 0x125D
_SECONDS = 20.0
_POLL_SECONDS = 0.05


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a disk that can fail: its image, and the links to its two devices."""

    image: str
    device: str
    medium: str

    @property
    def number(self) -> int:
        """Look up the medium's device number. Raises OSError."""
        return os.stat(self.medium).st_rdev


def place(layout: Layout, node: str, disk: str = "") -> Place:
    """Find a node's disk by its name ("vda"), or the disk to install on. Raises LabError when it cannot fail."""
    [spec] = [spec for spec in layout.topology.nodes if spec.name == node]
    names = [spec.device(index) for index in range(len(spec.all_disks))]
    if disk and disk not in names:
        raise LabError(f"{node} has no disk {disk!r}; it has {', '.join(names)}")
    index = names.index(disk) if disk else spec.root_index
    if not spec.all_disks[index].can_fail:
        raise LabError(f"{names[index]} of {node} cannot fail: its topology must say so (disks: [{{can_fail: true}}])")
    return _place(layout, layout.disk(spec, index))


def _place(layout: Layout, image: Path) -> Place:
    return Place(str(image), str(layout.device_of(image)), str(image.with_suffix(".medium")))


def places(layout: Layout) -> tuple[Place, ...]:
    """List all disks of a lab that can fail."""
    nodes = layout.topology.nodes
    disks = [(node, index) for node in nodes for index, disk in enumerate(node.all_disks) if disk.can_fail]
    return tuple(_place(layout, layout.disk(node, index)) for node, index in disks)


def hold(disk: Place, held: contextlib.ExitStack) -> None:
    """Attach its devices, for as long as they are held or used. Raises OSError."""
    medium = held.enter_context(attach(Path(disk.image)))
    # Direct I/O: pages in the medium's cache would keep its size from changing, and would be written past its limits.
    device = held.enter_context(attach(medium.path, direct=True))
    for link, loop in ((disk.medium, medium), (disk.device, device)):
        Path(link).unlink(missing_ok=True)
        Path(link).symlink_to(loop.path)


@contextlib.contextmanager
def _medium(disk: Place) -> Iterator[Loop]:
    path = Path(disk.medium).resolve()
    # For reading alone, which is all that a device that fails lets itself be opened for.
    with Loop(int(path.name.removeprefix("loop")), os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as loop:
        yield loop


def fail(disk: Place, *, reads: bool) -> None:
    """Make writes to it fail, and with `reads` reads too. Raises LabError."""
    _change(disk, read_only=True, size=_SECTOR if reads else 0)


def mend(disk: Place) -> None:
    """Make it work again. Raises LabError."""
    _change(disk, read_only=False, size=0)


def _change(disk: Place, *, read_only: bool, size: int) -> None:
    try:
        with _medium(disk) as loop:
            wait_until(lambda: move(loop, offset=0, size=size), _SECONDS, f"{loop.path} to be idle", poll=_POLL_SECONDS)
            fcntl.ioctl(loop.descriptor, _BLKROSET, struct.pack("=i", read_only))
    except OSError as error:
        raise LabError(f"{disk.medium}: {error}") from error
