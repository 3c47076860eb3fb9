"""Messages of the reader of an image to the firmware that asked it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Words for the console."""

    text: str


class Mount(msgspec.Struct, frozen=True, tag="mount"):
    """A partition to be mounted for its boot loader's files. The answer is ``MOUNTED`` with a descriptor of its root,
    or why not."""

    partition: str
    kind: Literal["ext4", "xfs"]


class Save(msgspec.Struct, frozen=True, tag="save"):
    """A boot loader's environment block, to be written in the place of the one in a partition. The answer is ``SAVED``,
    or why not."""

    partition: str
    kind: Literal["ext4", "xfs"]
    block: bytes


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    """An address by a NIC of the machine's, asked for as PXE's client (iPXE) or as UEFI's for HTTP. The answer is a
    dhcp.Lease as JSON; or why not, as text."""

    nic: str
    http: bool = False


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """The content at a URL, `most` bytes at most, by the NIC that has an address. The answer is ``FETCHED`` with a
    descriptor of a file in memory, or why not."""

    url: str
    most: int


class Held(msgspec.Struct, frozen=True):
    """A medium that what is started may mount: the name of the drive or stick that has it, its label, and whether there
    is an index of it for erofs."""

    name: str
    label: str
    index: bool


class Chosen(msgspec.Struct, frozen=True, tag="chosen"):
    """A choice of the kernel to start: its arguments. The initrds come with it as descriptors, and the indexes of
    its media, of those that have one."""

    arguments: tuple[str, ...]
    media: tuple[Held, ...] = ()

    @property
    def indexes(self) -> int:
        """The number of descriptors that are indexes."""
        return sum(medium.index for medium in self.media)


class Nothing(msgspec.Struct, frozen=True, tag="nothing"):
    """Nothing is started: no device boots, a line for each; or a boot loader ``stopped``."""

    reason: str
    stopped: bool


Message = Say | Mount | Save | Lease | Fetch | Chosen | Nothing
MOUNTED, SAVED, FETCHED = b"mounted", b"saved", b"fetched"


class Console:
    """A console whose other end somebody else has, as far as `Screen` writes to it."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send

    def write(self, data: bytes) -> int:
        """Send some lines."""
        self._send(msgspec.json.encode(Say(data.decode(errors="replace"))))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""
