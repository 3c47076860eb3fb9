"""`dns-resolver`: read it, and choose the profiles that hold it (reference/nmstate.md §2.6)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

from installer.network.reading import values
from installer.network.reading.model import Dns, Interface
from installer.network.reading.reader import Fields, Problems

_FLAG_LIST = """
    debug edns0 inet6 ip6-bytestring ip6-dotint no-aaaa no-check-names no-ip6-dotint no-reload no-tld-query rotate
    single-request single-request-reopen trust-ad use-vc
"""
_FLAGS = frozenset(_FLAG_LIST.split())
_NUMBERS = frozenset({"ndots", "timeout", "attempts"})
_OPTION_RULE = f"must be one of {', '.join(sorted(_FLAGS))}, or N after ndots:, timeout: or attempts:"
_DOMAIN = re.compile(r"~?[A-Za-z0-9_.-]{1,253}")
_PREFERRED, _OTHER = "40", "50"

Extra = dict[tuple[str, int], dict[str, str]]


def read_dns(document: Fields) -> Dns | None:
    """Return the static resolver settings; None when the document has none. `running` is what a host had, and is
    ignored."""
    outer = document.table("dns-resolver")
    if outer is None:
        return None
    outer.ignore("running")
    config = outer.table("config")
    outer.close()
    if config is None:
        return None
    servers = []
    for path, value in config.items("server"):
        if (server := _server(value)) is None:
            config.problems.add(path, value, "must be an IP address, or an IPv6 link-local address and %interface")
        else:
            servers.append(server)
    search = _words(config, "search", _DOMAIN.fullmatch, "must be a domain name")
    options = _words(config, "options", _option, _OPTION_RULE)
    config.close()
    changes = sum(a[0].version != b[0].version for a, b in pairwise(servers))
    if changes > 1:
        shown = [str(address) for address, _ in servers]
        config.problem("server", shown, "all servers of one family must come before those of the other")
    return Dns(config.path, tuple(dict.fromkeys(servers)), search, options)  # NetworkManager keeps one of equal servers


def _server(value: Any) -> tuple[values.Address, str | None] | None:
    if not isinstance(value, str):
        return None
    text, percent, zone = value.partition("%")
    address = values.address(text)
    if address is None or not percent:
        return None if address is None else (address, None)
    local = isinstance(address, ipaddress.IPv6Address) and address.is_link_local
    return (address, zone) if local and values.interface_name(zone) else None


def _option(text: str) -> bool:
    name, colon, number = text.partition(":")
    if not colon:
        return name in _FLAGS
    return name in _NUMBERS and number.isascii() and number.isdigit() and len(number) <= 3


def _words(config: Fields, name: str, check: Any, rule: str) -> tuple[str, ...]:
    words = []
    for path, value in config.items(name):
        if isinstance(value, str) and check(value):
            words.append(value)
        else:
            config.problems.add(path, value, rule)
    return tuple(dict.fromkeys(words))


def place_dns(
    dns: Dns, interfaces: Iterable[Interface], gateways: Collection[tuple[str, int]], problems: Problems
) -> Extra:
    """Return the keys of each (interface, family) that holds resolver settings; `interfaces` in document order,
    `gateways` those (interface, family) that the default route leads by.

    nmstate takes the first interface. NetworkManager forgets its servers once its cable is pulled, so that a network
    which names are not asked through, as one for storage, would take them along: one with the default route is
    preferred.
    """
    usable = [interface for interface in interfaces if interface.kind not in ("loopback", "ovs-bridge")]
    search = {"dns-search": ";".join(dns.search), "dns-options": ";".join(dns.options)}
    if not dns.servers:
        return _place_search(dns, usable, search, problems) if dns.search or dns.options else {}
    placed: Extra = {}
    for family in (4, 6):
        servers = [server for server in dns.servers if server[0].version == family]
        if not servers:
            continue
        zones = [zone for _, zone in servers if zone is not None]
        ways_out_first = sorted(usable, key=lambda interface: (interface.name, family) not in gateways)
        holder = _holder(dns, ways_out_first, family, zones, problems=problems)
        if holder is None:
            continue
        first = dns.servers[0][0].version == family
        keys = {"dns": ";".join(str(address) for address, _ in servers), "dns-priority": _OTHER}
        if first:
            keys |= search | {"dns-priority": _PREFERRED}
        placed[holder, family] = keys
    return placed


def _holder(dns: Dns, usable: list[Interface], family: int, zones: list[str], *, problems: Problems) -> str | None:
    path = f"{dns.path}.server"
    able = [interface for interface in usable if (ip := interface.ip(family)) is not None and (ip.static or ip.auto)]
    if zones:
        if len(set(zones)) > 1:
            problems.add(path, zones, "link-local servers must all be on one interface")
        elif zones[0] not in [interface.name for interface in able]:
            problems.add(path, zones[0], "is not an interface of this document with IPv6 addresses")
        else:
            return zones[0]
        return None
    for interface in able:
        ip = interface.ip(family)
        if ip is not None and (ip.static or not ip.auto_dns):
            return interface.name
    if able:
        return able[0].name
    problems.add(path, None, f"no interface has IPv{family} addresses, so none can hold the IPv{family} servers")
    return None


def _place_search(dns: Dns, usable: list[Interface], search: dict[str, str], problems: Problems) -> Extra:
    keys = search | {"dns-priority": _PREFERRED}
    for property_name in ("auto", "enabled"):
        for interface in usable:
            for family in (6, 4):
                ip = interface.ip(family)
                if ip is not None and getattr(ip, property_name):
                    return {(interface.name, family): keys}
    problems.add(dns.path, None, "no interface has IP enabled, so none can hold the search domains and options")
    return {}
