"""A fake machine: the protocols in memory, to test what builds on them, and as the model for real drivers.

It behaves like the real ones: media and boot order take effect at the next cold boot, the disk is empty until something
has been booted from CD, an unknown URL is not inserted.
"""

from __future__ import annotations

import re

from drivers.errors import BootError, ConsoleTimeout, MediaError
from drivers.picture import ppm_to_png
from drivers.protocols import BootDevice, PowerState


class FakeMachine:
    """Implements Power, VirtualMedia, Boot, Console, Screenshot and Link. `images` are the URLs that exist."""

    def __init__(self, name: str = "fake", images: frozenset[str] = frozenset()) -> None:
        self.name = name
        self._images = images
        self._power = PowerState.OFF
        self._media: str | None = None
        self._first: BootDevice = BootDevice.DISK
        self._installed = False
        self._output = ""
        self._position = 0
        self._link = True
        self.typed: list[str] = []
        self.boots: list[str] = []

    def state(self) -> PowerState:
        """Read whether it runs."""
        return self._power

    def on(self) -> None:
        """Boot from the first device that has something to boot."""
        if self._power is PowerState.ON:
            return
        self._power = PowerState.ON
        order = [self._first, *(d for d in (BootDevice.DISK, BootDevice.CD) if d is not self._first)]
        for device in order:
            if device is BootDevice.DISK and self._installed:
                self._boot("disk")
                return
            if device is BootDevice.CD and self._media is not None:
                self._boot(self._media)
                self._installed = True
                return
        self._boot("nothing")

    def _boot(self, source: str) -> None:
        self.boots.append(source)
        self._output += f"booting from {source}\n"

    def off(self) -> None:
        """Stop."""
        self._power = PowerState.OFF

    def cycle(self) -> None:
        """Off, then on."""
        self.off()
        self.on()

    def insert(self, url: str) -> None:
        """Insert a known image."""
        if url not in self._images:
            raise MediaError(f"{url} cannot be fetched", machine=self.name)
        self._media = url

    def eject(self) -> None:
        """Empty the drive."""
        self._media = None

    def inserted(self) -> str | None:
        """Return the URL of the image in the drive."""
        return self._media

    def first(self) -> BootDevice | None:
        """The first boot device."""
        return self._first

    def set_first(self, device: BootDevice) -> None:
        """Set the first boot device; BootError for a CD that is not there."""
        if device is BootDevice.CD and self._media is None:
            raise BootError("it has no cd to boot from", machine=self.name)
        self._first = device

    def text(self) -> str:
        """Its output so far."""
        return self._output

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """A match after the last one, or ConsoleTimeout at once: there will be no more output."""
        match = re.compile(pattern, re.MULTILINE).search(self._output, self._position)
        if match is None:
            raise ConsoleTimeout(pattern, timeout, self._output, machine=self.name)
        self._position = match.end()
        return match

    def send(self, data: str) -> None:
        """Append to `typed`."""
        self.typed.append(data)

    def png(self) -> bytes:
        """One black pixel."""
        return ppm_to_png(b"P6\n1 1\n255\n\0\0\0")

    def is_up(self) -> bool:
        """Tell whether the cable is plugged in."""
        return self._link

    def set_up(self, up: bool) -> None:
        """Plug it in or out."""
        self._link = up
