"""A network as a person edits it, and the NetworkManager profiles that it becomes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

DHCP, STATIC, OFF = "DHCP", "static", "off"
WAYS = (DHCP, STATIC, OFF)
BOND_MODES = ("active-backup", "802.3ad", "balance-xor", "balance-tlb", "balance-alb")
BOND = "bond0"
#: What begins the names of the console's own profiles.
OWN = "agent-tui-"
_LONGEST_NAME = 15  # IFNAMSIZ less its NUL
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")


@dataclass(frozen=True, kw_only=True)
class Network:
    """The network of one NIC, or of a bond of `nic` and `bonded`; texts are as they were typed."""

    nic: str
    bonded: str = ""
    bond_mode: str = BOND_MODES[0]
    vlan: str = ""
    ipv4: str = DHCP
    address4: str = ""
    gateway4: str = ""
    ipv6: str = DHCP
    address6: str = ""
    gateway6: str = ""
    dns: str = ""
    search: str = ""

    @property
    def ports(self) -> tuple[str, ...]:
        """The bond's NICs; none without a bond."""
        others = tuple(dict.fromkeys(_words(self.bonded)))
        return (self.nic, *(name for name in others if name != self.nic)) if others else ()

    @property
    def base(self) -> str:
        """The interface below the VLAN."""
        return BOND if self.ports else self.nic

    @property
    def top(self) -> str:
        """The interface that has the addresses."""
        if not self.vlan.strip():
            return self.base
        number = self.vlan.strip()
        return f"{self.base[: _LONGEST_NAME - 1 - len(number)]}.{number}"


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def problems(network: Network, known: tuple[str, ...]) -> list[str]:
    """Return what is wrong with a network, a line for each field; `known`: this machine's NICs."""
    wrong = [f"Bond with: this machine has no NIC {name}" for name in _words(network.bonded) if name not in known]
    vlan = network.vlan.strip()
    if vlan and not (vlan.isascii() and vlan.isdigit() and 1 <= int(vlan) <= 4094):
        wrong.append(f"VLAN: {vlan} is no number from 1 to 4094")
    wrong += _family(4, network.ipv4, network.address4, network.gateway4)
    wrong += _family(6, network.ipv6, network.address6, network.gateway6)
    if network.ipv4 == network.ipv6 == OFF:
        wrong.append("IPv4, IPv6: one of them must be on")
    for text in _words(network.dns):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            wrong.append(f"DNS servers: {text} is no IP address")
    for text in _words(network.search):
        if not all(_LABEL.fullmatch(label) for label in text.rstrip(".").split(".")):
            wrong.append(f"Search domains: {text} is no domain")
    return wrong


def _family(version: int, way: str, addresses: str, gateway: str) -> Iterator[str]:
    if way != STATIC:
        return
    networks: list[ipaddress.IPv4Interface | ipaddress.IPv6Interface] = []
    for text in _words(addresses):
        try:
            interface = ipaddress.ip_interface(text)
        except ValueError:
            yield f"IPv{version} address: {text} is no address with a prefix, like {_example(version)}"
            continue
        if interface.version != version or "/" not in text:
            yield f"IPv{version} address: {text} is no IPv{version} address with a prefix, like {_example(version)}"
        elif version == 4 and interface.network.prefixlen < 31 and interface.ip in _ends(interface.network):
            yield f"IPv4 address: {text} is the network's own or its broadcast address"
        else:
            networks.append(interface)
    if not _words(addresses):
        yield f"IPv{version} address: a static network needs one, like {_example(version)}"
    if not gateway.strip():
        return
    try:
        router = ipaddress.ip_address(gateway.strip())
    except ValueError:
        yield f"IPv{version} gateway: {gateway.strip()} is no IP address"
        return
    if router.version != version:
        yield f"IPv{version} gateway: {router} is no IPv{version} address"
    elif any(router == item.ip for item in networks):
        yield f"IPv{version} gateway: {router} is this machine's own address"
    elif networks and not router.is_link_local and not any(router in item.network for item in networks):
        yield f"IPv{version} gateway: {router} is not in the network of {networks[0]}"


def _ends(network: object) -> tuple[object, ...]:
    assert isinstance(network, ipaddress.IPv4Network)
    return network.network_address, network.broadcast_address


def _example(version: int) -> str:
    return "192.168.1.20/24" if version == 4 else "2001:db8::20/64"


def profiles(network: Network) -> dict[str, str]:
    """Return keyfiles by file name, those that others need first; of a network without `problems`."""
    files: dict[str, str] = {}
    if network.ports:
        bond = f"[bond]\nmode={network.bond_mode}\nmiimon=100\n"
        files |= _profile("bond", BOND, bond, () if network.vlan.strip() else _addresses(network))
        for port in network.ports:
            files |= _profile("ethernet", port, "", (), controller=BOND)
    elif network.vlan.strip():
        files |= _profile("ethernet", network.nic, "", ())
    if network.vlan.strip():
        vlan = f"[vlan]\nid={int(network.vlan)}\nparent={network.base}\n"
        files |= _profile("vlan", network.top, vlan, _addresses(network))
    elif not network.ports:
        files |= _profile("ethernet", network.nic, "", _addresses(network))
    return files


def _profile(kind: str, name: str, own: str, addresses: tuple[str, ...], *, controller: str = "") -> dict[str, str]:
    # A higher priority than what NetworkManager makes up for a NIC without a profile.
    text = (
        f"[connection]\nid={OWN}{name}\ntype={kind}\ninterface-name={name}\nautoconnect=true\nautoconnect-priority=10\n"
    )
    if controller:
        text += f"master={controller}\nslave-type=bond\n"
    else:
        text += "\n" + "\n".join(addresses or ("[ipv4]\nmethod=disabled\n", "[ipv6]\nmethod=disabled\n"))
    return {f"{OWN}{name}.nmconnection": text + (f"\n{own}" if own else "")}


def _addresses(network: Network) -> tuple[str, ...]:
    families = (
        (4, network.ipv4, network.address4, network.gateway4),
        (6, network.ipv6, network.address6, network.gateway6),
    )
    sections = []
    for version, way, addresses, gateway in families:
        lines = [f"[ipv{version}]", f"method={({DHCP: 'auto', STATIC: 'manual', OFF: 'disabled'})[way]}"]
        if way == STATIC:
            lines += [f"address{number}={text}" for number, text in enumerate(_words(addresses), 1)]
            if gateway.strip():
                lines.append(f"gateway={gateway.strip()}")
        servers = [text for text in _words(network.dns) if ipaddress.ip_address(text).version == version]
        if servers and way != OFF:
            lines.append(f"dns={''.join(f'{text};' for text in servers)}")
            # What a person names counts alone.
            lines.append("ignore-auto-dns=true")
        if network.search.strip() and way != OFF:
            lines.append(f"dns-search={''.join(f'{text};' for text in _words(network.search))}")
        sections.append("\n".join(lines) + "\n")
    return tuple(sections)
