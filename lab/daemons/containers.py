"""Container machines behind sushy-tools' emulator: a systems driver that asks the daemon which owns them.

As with virtual machines (lab.daemons.bmc) an inserted CD comes after the disks; a client that sets a boot target gets
it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flask
from sushy_tools import error
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources.systems.base import AbstractSystemsDriver

from drivers.container import Machine, Machines, Operation, View
from drivers.errors import BootError, ConnectionFailedError, DriverError, NotFoundError
from lab.daemons.redfish.storage import Disk, simple

SETTING = "NODE0_MACHINED"
# Redfish's names (ComputerSystem, BootSource) -> the daemon's.
_BOOT = {"Hdd": "hd", "Cd": "cdrom", "Pxe": "network"}
# What is asked of the daemon: an operation of its own for each of Redfish's.
_RESETS: dict[str, Operation] = {
    "On": "on", "ForceOn": "on", "ForceOff": "off", "GracefulShutdown": "shutdown", "ForceRestart": "reset",
    "GracefulRestart": "reset", "PowerCycle": "reset",
}  # fmt: skip


@contextmanager
def as_fishy() -> Iterator[None]:
    """Raise the driver's errors as the emulator's own."""
    try:
        yield
    except NotFoundError as failure:
        raise error.NotFound(str(failure)) from failure
    except ConnectionFailedError as failure:
        raise error.FishyError(str(failure), code=503) from failure
    except BootError as failure:
        raise error.BadRequest(str(failure)) from failure
    except DriverError as failure:
        raise error.FishyError(str(failure), code=500) from failure


class ContainerDriver(AbstractSystemsDriver):  # type: ignore[misc]  # sushy-tools has no types
    """The machines of the daemon at `socket`."""

    TARGETS = tuple(_BOOT)
    RESETS = tuple(_RESETS)

    def __init__(self, socket: Path) -> None:
        super().__init__()
        self._machines = Machines(socket)
        # The UUIDs of those whose disk was asked for by its name: it is the usual first.
        self._disk_first: set[str] = set()

    @classmethod
    def instead_of_libvirt(cls, config: str) -> None:
        """Have the emulator use it when its configuration file names a daemon."""
        settings = flask.Config("/")
        settings.from_pyfile(config)
        socket = settings.get(SETTING)
        if socket is not None:
            driver = cls(Path(socket))
            logging.getLogger(__name__).info("systems are container machines of %s", socket)
            emulator.Application.systems = driver

    def _machine(self, identity: str) -> Machine:
        return self._machines.machine(identity)

    def _look(self, identity: str) -> View:
        with as_fishy():
            return self._machine(identity).look()

    @property
    def driver(self) -> str:
        """For the emulator's log."""
        return "<container>"

    @property
    def systems(self) -> list[str]:
        """The UUIDs of all machines."""
        with as_fishy():
            return [machine.uuid for machine in self._machines.all()]

    def uuid(self, identity: str) -> str:
        """Return the UUID of a machine named either way."""
        view = self._look(identity)
        if identity != view.uuid:
            raise error.AliasAccessError(view.uuid)
        return view.uuid

    def name(self, identity: str) -> str:
        """Return its name."""
        return self._look(identity).name

    def get_power_state(self, identity: str) -> str:
        """Return On or Off."""
        return "On" if self._look(identity).on else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        """ComputerSystem.Reset."""
        with as_fishy():
            self._machine(identity).ask(_RESETS[state])

    def get_boot_device(self, identity: str) -> str:
        """Return the target that is tried first."""
        first = self._look(identity).first
        return next(name for name, device in _BOOT.items() if device == first)

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        """Try this first."""
        self.set_override(identity, boot_source)

    def override(self, identity: str) -> tuple[str, bool]:
        """Return the target to try first ("None": as usual), and whether once."""
        view = self._look(identity)
        usual = view.first == "hd" and not view.once and view.uuid not in self._disk_first
        return "None" if usual else self.get_boot_device(identity), view.once

    def set_override(self, identity: str, target: str, *, once: bool = False) -> None:
        """Try this first, at the next power-on alone or always; "None": as usual."""
        with as_fishy():
            view = self._machine(identity).ask("first", _BOOT.get(target, "hd"), once=once)
        (self._disk_first.add if target == "Hdd" else self._disk_first.discard)(view.uuid)

    def get_boot_mode(self, identity: str) -> str:
        """UEFI or Legacy."""
        return "UEFI" if self._look(identity).firmware == "uefi" else "Legacy"

    def disks(self, identity: str) -> list[Disk]:
        """Return its disks."""
        return [
            Disk(
                disk.target,
                disk.bus,
                disk.size,
                serial=disk.serial,
                maker=disk.vendor,
                model=disk.model,
                rotational=disk.rotational,
            )
            for disk in self._look(identity).disks
        ]

    def get_simple_storage_collection(self, identity: str) -> dict[str, dict[str, Any]]:
        """List its disks by their buses."""
        return simple(self.disks(identity))

    def get_total_memory(self, identity: str) -> int:
        """Return its memory in GiB."""
        return self._look(identity).memory_mib // 1024

    def get_total_cpus(self, identity: str) -> int:
        """Return the number of its virtual CPUs."""
        return self._look(identity).vcpus

    def get_processors(self, identity: str) -> list[dict[str, Any]]:
        """List its processors, each with one core: inspection by Ironic asks for them."""
        alike = {"vendor": "", "model": "", "cores": 1, "threads": 1}
        names = [f"CPU{number}" for number in range(self._look(identity).vcpus)]
        return [{"id": name, "Id": name, "socket": name, **alike} for name in names]

    def get_nics(self, identity: str) -> list[dict[str, Any]]:
        """Return its NICs by their MAC addresses."""
        return [{"id": mac, "mac": mac} for mac in self._look(identity).macs]

    def get_boot_image(self, identity: str, device: str) -> tuple[str | None, bool, bool]:
        """Return the image in the drive, that it is write-protected, and whether there is one."""
        media = self._look(identity).media if device == "Cd" else ""
        return media or None, True, bool(media)

    def set_boot_image(self, identity: str, device: str, boot_image: str | None = None, *_: Any, **__: Any) -> None:
        """Insert or eject."""
        if device != "Cd":
            raise error.NotSupportedError(f"container machines have no drive for {device}")
        with as_fishy():
            self._machine(identity).ask("media", boot_image or "")
