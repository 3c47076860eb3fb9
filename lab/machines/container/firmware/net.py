"""Booting from the network: by PXE an iPXE script's kernel and initrds, by UEFI's HTTP boot an ISO, in memory."""

from __future__ import annotations

from pathlib import Path

from lab.machines.container.firmware import live
from lab.machines.container.firmware.formats.iso9660 import Medium, NotIso
from lab.machines.container.firmware.loaders.entry import Entry, NoEntry, Room
from lab.machines.container.firmware.loaders.ipxe import Ipxe
from lab.machines.container.firmware.netboot import card
from lab.machines.container.firmware.netboot.dhcp import Client, Lease, NoLease
from lab.machines.container.firmware.screen import Screen
from lab.machines.container.spec import MachineSpec, Nic

# IANA's processor architecture types (RFC 4578; dhcpv6-parameters): PC with BIOS, x86-64 with UEFI, the same by HTTP.
_BIOS, _UEFI, _UEFI_HTTP = 0, 7, 16
_HTTP = "HTTPClient"


def entry(spec: MachineSpec, namespace: int, work: Path, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    """What the first of the machine's cards gets that gets anything to boot, by `namespace`, where they are.

    Raises NoEntry: none does; BootStopped: what was fetched stops.
    """
    return card.within(namespace, lambda: _by_cards(spec, work, screen, room))


def _by_cards(spec: MachineSpec, work: Path, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    reasons = []
    for nic in spec.nics:
        try:
            if not card.has_link(nic):
                raise NoEntry("no cable is plugged in")
            return _by_card(nic, spec, work, screen, room)
        except (NoEntry, NoLease, card.NotFetched) as error:
            reasons.append(f"{nic.name}: {error}")
        finally:
            card.down(nic)
    raise NoEntry("; ".join(reasons) or "there is no network card")


def _by_card(nic: Nic, spec: MachineSpec, work: Path, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    try:
        return _pxe(nic, spec, screen, room)
    except (NoEntry, NoLease, card.NotFetched) as error:
        screen.line(f"PXE-E16: {error}" if spec.firmware == "uefi" else f"{error}")
        if spec.firmware != "uefi":
            raise
        try:
            return _http(nic, spec, work, screen, room)
        except (NoEntry, NoLease, card.NotFetched) as second:
            screen.line(f"Error: {second}")
            raise NoEntry(f"PXE: {error}; HTTP: {second}") from second


def _pxe(nic: Nic, spec: MachineSpec, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    """As a card whose ROM is iPXE, which QEMU's are."""
    screen.line(">>Start PXE over IPv4." if spec.firmware == "uefi" else f"iPXE: Configuring (net0 {nic.mac})")
    client = Client("PXEClient", _UEFI if spec.firmware == "uefi" else _BIOS, ipxe=True)
    with card.configured(nic, spec.uuid, client) as lease:
        if not lease.file:
            raise NoEntry("No valid offer received: it names nothing to boot")
        screen.line(f"  Station IP address is {lease.address.ip}\n  NBP filename is {lease.file}")

        def script(url: str) -> str:
            return card.fetch(url, 1 << 20).decode("utf-8", "replace")

        found = Ipxe(script, screen.line, _settings(nic, spec, lease)).boot(lease.file)
        card.fetch(found.kernel, room.left)
        images = []
        for url in found.initrds:
            images.append(card.fetch(url, room.left))
            room.take(url, len(images[-1]))
            screen.line(f"{url}... ok")
    return Entry(found.kernel, found.arguments, found.initrds), images


def _settings(nic: Nic, spec: MachineSpec, lease: Lease) -> dict[str, str]:
    """iPXE's settings that scripts ask for (ipxe.org/cfg)."""
    found = {"mac": nic.mac, "ip": str(lease.address.ip), "netmask": str(lease.address.netmask), "uuid": spec.uuid}
    found |= {"filename": lease.file, "next-server": lease.server, "gateway": str(lease.router or "")}
    platform = "efi" if spec.firmware == "uefi" else "pcbios"
    plain = {name: value for name, value in found.items() if value}
    of_card = {f"net0/{name}": value for name, value in plain.items()}
    return plain | of_card | {"platform": platform, "buildarch": "x86_64"}


def _http(nic: Nic, spec: MachineSpec, work: Path, screen: Screen, room: Room) -> tuple[Entry, list[bytes]]:
    """UEFI specification 2.10, chapter 24.7: an ISO becomes a disk in memory, of which Linux sees nothing."""
    screen.line(">>Start HTTP Boot over IPv4.")
    with card.configured(nic, spec.uuid, Client(_HTTP, _UEFI_HTTP)) as lease:
        if not lease.vendor.startswith(_HTTP) or not lease.file:
            raise NoEntry("No valid offer received: it is not for HTTP boot")
        screen.line(f"  Station IP address is {lease.address.ip}\n  URI: {lease.file}")
        image = work / "http-boot.iso"
        with image.open("wb") as out:
            room.take(lease.file, card.fetch_to(lease.file, out, room.left))
    try:
        medium = Medium(image)
    except NotIso as error:
        raise NoEntry(f"{lease.file} is no ISO, and nothing else is started here") from error
    with medium:
        found = live.entry(medium, spec.firmware, screen, room)
        return found, live.initrds(medium, found, room)
