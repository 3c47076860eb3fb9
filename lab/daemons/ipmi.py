"""IPMI beside Redfish: `python -m lab.daemons.ipmi CONFIG` answers for all machines, a UDP port each.

Power, boot device and the serial line (SOL), by pyghmi's server: IPMI 2.0 (RMCP+) with cipher suite 3, as
`ipmitool -I lanplus -C 3` speaks it. Accounts are those of the Redfish BMC.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import msgspec
from pyghmi.ipmi import bmc

from drivers.console import FileConsole
from drivers.container import Machines
from drivers.errors import DriverError
from drivers.protocols import BootDevice, PowerState

_POLL_SECONDS = 0.1
_LISTEN_SECONDS = 30
# Completion code (IPMI 2.0, table 5-2).
_UNSPECIFIED = 0xFF
_DEVICES = {"hd": BootDevice.DISK, "optical": BootDevice.CD, "network": BootDevice.NETWORK}


class Machine(Protocol):
    """A machine's power by its hypervisor, which is all that IPMI needs of it."""

    def state(self) -> PowerState:
        """Whether it runs."""

    def on(self) -> None:
        """Power on."""

    def off(self) -> None:
        """Pull the plug."""

    def cycle(self) -> None:
        """Off, then on."""


class Place(msgspec.Struct, frozen=True):
    """A machine's BMC: UDP port, and the files of its serial line."""

    name: str
    port: int
    console_log: str
    console_socket: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon answers for. `owner` is a libvirt URI, or the socket of the daemon of container machines."""

    address: str
    user: str
    password: str
    owner: str
    contained: bool
    machines: tuple[Place, ...]

    def __repr__(self) -> str:
        return f"Config({self.address!r}, {len(self.machines)} machines)"


class Bmc(bmc.Bmc):  # type: ignore[misc]  # pyghmi has no types
    """One machine's, at a UDP port of `address`. `boot` sets what is tried first, at the next start alone or always."""

    def __init__(
        self,
        accounts: dict[str, str],
        place: Place,
        address: str,
        machine: Machine,
        *,
        boot: Callable[[BootDevice, bool], None],
        uuid: UUID | None = None,
    ) -> None:
        super().__init__(accounts, port=place.port, bmcuuid=uuid, address=address)
        self._machine = machine
        self._boot = boot
        self._device = "default"
        self._once = True
        self._console = FileConsole(Path(place.console_log), Path(place.console_socket), machine=place.name)

    def _do(self, act: Callable[[], None]) -> int:
        try:
            act()
        except DriverError as error:
            print(f"ipmi: {error}", file=sys.stderr, flush=True)
            return _UNSPECIFIED
        return 0

    def get_power_state(self) -> str:
        """Chassis status."""
        return "on" if self._machine.state() is PowerState.ON else "off"

    def power_on(self) -> int:
        """Chassis control 1."""
        return self._do(self._machine.on)

    def power_off(self) -> int:
        """Chassis control 0."""
        return self._do(self._machine.off)

    def power_cycle(self) -> int:
        """Chassis control 2."""
        return self._do(self._machine.cycle)

    def power_reset(self) -> int:
        """Chassis control 3: here the plug is pulled as well, so that media are taken up."""
        return self._do(self._machine.cycle)

    def get_system_guid(self) -> UUID:
        """The machine's UUID."""
        guid: UUID = self.uuid
        return guid

    def get_boot_device(self) -> str:
        """What was asked for last."""
        return self._device

    def set_boot_device(self, bootdevice: str) -> None:
        """Boot this device first; `default` takes back what was asked for, so that the disk is first again. A device
        that the machine does not have changes nothing but what `get_boot_device` says."""
        self._device = bootdevice
        if bootdevice == "default":
            self._do(lambda: self._boot(BootDevice.DISK, False))
        elif bootdevice in _DEVICES:
            self._do(lambda: self._boot(_DEVICES[bootdevice], self._once))

    def set_system_boot_options(self, request: Any, session: Any) -> None:
        """As pyghmi does, with the flag that says for how long (IPMI 2.0, table 28-14: parameter 5, data 1, bit 6)."""
        if request["data"][0] == 5:
            self._once = not request["data"][1] & 0b0100_0000
        super().set_system_boot_options(request, session)

    # -- the serial line -------------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        """The line is there whether the machine is on or off."""
        return True

    def iohandler(self, data: bytes | str) -> None:
        """What a client types."""
        text = data if isinstance(data, str) else data.decode(errors="replace")
        self._do(lambda: self._console.send(text))

    def activate_payload(self, request: Any, session: Any) -> None:
        """Begin to show the line; output from now on."""
        begun = self.activated
        super().activate_payload(request, session)
        if self.activated and not begun:
            threading.Thread(target=self._show, args=(self.sol,), daemon=True, name=f"sol-{self.port}").start()

    def _show(self, sol: Any) -> None:
        """Send the serial line's output until the client disconnects."""
        log = self._console.log
        position = log.stat().st_size if log.exists() else 0
        while self.activated and self.sol is sol and not sol.broken:
            size = log.stat().st_size if log.exists() else 0
            if size > position:
                with log.open("rb") as source:
                    source.seek(position)
                    data = source.read(size - position)
                position = size
                sol.send_data(data)
            # A file tells nobody that it grows; the line has 11 kB/s at most.
            time.sleep(_POLL_SECONDS)


def serve(config: Config) -> None:
    """Answer until killed."""
    accounts = {config.user: config.password}
    for place in config.machines:
        machine, boot = (contained if config.contained else virtual)(config, place.name)
        Bmc(accounts, place, config.address, machine, boot=boot)
    bmc.Bmc.listen(_LISTEN_SECONDS)


def contained(config: Config, name: str) -> tuple[Machine, Callable[[BootDevice, bool], None]]:
    """A container machine, and what sets its boot device."""
    machine = Machines(Path(config.owner)).machine(name)
    return machine, lambda device, once: machine.set_first(device, once=once)


def virtual(config: Config, name: str) -> tuple[Machine, Callable[[BootDevice, bool], None]]:
    """A virtual machine, and what sets its boot device."""
    from drivers.libvirt import Hypervisor  # libvirt is costly to load

    machine = Hypervisor(config.owner).machine(name)

    def boot(device: BootDevice, once: bool) -> None:
        if once and device is BootDevice.CD:
            machine.boot_from_cd_once()
        else:
            machine.set_first(device)

    return machine, boot


def main(file: str) -> None:
    """Serve what the configuration file says."""
    serve(msgspec.json.decode(Path(file).read_bytes(), type=Config))


if __name__ == "__main__":
    main(sys.argv[1])
