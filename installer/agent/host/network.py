"""Interfaces and routes of the host (installer.md §6.2)."""

from __future__ import annotations

from typing import Any

from installer.assisted.inventory import Interface, Route
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

FLAGS = {"UP": "up", "BROADCAST": "broadcast", "MULTICAST": "multicast", "LOOPBACK": "loopback"}
# What containers and hypervisors make for themselves is no way to reach a host.
VIRTUAL_PREFIXES = ("veth", "cni", "docker", "podman", "virbr", "vnet", "tap", "ifb", "dummy", "flannel")
KINDS = {"bond", "vlan", "bridge", "team"}


def _kind(link: dict[str, Any]) -> str:
    kind = str((link.get("linkinfo") or {}).get("info_kind", ""))
    return {"": "physical", "team": "bond"}.get(kind, kind)


def wanted(link: dict[str, Any], physical: bool) -> bool:
    """Physical links, and bonds, VLANs and bridges that are not a container engine's."""
    name = str(link.get("ifname", ""))
    if link.get("link_type") != "ether" or name.startswith(VIRTUAL_PREFIXES):
        return False
    return physical or str((link.get("linkinfo") or {}).get("info_kind", "")) in KINDS


def parse_link(
    link: dict[str, Any], *, speed: str = "", carrier: str = "", vendor: str = "", product: str = ""
) -> Interface:
    """One element of ``ip -j -d address`` as an interface."""

    def addresses(family: str) -> list[str]:
        return [
            f"{item['local']}/{item['prefixlen']}"
            for item in link.get("addr_info") or []
            if item.get("family") == family and item.get("scope") != "link" and "local" in item
        ]

    number = int(speed) if speed.lstrip("-").isdigit() else 0
    return Interface(
        name=str(link.get("ifname", "")),
        mac_address=str(link.get("address", "")).lower(),
        ipv4_addresses=addresses("inet"),
        ipv6_addresses=addresses("inet6"),
        mtu=int(link.get("mtu", 0)),
        speed_mbps=max(number, 0),
        has_carrier=carrier == "1",
        flags=[FLAGS[flag] for flag in link.get("flags") or [] if flag in FLAGS],
        vendor=vendor,
        product=product,
        type=_kind(link),
    )


def interfaces(host: HostSystem) -> list[Interface]:
    """Interfaces that can carry the cluster."""
    usable = []
    for link in host.run_json("ip", "-j", "-d", "address") or []:
        name = str(link.get("ifname", ""))
        base = f"/sys/class/net/{name}"
        # veth pairs of a network namespace have no device either, but there they are all that exists.
        physical = host.path(f"{base}/device").exists()
        if wanted(link, physical):
            usable.append(
                parse_link(
                    link,
                    speed=host.read(f"{base}/speed"),
                    carrier=host.read(f"{base}/carrier"),
                    vendor=host.read(f"{base}/device/vendor"),
                    product=host.read(f"{base}/device/device"),
                )
            )
    return usable


def routes(host: HostSystem) -> list[Route]:
    """Routes of both families from the main table."""
    table = []
    for family, option, anywhere in ((2, "-4", "0.0.0.0"), (10, "-6", "::")):
        try:
            rows = host.run_json("ip", "-j", option, "route") or []
        except CommandError as error:
            # IPv6 may be off altogether; a command that hung says nothing about that.
            if family == 2 or error.code is None:
                raise
            continue
        for row in rows:
            destination = str(row.get("dst", ""))
            table.append(
                Route(
                    interface=str(row.get("dev", "")),
                    gateway=str(row.get("gateway", "")),
                    destination=anywhere if destination == "default" else destination,
                    family=family,
                    metric=int(row.get("metric", 0)),
                )
            )
    return table
