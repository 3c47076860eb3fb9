"""Names and addresses as text: their forms."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from installer.common.hostaddresses import never_within
from lab.topology.problems import Problem

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network

# The lab's own address, and no address at all, where a network names gateways and servers.
LAB, NONE = "lab", "none"
_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_SHOWN = 80
# As the kernel takes them (net/core/dev.c: dev_valid_name), without what other programs give a meaning to.
_INTERFACE = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,14}$")


def label(path: str, text: str) -> Iterator[Problem]:
    """Check that it is a label of a DNS name."""
    if not _LABEL.fullmatch(text):
        yield path, f"{_quoted(text)} is not a DNS label"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def domain(path: str, text: str) -> Iterator[Problem]:
    """Check that it is a DNS name."""
    if len(text) > 253 or not all(_LABEL.fullmatch(part) for part in text.split(".")):
        yield path, f"{_quoted(text)} is not a domain name"


def interface(path: str, text: str) -> Iterator[Problem]:
    """Check that the kernel takes it for a NIC's name."""
    if not _INTERFACE.fullmatch(text):
        yield path, f"{text!r} is not a NIC's name of up to 15 letters, digits, dashes and underscores"


def mac(path: str, text: str) -> Iterator[Problem]:
    """Check that it is a NIC's own MAC address."""
    if not _MAC.fullmatch(text):
        yield path, f"{text!r} is not six lower-case hex pairs joined by colons"
    elif int(text[:2], 16) & 1:
        yield path, f"{text!r} is a multicast address"
    elif text == "00:00:00:00:00:00":
        yield path, f"{text!r} is no NIC's"


# Cached: checking a topology asks for the same few texts hundreds of times.
@lru_cache(1 << 12)
def address(text: str) -> Address | None:
    """Return the address, or None when it is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def addresses(path: str, texts: tuple[str, ...]) -> Iterator[Problem]:
    """Check that all of them are addresses, as they are usually written."""
    for index, text in enumerate(texts):
        yield from one_address(f"{path}[{index}]", text)


def one_address(path: str, text: str) -> Iterator[Problem]:
    """Check that it is an address, as it is usually written."""
    parsed = address(text)
    if parsed is None:
        yield path, f"{text!r} is not an IP address"
    elif str(parsed) != text:
        yield path, f"{text!r} is usually written {parsed}"


@lru_cache(1 << 12)
def subnet(text: str) -> Subnet | None:
    """Return the network of a CIDR, or None when it is none."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def never_a_hosts(address: Address) -> str:
    """Say why no host has an address like this one; empty where one can."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return f"IPv4 within IPv6, which no host has; write {address.ipv4_mapped}"
    kinds = {"multicast": address.is_multicast, "loopback": address.is_loopback, "link-local": address.is_link_local}
    kind = next((kind for kind, is_so in kinds.items() if is_so), "")
    return f"{kind} addresses are none by which hosts reach each other" if kind else ""


def never_answers(address: Address) -> str:
    """Say why nobody answers hosts at an address like this one; empty where somebody can."""
    kinds = {"a multicast": address.is_multicast, "a loopback": address.is_loopback, "no": address.is_unspecified}
    kind = next((kind for kind, is_so in kinds.items() if is_so), "")
    return f"{address} is {kind} address: nobody answers hosts there" if kind else ""


def no_network(network: Subnet) -> str:
    """Say why no hosts are in a network like this one; empty where they can be."""
    if not network.prefixlen:
        return f"{network} is all addresses, which is no network"
    rule = never_a_hosts(network.network_address)
    return f"{network}: {rule}" if rule else ""


def virtual_ips(name: str, addresses: Sequence[str], subnets: Sequence[Subnet], *, several: bool) -> Iterator[Problem]:
    """Check that these can be the virtual IPs of a service, whose fields are `several` (NAME_vips) or one (NAME_vip),
    in any of the networks; without networks, which may be wrong themselves, anywhere."""
    for index, text in enumerate(addresses):
        path = f"{name}_vips[{index}]" if several else f"{name}_vip"
        yield from one_address(path, text)
        if subnets and (parsed := address(text)) is not None:
            holding = next((subnet for subnet in subnets if parsed in subnet), None)
            if holding is None:
                yield path, f"address {text} is outside machine_network {', '.join(map(str, subnets))}"
            elif rule := never_within(holding, parsed):
                yield path, rule
    families = [":" in text for text in addresses]
    if len(families) > 2 or len(set(families)) != len(families):
        yield f"{name}_vips", "a service has one virtual IP of IPv4, one of IPv6, or both"
