"""Interfaces and routes of the host, as OpenShift's agent reports them (installer.md §6.2)."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Network, ip_address, ip_interface
from typing import Any

import msgspec

from installer.assisted.inventory import Interface, Route
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

# In the order of Go's net.Flags.
FLAGS = {
    "UP": "up",
    "BROADCAST": "broadcast",
    "LOOPBACK": "loopback",
    "POINTOPOINT": "pointtopoint",
    "MULTICAST": "multicast",
}
# What containers and hypervisors make for themselves is no way to reach a host.
VIRTUAL_PREFIXES = ("veth", "cni", "docker", "podman", "virbr", "vnet", "tap", "ifb", "dummy", "flannel")
KINDS = {"bond", "vlan", "bridge", "team"}


# The type of interfaces that are neither hardware nor of a kind with a name: reported, and left out by the service.
SOFTWARE = "device"


def _kind(link: dict[str, Any], physical: bool) -> str:
    kind = str((link.get("linkinfo") or {}).get("info_kind", ""))
    if physical and not kind:
        return "physical"
    return {"": SOFTWARE, "team": "bond"}.get(kind, kind)


def _mac(link: dict[str, Any]) -> str:
    """Return the NIC's own address: in a bond it answers to the bond's. Loopback has none."""
    slave = (link.get("linkinfo") or {}).get("info_slave_data") or {}
    mac = str(slave.get("perm_hwaddr") or link.get("address", "")).lower()
    return "" if link.get("link_type") == "loopback" else mac


def _flags(link: dict[str, Any]) -> list[str]:
    """ip leaves RUNNING out, and shows a link that is up without it as NO-CARRIER."""
    flags = set(link.get("flags") or [])
    running = "UP" in flags and "NO-CARRIER" not in flags
    return [name for flag, name in FLAGS.items() if flag in flags] + ["running"] * running


def _link_local(text: str) -> bool:
    return ip_address(text).is_link_local


def wanted(link: dict[str, Any], physical: bool) -> bool:
    """Physical links, and bonds, VLANs and bridges that are not a container engine's."""
    name = str(link.get("ifname", ""))
    if link.get("link_type") != "ether" or name.startswith(VIRTUAL_PREFIXES):
        return False
    return physical or str((link.get("linkinfo") or {}).get("info_kind", "")) in KINDS


def parse_link(
    link: dict[str, Any],
    *,
    physical: bool = True,
    speed: str = "",
    carrier: str = "",
    vendor: str = "",
    product: str = "",
) -> Interface:
    """One element of ``ip -j -d address`` as an interface; the texts are of its files in /sys, `speed` in Mbit/s."""

    def addresses(family: str) -> list[str]:
        return [
            f"{item['local']}/{item['prefixlen']}"
            for item in link.get("addr_info") or []
            if item.get("family") == family and "local" in item and not _link_local(str(item["local"]))
        ]

    number = int(speed) if speed.lstrip("-").isdigit() else 0
    return Interface(
        name=str(link.get("ifname", "")),
        mac_address=_mac(link),
        ipv4_addresses=addresses("inet"),
        ipv6_addresses=addresses("inet6"),
        mtu=int(link.get("mtu", 0)),
        speed_mbps=number,
        has_carrier=carrier == "1",
        flags=_flags(link),
        vendor=vendor,
        product=product,
        type=_kind(link, physical),
    )


def _parsed(host: HostSystem) -> Iterator[tuple[Interface, bool]]:
    """Each interface, and whether it can carry the cluster."""
    advertised: list[IPv6Network] | None = None
    for link in host.run_json("ip", "-j", "-d", "address") or []:
        name = str(link.get("ifname", ""))
        base = f"/sys/class/net/{name}"
        # veth pairs of a network namespace have no device either, but there they are all that exists.
        physical = host.path(f"{base}/device").exists()
        nic = parse_link(
            link,
            physical=physical,
            speed=host.read(f"{base}/speed"),
            carrier=host.read(f"{base}/carrier"),
            vendor=host.read(f"{base}/device/vendor"),
            product=host.read(f"{base}/device/device"),
        )
        if any(text.endswith("/128") for text in nic.ipv6_addresses):
            advertised = _advertised(host, name)
            addresses = [_with_prefix(text, advertised) for text in nic.ipv6_addresses]
            nic = msgspec.structs.replace(nic, ipv6_addresses=addresses)
        yield nic, wanted(link, physical)


def _advertised(host: HostSystem, name: str) -> list[IPv6Network]:
    """Networks that a router has advertised on this interface."""
    rows = host.run_json("ip", "-j", "-6", "route", "show", "dev", name, "proto", "ra") or []
    texts = [str(row.get("dst", "")) for row in rows]
    return [IPv6Network(text) for text in texts if ":" in text]


def _with_prefix(text: str, advertised: list[IPv6Network]) -> str:
    """Correct an address by DHCPv6, which has no network of its own: it gets the prefix length of the router's."""
    address = ip_interface(text).ip
    return next((f"{address}/{net.prefixlen}" for net in advertised if address in net), text)


def interfaces(host: HostSystem) -> list[Interface]:
    """All interfaces, as they are reported to the service."""
    return [nic for nic, _ in _parsed(host)]


def usable(host: HostSystem) -> list[Interface]:
    """Interfaces that can carry the cluster."""
    return [nic for nic, carries in _parsed(host) if carries]


def routes(host: HostSystem) -> list[Route]:
    """Routes of both families from the main table, those that lead somewhere; destinations without prefix length."""
    table = []
    for family, option, anywhere in ((2, "-4", "0.0.0.0"), (10, "-6", "::")):
        try:
            rows = host.run_json("ip", "-j", option, "route") or []
        except CommandError as error:
            # IPv6 may be off altogether; a command that hung does not mean that.
            if family == 2 or error.code is None:
                raise
            continue
        for row in rows:
            # The first of several next hops counts.
            hop = (row.get("nexthops") or [row])[0]
            if not hop.get("dev"):
                continue
            destination = str(row.get("dst", ""))
            table.append(
                Route(
                    interface=str(hop["dev"]),
                    gateway=str(hop.get("gateway", "")),
                    destination=anywhere if destination == "default" else destination.partition("/")[0],
                    family=family,
                    metric=int(row.get("metric", 0)),
                )
            )
    return table
