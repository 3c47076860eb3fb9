"""Machines' BMCs as IPMI knows them, a UDP port each: `python -m lab.daemons.ipmi.bmc CONFIG`.

Power, boot device and the serial line (SOL): IPMI 2.0 (RMCP+) with cipher suite 3, as `ipmitool -I lanplus -C 3` speaks
it. Accounts are those of the Redfish BMC. Handshake, encryption and framing are pyghmi's; its loop is not used, since
one malformed packet ends it for all machines, and it keeps each peer that ever sent something.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import msgspec
from pyghmi.ipmi import bmc
from pyghmi.ipmi.private import constants

from drivers.console import FileConsole
from drivers.container import Machines
from drivers.errors import DriverError
from drivers.protocols import BootDevice, PowerState
from lab.daemons.ipmi.session import CHUNK_BYTES, IN_SESSION, WRONG_LENGTH, Line, Session

_POLL_SECONDS = 0.1
# IPMI 2.0, 6.12.15.
_IDLE_SECONDS = 60.0
_SESSIONS = 256
_PACKET_BYTES = 1024
# Completion codes (IPMI 2.0, table 5-2; the first is of Get System Boot Options), and of RMCP+ (table 13-15).
_NO_PARAMETER = 0x80
_FIELD = 0xCC
_STATE = 0xD5
_UNSPECIFIED = 0xFF
_NO_SUITE = 0x11
# Device selectors of the boot flags (table 28-14).
_DEVICES = {0b0001: BootDevice.NETWORK, 0b0010: BootDevice.DISK, 0b0101: BootDevice.CD}
_FLAGS = 5
# How many bytes the parameters have that are kept: set in progress, flags' expiry, acknowledgements, flags.
_PARAMETERS = {0: 1, 3: 1, 4: 2, _FLAGS: 5}
Answer = int | bytes


class Machine(Protocol):
    """A machine's power by its hypervisor, which is all that IPMI needs of it."""

    @property
    def uuid(self) -> str:
        """Its UUID."""

    def state(self) -> PowerState:
        """Read whether it runs."""

    def on(self) -> None:
        """Power on."""

    def off(self) -> None:
        """Pull the plug."""

    def cycle(self) -> None:
        """Switch off, then on."""

    def shut_down(self) -> None:
        """Press the power button, which its system answers."""


@dataclass(frozen=True)
class Boots:
    """A machine's boot order by its hypervisor: `set` has a device tried first, at the next start alone (True) or
    always; `holds` is whether the next start does so still."""

    set: Callable[[BootDevice, bool], None]
    holds: Callable[[BootDevice, bool], bool]


