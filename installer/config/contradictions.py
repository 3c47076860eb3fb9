"""Contradictions between hosts and networks, which the service would show only once the hosts have booted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from itertools import combinations
from typing import Any

from installer.common import hostaddresses, macs
from installer.common.hostaddresses import HostAddresses, Interface, Subnet
from installer.config.types.agent import Host
from installer.config.types.install import InstallConfig
from installer.config.values import check

_TRUE = ("true", "yes", "on", "y", "1")  # as nmstate reads it (nmstate.md §3)
# The service counts addresses of these types alone.
_COUNTED = ("ethernet", "bond", "vlan")


@dataclass(frozen=True)
class _Place:
    file: str
    path: str


_RENDEZVOUS = _Place("agent-config.yaml", "rendezvousIP")


def contradictions(
    install: InstallConfig,
    hosts: Sequence[Host],
    rendezvous_ip: str,
    *,
    file: str,
    path: str = "hosts",
    networks_file: str = "",
) -> Iterator[str]:
    """Yield a line for each contradiction, with file and field; `hosts` stand in `file` at `path`, their networks too
    unless they have a file of their own.

    None is an error: a host may have been given other addresses by the time that it boots.
    """
    entries = [
        _host(_Place(networks_file or file, f"{path}[{index}].networkConfig"), host) for index, host in enumerate(hosts)
    ]
    networks = install.networking.machine_network if install.networking else ()
    subnets = [subnet for entry in networks if (subnet := check.network(entry.cidr)) is not None]
    virtual = list(_virtual(install))
    taken = hostaddresses.holders(entries)
    held = {**({rendezvous_ip: _RENDEZVOUS} if rendezvous_ip else {}), **taken}
    wanted = _wanted(install, entries, rendezvous_ip)
    found = [
        *_names(hosts, file, path),
        *_other_macs(hosts, file, path, networks_file or file),
        *(line for host, entry in zip(hosts, entries, strict=True) for line in _alone(host, entry)),
        *_fenced(install, hosts),
        *hostaddresses.static_addresses(entries),
        *hostaddresses.virtual_addresses(virtual, held),
        *_virtual_in_networks(virtual, subnets),
        *_routers(entries, {**dict(virtual), **held}),
        *hostaddresses.outside(wanted, subnets),
        *(
            line
            for host, entry in zip(hosts, entries, strict=True)
            if entry in wanted
            for line in _uncounted(host, entry, subnets)
        ),
    ]
    if rendezvous_ip and subnets:
        masters = [entry for host, entry in zip(hosts, entries, strict=True) if host.role in ("", "master")]
        asked = len(hosts) < install.masters + install.arbiters + install.workers or any(
            entry.asks or not entry.addresses for entry in masters
        )
        if rule := hostaddresses.rendezvous(rendezvous_ip, [*taken], subnets, asked=asked):
            found.append((_RENDEZVOUS, rule))
    yield from dict.fromkeys(f"{place.file}: {place.path}: {rule}" for place, rule in found)


def _wanted(
    install: InstallConfig, entries: Sequence[HostAddresses[_Place]], rendezvous_ip: str
) -> list[HostAddresses[_Place]]:
    """Return the hosts that must have an address in a machine network (installer.md §5.4, belongs-to-machine-cidr)."""
    if install.platform.baremetal is not None or install.masters + install.arbiters + install.workers == 1:
        return [*entries]
    return [entry for entry in entries if rendezvous_ip in {text for text, _, _ in entry.addresses}]


def _virtual(install: InstallConfig) -> Iterator[tuple[str, _Place]]:
    platform, name = install.platform.with_vips, install.platform.vips_of
    if platform is not None:
        for field, values in (("apiVIPs", platform.api_vips), ("ingressVIPs", platform.ingress_vips)):
            for index, text in enumerate(values):
                if (address := check.address(text)) is not None:
                    yield str(address), _Place("install-config.yaml", f"platform.{name}.{field}[{index}]")


def _names(hosts: Sequence[Host], file: str, path: str) -> Iterator[tuple[_Place, str]]:
    seen: dict[str, str] = {}
    for index, host in enumerate(hosts):
        if not host.hostname:
            continue
        place = _Place(file, f"{path}[{index}].{'hostname' if path == 'hosts' else 'name'}")
        if rule := hostaddresses.hostname(host.hostname):
            yield place, rule
        elif host.hostname.lower() in seen:
            yield place, f"{host.hostname} is the name of {seen[host.hostname.lower()]} too (hostname-unique)"
        seen.setdefault(host.hostname.lower(), f"{path}[{index}]")


def _other_macs(hosts: Sequence[Host], file: str, path: str, networks_file: str) -> Iterator[tuple[_Place, str]]:
    """Find NICs whose MAC address in the networkConfig, which would set that one, differs by a slip. Another address
    altogether is set on purpose."""
    for number, host in enumerate(hosts):
        document = host.network_config if isinstance(host.network_config, dict) else {}
        for index, interface in enumerate(_maps(document.get("interfaces"))):
            written = str(interface.get("mac-address") or "")
            if interface.get("type", "ethernet") != "ethernet" or check.mac(written):
                continue
            other = check.canonical_mac(written)
            for position, nic in enumerate(host.interfaces):
                mac = check.canonical_mac(nic.mac_address)
                if nic.name != interface.get("name") or not (slip := macs.difference(mac, other)):
                    continue
                elsewhere = f"{f'{networks_file}: ' * (networks_file != file)}{path}[{number}].networkConfig"
                yield (
                    _Place(file, f"{path}[{number}].interfaces[{position}].macAddress"),
                    f"{mac} is not {other}, which {elsewhere}.interfaces[{index}].mac-address has for {nic.name}: "
                    f"{slip}, is one of the two mistyped?",
                )


def _fenced(install: InstallConfig, hosts: Sequence[Host]) -> Iterator[tuple[_Place, str]]:
    pool, names = install.control_plane, [host.hostname for host in hosts if host.role in ("", "master")]
    if not all(names) or len(names) < install.masters:
        return  # some have names that are not known yet
    for index, credential in enumerate(pool.fencing.credentials if pool and pool.fencing else ()):
        if credential.host_name and credential.host_name not in names:
            rule = f"{credential.host_name} is neither of the control plane nodes, {' and '.join(names)}"
            yield _Place("install-config.yaml", f"controlPlane.fencing.credentials[{index}].hostName"), rule


def _virtual_in_networks(
    virtual: Sequence[tuple[str, _Place]], subnets: Sequence[Subnet]
) -> Iterator[tuple[_Place, str]]:
    for text, place in virtual:
        for subnet in subnets:
            address = ip_address(text)
            if address in subnet and (rule := hostaddresses.never_within(subnet, address)):
                yield place, rule


def _routers(entries: Sequence[HostAddresses[_Place]], taken: dict[str, _Place]) -> Iterator[tuple[_Place, str]]:
    for entry in entries:
        own = {text for text, _, _ in entry.addresses}
        for text in entry.routers:
            if text not in own and (rule := hostaddresses.no_router(text, taken)):
                yield _Place(entry.place.file, f"{entry.place.path}.routes"), rule


def _host(place: _Place, host: Host) -> HostAddresses[_Place]:
    """Read addresses and default routes of a document that need not be valid: what cannot be read is left out."""
    document = host.network_config if isinstance(host.network_config, dict) else {}
    addresses: list[tuple[str, Interface | None, _Place]] = []
    asks = _has_unmentioned(host, document)
    for index, interface in enumerate(_maps(document.get("interfaces"))):
        if interface.get("state") in ("absent", "ignore"):
            continue
        for family in ("ipv4", "ipv6"):
            settings = interface.get(family)
            if not isinstance(settings, dict) or str(settings.get("enabled", True)).lower() not in _TRUE:
                continue
            asks |= _asks(settings)
            for number, entry in enumerate(_maps(settings.get("address"))):
                path = f"{place.path}.interfaces[{index}].{family}.address[{number}].ip"
                own = _interface(entry)
                # Each machine and each link may have the same of these.
                if own and not (own.ip.is_link_local or own.ip.is_loopback):
                    addresses.append((str(own.ip), own, _Place(place.file, path)))
    configured = _routes(document)
    defaults = [route for route in configured if _is_default(route)]
    hops = [check.address(str(route.get("next-hop-address", ""))) for route in defaults]
    return HostAddresses(place, tuple(addresses), routers=tuple(str(hop) for hop in hops if hop), asks=asks)


def _has_unmentioned(host: Host, document: dict[str, Any]) -> bool:
    """Return whether the document says nothing of a NIC, which then asks for an address: NetworkManager's default."""
    mentioned = set(_texts(document.get("interfaces")))
    return not document or any(
        mentioned.isdisjoint((nic.name, nic.mac_address.lower(), check.canonical_mac(nic.mac_address)))
        for nic in host.interfaces
    )


