"""What the reader of an image says to the firmware that asked it, a message each."""

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


class Chosen(msgspec.Struct, frozen=True, tag="chosen"):
    """What is started: the kernel's arguments. The initrds come with it as descriptors; from a medium, of which the
    label is told, behind them the index for erofs when ``index`` says so."""

    arguments: tuple[str, ...]
    medium: bool = False
    label: str = ""
    index: bool = False


class Nothing(msgspec.Struct, frozen=True, tag="nothing"):
    """Nothing is started: no device boots, a line for each; or a boot loader ``stopped``."""

    reason: str
    stopped: bool


Message = Say | Mount | Chosen | Nothing
MOUNTED = b"mounted"


class Console:
    """A console of which somebody else keeps the end, as far as `Screen` writes to one."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send

    def write(self, data: bytes) -> int:
        """Some lines."""
        self._send(msgspec.json.encode(Say(data.decode(errors="replace"))))
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""