class Place(msgspec.Struct, frozen=True):
    """A machine's BMC: UDP port, and the files of its serial line."""

    name: str
    port: int
    console_log: str
    console_socket: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The machines that the daemon answers for. `owner` is a libvirt URI, or the socket of the daemon of container
    machines."""

    address: str
    user: str
    password: str
    owner: str
    contained: bool
    machines: tuple[Place, ...]

    def __repr__(self) -> str:
        return f"Config({self.address!r}, {len(self.machines)} machines)"


class Bmc(bmc.Bmc):  # type: ignore[misc]  # pyghmi has no types
    """One machine's, at a UDP port of `address`; `sessions` by the ids that it gave them. pyghmi's own initialization
    would start its loop."""

    revision = deviceid = firmwareminor = additionaldevices = mfgid = prodid = 0
    firmwaremajor = 1
    ipmiversion = 2
    # Channel 1, IPMI 2.0 only, named accounts (IPMI 2.0, table 22-15, behind a completion code).
    authcap = bytes([0, 1, 0b1000_0000, 0b100, 0b10, 0, 0, 0, 0])

    def __init__(self, accounts: dict[str, str], place: Place, address: str, machine: Machine, *, boots: Boots) -> None:
        self.authdata = accounts
        self.port = place.port
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        self.serversocket = socket.socket(family, socket.SOCK_DGRAM)
        self.serversocket.bind((address, place.port))
        self._name = place.name
        self._machine = machine
        self._boots = boots
        self._parameters = {number: bytes(length) for number, length in _PARAMETERS.items()}
        self.sessions: dict[bytes, Session] = {}
        self._line: Line | None = None
        self._console = FileConsole(Path(place.console_log), Path(place.console_socket), machine=place.name)

    @property
    def uuid(self) -> UUID:
        """The machine's. Raises DriverError."""
        return UUID(self._machine.uuid)

    def listen(self) -> None:
        """Answer for ever."""
        while True:
            # A file tells nobody that it grows; the line has 11 kB/s at most.
            self.serversocket.settimeout(_POLL_SECONDS if self._line else None)
            try:
                with contextlib.suppress(TimeoutError):
                    self.receive(*self.serversocket.recvfrom(_PACKET_BYTES))
                self._show()
            except Exception as error:
                # pyghmi reads a packet as though it were whole; of a malformed one no more is left than this line.
                print(f"ipmi: {self._name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def receive(self, data: bytes, peer: Any) -> None:
        """Act on one packet."""
        packet = bytearray(data)
        if packet[:1] != b"\x06" or packet[2:4] != b"\xff\x07":
            return
        rmcp_plus, kind = packet[4] == 6, packet[5] & 0b0011_1111
        if rmcp_plus and kind == constants.payload_types["rmcpplusopenreq"]:
            self._open(packet[16:], peer)
            return
        # Session ids: in the head of a session's packets, in the payload of those of its handshake.
        session = self.sessions.get(bytes(packet[6:10] if kind in IN_SESSION else packet[20:24])) if rmcp_plus else None
        if session is not None and session.sockaddr == peer:
            session.receive(packet)
        else:
            self.sessionless_data(packet, peer)

    def _open(self, request: bytearray, peer: Any) -> None:
        """Begin a session, in place of those that nobody uses. A client that asks again, since the answer took long,
        gets a second one: it goes on with either."""
        if len(request) < 32:
            return
        if [request[place] & 0b0011_1111 for place in (12, 20, 28)] != [1, 1, 1]:
            header = bytes([6, 0, 0xFF, 7, 6, constants.payload_types["rmcpplusopenresponse"], *bytes(8), 8, 0])
            answer = bytes([request[0], _NO_SUITE, 0, 0]) + request[4:8]
            self.serversocket.sendto(header + answer, peer)
            return
        unused = time.monotonic() - _IDLE_SECONDS
        for session in [session for session in self.sessions.values() if session.heard < unused]:
            self.forget(session)
        if len(self.sessions) >= _SESSIONS:
            self.forget(min(self.sessions.values(), key=lambda session: (session.open, session.heard)))
        session = Session(self, peer, request)
        self.sessions[session.id] = session

    def forget(self, session: Session) -> None:
        """End a session, and the serial line with it."""
        self.sessions.pop(session.id, None)
        if self._line and self._line.session is session:
            self._line = None

    def handle_raw_request(self, request: dict[str, Any], session: Session) -> None:
        """Do what a client asks for."""
        acts: dict[tuple[int, int], Callable[[bytes], Answer]] = {
            (0, 1): self._status, (0, 2): self._control, (0, 8): self._set_boot_option, (0, 9): self._boot_option,
            (6, 0x37): lambda _: self.uuid.bytes_le,
            (6, 0x48): lambda _: self._activate(session), (6, 0x49): lambda _: self._deactivate(),
        }  # fmt: skip
        act = acts.get((request["netfn"], request["command"]))
        if act is None:
            super().handle_raw_request(request, session)
            return
        try:
            answer = act(bytes(request["data"]))
        except DriverError as error:
            print(f"ipmi: {error}", file=sys.stderr, flush=True)
            answer = _UNSPECIFIED
        code, data = (answer, b"") if isinstance(answer, int) else (0, answer)
        session.send_ipmi_response(code=code, data=data)

    def _status(self, _data: bytes) -> Answer:
        return bytes([self._machine.state() is PowerState.ON, 0, 0])

    def _control(self, data: bytes) -> Answer:
        """Chassis control (IPMI 2.0, table 28-4): a cycle or a reset of what is off is refused. A reset pulls the plug
        as well, so that media are taken up."""
        acts = {
            0: self._machine.off, 1: self._machine.on, 2: self._machine.cycle, 3: self._machine.cycle,
            5: self._machine.shut_down,
        }  # fmt: skip
        act = acts.get(data[0] & 0b1111)
        if act is None:
            return _FIELD
        if act == self._machine.cycle and self._machine.state() is PowerState.OFF:
            return _STATE
        act()
        return 0

    def _set_boot_option(self, data: bytes) -> Answer:
        number = data[0] & 0b0111_1111
        if number not in _PARAMETERS:
            return _NO_PARAMETER
        value = data[1 : 1 + _PARAMETERS[number]]
        if len(value) < _PARAMETERS[number]:
            return WRONG_LENGTH
        if number == _FLAGS:
            selector, (valid, once) = value[1] >> 2 & 0b1111, _validity(value)
            if not valid or not selector:
                # What was asked for is taken back: the disk is first again.
                self._boots.set(BootDevice.DISK, False)
            elif selector not in _DEVICES:
                return _FIELD
            else:
                self._boots.set(_DEVICES[selector], once)
        self._parameters[number] = value
        return 0

    def _boot_option(self, data: bytes) -> Answer:
        """Return a parameter as it was set; the boot flags until they have had their effect, or another changed the
        order."""
        number = data[0] & 0b0111_1111
        if number not in _PARAMETERS:
            return _NO_PARAMETER
        value = self._parameters[number]
        if number == _FLAGS:
            device, (valid, once) = _DEVICES.get(value[1] >> 2 & 0b1111), _validity(value)
            if valid and device and not self._boots.holds(device, once):
                value = bytes(_PARAMETERS[_FLAGS])
        return bytes([1, number]) + value

    # -- the serial line -------------------------------------------------------------------------------------------

    def _activate(self, session: Session) -> Answer:
        if self._line:
            return 0x80
        self._line = Line(session, self._console)
        # The longest packets in both directions, the port, no VLAN (table 24-2).
        return bytes(4) + CHUNK_BYTES.to_bytes(2, "little") * 2 + self.port.to_bytes(2, "little") + b"\xff\xff"

    def _deactivate(self) -> Answer:
        if not self._line:
            return 0x80
        self._line = None
        return 0

    def _show(self) -> None:
        if self._line and time.monotonic() > self._line.session.heard + _IDLE_SECONDS:
            self.forget(self._line.session)
        if self._line:
            self._line.show()


def _validity(flags: bytes) -> tuple[bool, bool]:
    """Tell whether boot flags count, and whether once (IPMI 2.0, table 28-14: data 1, bits 7 and 6)."""
    return bool(flags[0] & 0b1000_0000), not flags[0] & 0b0100_0000


def serve(config: Config) -> None:
    """Answer until killed."""
    accounts = {config.user: config.password}
    threads = []
    for place in config.machines:
        machine, boots = (contained if config.contained else virtual)(config, place.name)
        server = Bmc(accounts, place, config.address, machine, boots=boots)
        threads.append(threading.Thread(target=server.listen, daemon=True, name=place.name))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def contained(config: Config, name: str) -> tuple[Machine, Boots]:
    """Return a container machine and its boot order."""
    machine = Machines(Path(config.owner)).machine(name)
    return machine, Boots(
        set=lambda device, once: machine.set_first(device, once=once),
        holds=lambda device, once: machine.look().once is once and machine.first() is device,
    )


def virtual(config: Config, name: str) -> tuple[Machine, Boots]:
    """Return a virtual machine and its boot order."""
    from drivers.libvirt import Hypervisor  # libvirt is costly to load

    machine = Hypervisor(config.owner).machine(name)

    def put(device: BootDevice, once: bool) -> None:
        if once and device is BootDevice.CD:
            machine.boot_from_cd_once()
        elif once:
            machine.boot_once(device)
        else:
            machine.set_first(device)

    def holds(device: BootDevice, once: bool) -> bool:
        if not once:
            return machine.first() is device
        return machine.from_cd if device is BootDevice.CD else machine.next_device is device

    return machine, Boots(put, holds)


if __name__ == "__main__":
    serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config))
