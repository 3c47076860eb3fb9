"""A lab's machine as scenarios see it, through the protocols of drivers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.console import FileConsole
from drivers.protocols import Boot, BootDevice, BootOnce, Link, Power, Screenshot, VirtualMedia
from lab.topology import NodeSpec

log = logging.getLogger(__name__)


class Media:
    """The virtual CD drive; accepts the path of a local image as well as a URL."""

    def __init__(self, drive: VirtualMedia, serve: Callable[[Path], str]) -> None:
        self._drive = drive
        self._serve = serve

    def insert(self, image: Path | str) -> None:
        """Insert an image: a URL, or a local file, which the lab's HTTP server then serves."""
        is_url = isinstance(image, str) and "://" in image
        self._drive.insert(str(image) if is_url else self._serve(Path(image)))

    def eject(self) -> None:
        """Empty the drive."""
        self._drive.eject()

    def inserted(self) -> str | None:
        """Return the URL of the image in the drive."""
        return self._drive.inserted()


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine. `power`, `media` and `boot` are its BMC's, by Redfish; `console`, `screen` and `link` the
    hypervisor's: the cable of the NIC that the machine is known by, and in `links` all of them by the NICs' names.
    `once` is there where the BMC has to be asked to boot from its CD; `stick` chooses the USB stick for the power-on
    within it, where the firmware does not come to it by itself."""

    spec: NodeSpec
    uuid: str
    power: Power
    media: Media
    boot: Boot
    console: FileConsole
    screen: Screenshot
    link: Link
    links: Mapping[str, Link]
    once: BootOnce | None
    connect: Callable[[float], Any]
    stick: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def name(self) -> str:
        """Its name in the topology."""
        return self.spec.name

    def ssh(self, timeout: float = 60.0) -> Any:
        """Connect as user core by testinfra. Raises NodeUnreachableError after `timeout` seconds without an answer."""
        return self.connect(timeout)

    def screenshot(self, path: Path | None = None) -> bytes:
        """Take the screen as PNG, and write it to `path` if that is given."""
        png = self.screen.png()
        if path is not None:
            path.write_bytes(png)
        return png

    def boot_image(self, image: Path | str) -> None:
        """Power off, insert the image, power on: a medium takes effect at a cold boot only."""
        self.power.off()
        self.media.insert(image)
        self.start()

    def start(self, *, from_stick: bool = False) -> None:
        """Power on to boot from the CD drive what is in it, or from the USB stick. The lab's own BMC has the CD after
        empty disks; a vendor's is asked for it once, and what it keeps of that for good is set back, or the machine
        would install for ever."""
        if self.once is not None and not self.once.boot_once(BootDevice.CD):
            log.warning("%s: its BMC ignores one-time boots; an empty disk falls through to the CD", self.name)
        with self.stick() if from_stick else nullcontext():
            self.power.on()
        if self.once is not None and self.once.booted():
            log.warning("%s: its BMC kept a one-time boot for good; it has been set back", self.name)
