"""Rules 18 and 19: the API's and the ingress' virtual addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from installer.config import check
from installer.config.fielderror import FieldError, invalid, required, too_many
from installer.config.rules import rule
from installer.config.types import InstallConfig


def vips(config: InstallConfig) -> tuple[list[str], list[str], bool]:
    """(API VIPs, ingress VIPs, load balancer is the user's) of a platform that has VIPs."""
    if (baremetal := config.platform.baremetal) is not None:
        user = baremetal.load_balancer is not None and baremetal.load_balancer.type == "UserManaged"
        return list(baremetal.api_vips), list(baremetal.ingress_vips), user
    raw: Any = config.platform.vsphere or config.platform.nutanix
    if not isinstance(raw, dict):
        return [], [], False
    found = [
        [str(item) for item in (raw.get(many) or ([raw[one]] if raw.get(one) else []))]
        for many, one in (("apiVIPs", "apiVIP"), ("ingressVIPs", "ingressVIP"))
    ]
    balancer = raw.get("loadBalancer")
    return found[0], found[1], isinstance(balancer, dict) and balancer.get("type") == "UserManaged"


@rule("18", "platform.<p>.apiVIPs")
def virtual_addresses(config: InstallConfig) -> Iterator[FieldError]:
    """Both kinds given, apart from each other, in the machine networks, one of each family at most."""
    platform = config.platform.name
    if platform not in ("baremetal", "vsphere", "nutanix"):
        return
    api, ingress, user_managed = vips(config)
    for name, mine, others in (("apiVIPs", api, ingress), ("ingressVIPs", ingress, api)):
        path = f"platform.{platform}.{name}"
        kind = "API" if name == "apiVIPs" else "Ingress"
        if not mine:
            yield required(path, f"must specify at least one VIP for the {kind}")
            continue
        if len(mine) > 2:
            yield too_many(path, len(mine), 2)
        yield from _each(config, path, mine, [] if user_managed else others, user_managed)
        families = [found.version for value in mine if (found := check.address(value)) is not None]
        if len(mine) == 2 and sorted(families) != [4, 6]:
            yield invalid(
                path,
                mine,
                "If two API VIPs are given, one must be an IPv4 address, the other an IPv6".replace("API", kind),
            )
        if families:
            yield from _primary(config, path, mine[0], families[0])


def _each(
    config: InstallConfig, path: str, mine: list[str], others: list[str], user_managed: bool
) -> Iterator[FieldError]:
    networks = [entry.cidr for entry in config.networking.machine_network] if config.networking else []
    for value in mine:
        found = check.address(value)
        if found is None:
            yield invalid(path, value, f'"{value}" is not a valid IP')
            continue
        if any(found == check.address(other) for other in others):
            yield invalid(path, value, "VIP for API must not be one of the Ingress VIPs")
        known = [net for net in map(check.network, networks) if net is not None]
        if not user_managed and known and not any(found in net for net in known):
            yield invalid(
                path, value, f"IP expected to be in one of the machine networks: {','.join(str(net) for net in known)}"
            )


def _primary(config: InstallConfig, path: str, value: str, family: int) -> Iterator[FieldError]:
    net = config.networking
    if net is None:
        return
    lists = {
        "machineNetwork": [entry.cidr for entry in net.machine_network],
        "serviceNetwork": list(net.service_network),
        "clusterNetwork": [entry.cidr for entry in net.cluster_network],
    }
    for name, values in lists.items():
        families = [found.version for item in values if (found := check.network(item)) is not None]
        if len(set(families)) == 2 and families[0] != family:
            yield invalid(
                path,
                value,
                f"clusters with dual-stack networking require the first VIP to be of the primary "
                f"IP family, which {name} gives as IPv{families[0]}",
            )