def _asks(family: dict[str, Any]) -> bool:
    return any(str(family.get(field)).lower() in _TRUE for field in ("dhcp", "autoconf"))


def _uncounted(host: Host, entry: HostAddresses[_Place], subnets: Sequence[Subnet]) -> Iterator[tuple[_Place, str]]:
    """Find an interface by which alone a host can be in the machine networks, and whose addresses do not count."""
    document = host.network_config if isinstance(host.network_config, dict) else {}
    if not subnets or _has_unmentioned(host, document):
        return
    ways = []
    for index, interface in enumerate(_maps(document.get("interfaces"))):
        path = f"{entry.place.path}.interfaces[{index}]"
        own = [own.ip for _, own, place in entry.addresses if own and place.path.startswith(f"{path}.")]
        families = [interface.get(name) for name in ("ipv4", "ipv6")]
        asks = any(isinstance(family, dict) and family.get("enabled") and _asks(family) for family in families)
        if asks or any(address in subnet for address in own for subnet in subnets):
            ways.append((_Place(entry.place.file, path), interface.get("name"), interface.get("type", _COUNTED[0])))
    if not any(kind in _COUNTED for _, _, kind in ways):
        for place, name, kind in ways[:1]:
            rule = f"{name} is of type {kind}, of which the service counts no addresses: the host would be held up"
            yield place, f"{rule} (belongs-to-machine-cidr); give it to a NIC, bond or VLAN"


