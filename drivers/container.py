"""Machines as containers, through the daemon that owns them (a UNIX socket, a JSON line each way).

What a hypervisor is to virtual machines, this daemon is to these: it knows power, boot order, drive and cables. It
fetches nothing: images are files of this host. There is no screen.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlparse

import msgspec

from drivers.errors import (
    BootError,
    ConnectionFailedError,
    DriverError,
    MediaError,
    NotFoundError,
    PowerError,
    ScreenshotError,
)
from drivers.protocols import BootDevice, PowerState

# The daemon answers when it is done; powering off waits for the last process.
_ANSWER_SECONDS = 90.0
_NAMES = {BootDevice.DISK: "hd", BootDevice.CD: "cdrom", BootDevice.NETWORK: "network"}

Operation = Literal[
    "list", "look", "on", "off", "shutdown", "reset", "suspend", "resume", "cpu", "media", "first", "link"
]  # fmt: skip


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request to the daemon about one machine, by its name or UUID. `value` is the image's path ("": none),
    the device to boot from, the NIC's MAC address, or a percentage of one processor ("": all that it has); `once`
    counts for the next power-on only; `up` is for a link."""

    op: Operation
    machine: str = ""
    value: str = ""
    once: bool = False
    up: bool = True


class DiskView(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's disk: `target` is its kernel name there, `size` is in bytes."""

    target: str
    bus: str
    size: int
    serial: str
    vendor: str
    model: str
    rotational: bool


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as the daemon sees it. `running` is whether its init has been started; `pulled` are the MAC addresses
    of NICs without link, `first` what the next power-on tries first."""

    name: str
    uuid: str
    on: bool
    running: bool
    first: str
    once: bool
    media: str
    memory_mib: int
    vcpus: int
    firmware: str
    macs: tuple[str, ...]
    pulled: tuple[str, ...]
    disks: tuple[DiskView, ...] = ()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: an error of a kind, or the machines asked for."""

    error: str = ""
    kind: Literal["", "unknown", "power", "media", "boot", "other"] = ""
    machines: tuple[View, ...] = ()


_ERRORS: dict[str, type[DriverError]] = {
    "unknown": NotFoundError,
    "power": PowerError,
    "media": MediaError,
    "boot": BootError,
}


class Machines:
    """The daemon at a socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ask(self, request: Request) -> tuple[View, ...]:
        """Return the daemon's answer. Raises ConnectionFailedError, or what the daemon says went wrong."""
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(_ANSWER_SECONDS)
                line.connect(str(self.path))
                line.sendall(msgspec.json.encode(request) + b"\n")
                answer = line.makefile("rb").readline()
            reply = msgspec.json.decode(answer, type=Reply)
        except (OSError, msgspec.DecodeError) as error:
            raise ConnectionFailedError(f"machines at {self.path}: {error}", machine=request.machine) from error
        if reply.error:
            raise _ERRORS.get(reply.kind, DriverError)(reply.error, machine=request.machine)
        return reply.machines

    def close(self) -> None:
        """Do nothing: no connection is held open."""

    def all(self) -> tuple[View, ...]:
        """Return all machines."""
        return self.ask(Request(op="list"))

    def machine(self, name: str) -> Machine:
        """Return the machine of that name or UUID, which need not exist yet."""
        return Machine(self, name)


class Machine:
    """One machine; implements Power, VirtualMedia, Boot and Screenshot."""

    def __init__(self, machines: Machines, name: str) -> None:
        self._machines = machines
        self.name = name

    def ask(self, op: Operation, value: str = "", *, once: bool = False, up: bool = True) -> View:
        """Send one request about it; returns its state afterwards. Raises what the daemon says went wrong."""
        [view] = self._machines.ask(Request(op=op, machine=self.name, value=value, once=once, up=up))
        return view

    def look(self) -> View:
        """Return its state now."""
        return self.ask("look")

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return self.look().uuid

    def state(self) -> PowerState:
        """Read whether it is on."""
        return PowerState.ON if self.look().on else PowerState.OFF

    def on(self) -> None:
        """Start it."""
        self.ask("on")

    def off(self) -> None:
        """End it at once."""
        self.ask("off")

    def cycle(self) -> None:
        """Switch off, then on."""
        self.off()
        self.on()

    def shut_down(self) -> None:
        """Ask its init to power off; does nothing when it is off."""
        self.ask("shutdown")

    def suspend(self) -> None:
        """Stop all its processes until it is resumed or switched off. The kernel still answers for them: ARP, ping, and
        connections, which nobody accepts."""
        self.ask("suspend")

    def resume(self) -> None:
        """Let its processes go on; does nothing when it is off."""
        self.ask("resume")

    def limit_cpu(self, percent: int | None) -> None:
        """Limit it to so many percent of one processor until it is switched off; None: no limit."""
        self.ask("cpu", "" if percent is None else str(percent))

    def insert(self, url: str) -> None:
        """Put an image of this host, a file: URL, into the drive."""
        parts = urlparse(url)
        if parts.scheme != "file":
            raise MediaError(f"{url} is no file: URL, and this driver fetches nothing", machine=self.name)
        if self.ask("media", unquote(parts.path)).media != unquote(parts.path):
            raise MediaError(f"{url} is not in the drive", machine=self.name)

    def eject(self) -> None:
        """Empty the drive."""
        self.ask("media")

    def inserted(self) -> str | None:
        """Return the file: URL of the image in the drive."""
        media = self.look().media
        return Path(media).as_uri() if media else None

    def first(self) -> BootDevice | None:
        """Return the device that the next power-on tries first."""
        first = self.look().first
        return next((device for device, name in _NAMES.items() if name == first), None)

    def set_first(self, device: BootDevice, *, once: bool = False) -> None:
        """Put this device first from the next start on, or (`once`) for the next start only."""
        self.ask("first", _NAMES[device], once=once)

    def png(self) -> bytes:
        """Raise ScreenshotError: a container has no screen."""
        raise ScreenshotError("it is a container and has no screen; look at its console", machine=self.name)

    def link(self, mac: str) -> MachineLink:
        """Return the cable of the NIC with that MAC address."""
        return MachineLink(self, mac)


class MachineLink:
    """The cable of one NIC; implements Link."""

    def __init__(self, machine: Machine, mac: str) -> None:
        self._machine = machine
        self._mac = mac

    def is_up(self) -> bool:
        """Tell whether it is plugged in."""
        view = self._machine.look()
        if self._mac not in view.macs:
            raise NotFoundError(f"it has no NIC {self._mac}", machine=self._machine.name)
        return self._mac not in view.pulled

    def set_up(self, up: bool) -> None:
        """Plug it in or pull it out."""
        self._machine.ask("link", self._mac, up=up)
