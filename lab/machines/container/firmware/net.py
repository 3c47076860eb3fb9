"""Network boot: by PXE the kernel and initrds that an iPXE script lists, by UEFI's HTTP boot an ISO, in memory.

The reader has no network: whoever asked it has addresses and files fetched (lab.machines.container.firmware.netboot).
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Interface
from urllib.parse import urljoin

import msgspec

from installer.common.iso9660 import NotIso9660
from lab.machines.container.firmware import live
from lab.machines.container.firmware.entry import BootStopped, Entry, NoEntry, Room
from lab.machines.container.firmware.messages import FETCHED, Fetch
from lab.machines.container.firmware.messages import Lease as Ask
from lab.machines.container.firmware.netboot.dhcp import Lease
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import MachineSpec, Nic

_HTTP = "HTTPClient"
_ANSWER_BYTES = 1 << 16
_SCRIPT_BYTES = 1 << 20


class Network:
    """The machine's NICs, through the firmware at the other end of `line`."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def lease(self, nic: str, *, http: bool) -> Lease:
        """Ask for an address, and for what to boot. Raises NoEntry."""
        self._line.send(msgspec.json.encode(Ask(nic, http)))
        answer = self._line.recv(_ANSWER_BYTES)
        try:
            return msgspec.json.decode(answer, type=Lease)
        except msgspec.DecodeError:
            raise NoEntry(answer.decode(errors="replace")) from None

    def fetch(self, url: str, most: int) -> int:
        """Fetch a URL into a file in memory. Raises NoEntry."""
        self._line.send(msgspec.json.encode(Fetch(url, most)))
        answer, descriptors, _, _ = socket.recv_fds(self._line, _ANSWER_BYTES, 1)
        if answer != FETCHED:
            raise NoEntry(answer.decode(errors="replace"))
        return descriptors[0]

    def text(self, url: str) -> str:
        """Fetch a script. Raises NoEntry."""
        with os.fdopen(self.fetch(url, _SCRIPT_BYTES), "rb") as file:
            return file.read().decode("utf-8", "replace")


def entry(spec: MachineSpec, network: Network, screen: Screen, room: Room) -> tuple[Entry, list[int]]:
    """Boot by the first of the machine's NICs that gets anything to boot; the initrds are files in memory.

    Raises NoEntry: none does; BootStopped: what was fetched stops.
    """
    reasons = []
    for nic in spec.nics:
        try:
            return _by_nic(nic, spec, network, screen, room=room)
        except NoEntry as error:
            reasons.append(f"{nic.name}: {error}")
    raise NoEntry("; ".join(reasons) or "there is no NIC")


def _by_nic(nic: Nic, spec: MachineSpec, network: Network, screen: Screen, *, room: Room) -> tuple[Entry, list[int]]:
    try:
        return _pxe(nic, spec, network, screen, room=room)
    except NoEntry as error:
        screen.line(f"PXE-E16: {error}" if spec.firmware == "uefi" else f"{error}")
        if spec.firmware != "uefi":
            raise
        try:
            return _http(nic, spec, network, screen, room=room)
        except NoEntry as second:
            screen.line(f"Error: {second}")
            raise NoEntry(f"PXE: {error}; HTTP: {second}") from second


def _pxe(nic: Nic, spec: MachineSpec, network: Network, screen: Screen, *, room: Room) -> tuple[Entry, list[int]]:
    """Boot as a NIC whose ROM is iPXE does, as QEMU's NICs do."""
    screen.line(">>Start PXE over IPv4." if spec.firmware == "uefi" else f"iPXE: Configuring (net0 {nic.mac})")
    lease = network.lease(nic.name, http=False)
    if not lease.file:
        raise NoEntry("No valid offer received: it names nothing to boot")
    screen.line(f"  Station IP address is {IPv4Interface(lease.address).ip}\n  NBP filename is {lease.file}")
    chosen = listed(lease.file, network.text(lease.file))
    os.close(network.fetch(chosen.kernel, room.left))
    images = []
    for url in chosen.initrds:
        images.append(network.fetch(url, room.left))
        room.take(url, os.lseek(images[-1], 0, os.SEEK_END))
        os.lseek(images[-1], 0, os.SEEK_SET)
        screen.line(f"{url}... ok")
    return chosen, images


def listed(url: str, script: str) -> Entry:
    """Read an iPXE script that only lists what to boot, as those of `agent create pxe-files` and of the assisted
    service do. Raises NoEntry: it is none, or has no kernel; BootStopped: it has other commands."""
    first, *lines = script.splitlines() or [""]
    if first.split() != ["#!ipxe"]:
        raise NoEntry(f"{url} is no iPXE script: its first line is not #!ipxe")
    kernel, initrds = list[str](), list[str]()
    for line in lines:
        words = line.split()
        # iPXE's settings, and commands that depend on the one before (ipxe.org/scripting).
        more = next((word for word in words if word in ("||", "&&") or "${" in word), "")
        match words:
            case []:
                continue
            case [comment, *_] if comment.startswith("#"):
                continue
            case ["kernel", path, *arguments] if not (more or path.startswith("-")):
                kernel = [_joined(url, path), *arguments]
            case ["initrd", "--name", _, path] | ["initrd", path] if not more:
                initrds.append(_joined(url, path))
            case ["boot"]:
                break
            case _:
                raise BootStopped(
                    f"error: {url}: {more or words[0]}: a container's firmware knows scripts of "
                    "kernel, initrd and boot alone; use virtual machines for others."
                )
    if not kernel:
        raise NoEntry(f"the iPXE script {url} boots nothing")
    return Entry(kernel[0], tuple(kernel[1:]), tuple(initrds))


def _joined(url: str, path: str) -> str:
    """Return the address of what a script names. Raises NoEntry."""
    try:
        return urljoin(url, path)
    except ValueError as error:
        raise NoEntry(f"{url}: {path}: {error}") from None


def _http(nic: Nic, spec: MachineSpec, network: Network, screen: Screen, *, room: Room) -> tuple[Entry, list[int]]:
    """Boot by HTTP (UEFI specification 2.10 §24.7): an ISO becomes a disk in memory, of which Linux sees nothing."""
    screen.line(">>Start HTTP Boot over IPv4.")
    lease = network.lease(nic.name, http=True)
    if not lease.vendor.startswith(_HTTP) or not lease.file:
        raise NoEntry("No valid offer received: it is not for HTTP boot")
    screen.line(f"  Station IP address is {IPv4Interface(lease.address).ip}\n  URI: {lease.file}")
    file = network.fetch(lease.file, room.left)
    room.take(lease.file, os.lseek(file, 0, os.SEEK_END))
    try:
        medium = live.Medium(os.fdopen(file, "rb"))
    except NotIso9660 as error:
        raise NoEntry(f"{lease.file} is no ISO, and nothing else is started here") from error
    chosen = live.entry(medium, spec.firmware)
    return chosen, live.initrds(medium, chosen, room)