def _routes(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the routes of a document."""
    routes = document.get("routes")
    return _maps(routes.get("config")) if isinstance(routes, dict) else []


def _is_default(route: dict[str, Any]) -> bool:
    network = check.network(str(route.get("destination")))
    # linux/rtnetlink.h: RT_TABLE_MAIN
    in_main = route.get("state") != "absent" and str(route.get("table-id", 0)) in ("0", "254")
    return in_main and network is not None and network.prefixlen == 0


def _alone(host: Host, entry: HostAddresses[_Place]) -> Iterator[tuple[_Place, str]]:
    """List a host's own network problems, whatever the others have; a host that asks may be given what is missing."""
    held = [(place, own) for _, own, place in entry.addresses if own is not None]
    document = host.network_config if isinstance(host.network_config, dict) else {}
    counted = {
        f"{entry.place.path}.interfaces[{index}]."
        for index, interface in enumerate(_maps(document.get("interfaces")))
        if interface.get("type") in _COUNTED
    }
    of = [(next((one for one in counted if place.path.startswith(one)), ""), own) for place, own in held]
    for (one, mine), (other, theirs) in combinations(of, 2):
        if one and other and one != other and (rule := hostaddresses.overlapping(mine, theirs)):
            yield entry.place, rule
    if entry.asks or not held:
        return
    routes = _routes(document)
    near = [str(own.network) for _, own in held]
    near += [str(route.get("destination")) for route in routes if not route.get("next-hop-address")]
    networks = [network for text in near if (network := check.network(text)) is not None]
    for text in entry.routers:
        if not (ip_address(text).is_link_local or any(ip_address(text) in network for network in networks)):
            yield _Place(entry.place.file, f"{entry.place.path}.routes"), hostaddresses.unreachable(text, near)
    if not any(map(_is_default, routes)):
        yield _Place(entry.place.file, f"{entry.place.path}.routes.config"), hostaddresses.NO_ROUTE
    resolver = document.get("dns-resolver")
    settings = resolver.get("config") if isinstance(resolver, dict) else None
    if not (isinstance(settings, dict) and settings.get("server")):
        yield _Place(entry.place.file, f"{entry.place.path}.dns-resolver.config.server"), hostaddresses.NO_SERVER


def _texts(value: object) -> Iterator[str]:
    """All texts of a document, as they are and in small letters."""
    if isinstance(value, str):
        yield from (value, value.lower())
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _maps(value: object) -> list[dict[str, Any]]:
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []


def _interface(entry: dict[str, Any]) -> Interface | None:
    try:
        return ip_interface(f"{entry.get('ip')}/{entry.get('prefix-length')}")
    except ValueError:
        return None
