"""The protocols of drivers, of a few methods each: see docs/writing-a-driver.md."""

from __future__ import annotations

import enum
import re
from typing import Protocol, runtime_checkable


class PowerState(enum.Enum):
    """The two states of a machine's power."""

    ON = "on"
    OFF = "off"


class BootDevice(enum.Enum):
    """The kinds of device that a machine can try first."""

    DISK = "disk"
    CD = "cd"
    NETWORK = "network"


@runtime_checkable
class Power(Protocol):
    """The power button; the operating system is not asked."""

    def state(self) -> PowerState:
        """Read whether the machine runs."""

    def on(self) -> None:
        """Power on and return when it runs; nothing when it already does. Raises PowerError."""

    def off(self) -> None:
        """Pull the plug and return when it is off; nothing when it already is. Raises PowerError."""

    def cycle(self) -> None:
        """Switch off, then on: what was changed while the machine ran takes effect only now."""


@runtime_checkable
class VirtualMedia(Protocol):
    """The virtual CD drive. Inserts and ejects take effect at the next cold boot."""

    def insert(self, url: str) -> None:
        """Insert the image at `url`, in place of any other. Raises MediaError when it is not in the drive after it."""

    def eject(self) -> None:
        """Empty the drive; nothing when it is empty. Raises MediaError."""

    def inserted(self) -> str | None:
        """Return the URL of the image in the drive."""


@runtime_checkable
class Boot(Protocol):
    """The boot order."""

    def first(self) -> BootDevice | None:
        """Return the device that is tried first; None when it cannot be determined."""

    def set_first(self, device: BootDevice) -> None:
        """Try this device first, the disks after it, from the next cold boot on. Raises BootError."""


@runtime_checkable
class BootOnce(Protocol):
    """A boot order for one boot."""

    def boot_once(self, device: BootDevice) -> bool:
        """Have the next boot, and no later one, try this device first; False when that is not done. Raises
        BootError."""

    def booted(self) -> bool:
        """Undo, once the machine is on, what was to be done once and has been kept; return whether it was."""


@runtime_checkable
class Console(Protocol):
    """The serial line."""

    def text(self) -> str:
        """Return all output so far, without terminal control sequences."""

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Wait for output that matches, after the last match. Raises ConsoleTimeout.

        `timeout` in seconds; `pattern` is searched with re.MULTILINE.
        """

    def send(self, data: str) -> None:
        """Type on it."""


@runtime_checkable
class Screenshot(Protocol):
    """The screen."""

    def png(self) -> bytes:
        """Take a picture of it, as a PNG file. Raises ScreenshotError."""


@runtime_checkable
class Link(Protocol):
    """The cable of one NIC."""

    def is_up(self) -> bool:
        """Tell whether it is plugged in."""

    def set_up(self, up: bool) -> None:
        """Plug it in or pull it out, at once."""
