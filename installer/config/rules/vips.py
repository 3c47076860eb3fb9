"""Rules 18 and 19: the API's and the ingress' virtual addresses."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config import check
from installer.config.fielderror import FieldError, invalid, required, too_many
from installer.config.platform_types import VipPlatform
from installer.config.rules.catalogue import rule
from installer.config.types import InstallConfig


@rule("18", "platform.<p>.apiVIPs")
def api_vips(config: InstallConfig) -> Iterator[FieldError]:
    """At least one, apart from the ingress', in the machine networks, one of each family at most."""
    platform = config.platform.with_vips
    if platform is not None:
        yield from _vips(config, platform, "apiVIPs", "API", mine=platform.api_vips, others=platform.ingress_vips)


@rule("19", "platform.<p>.ingressVIPs")
def ingress_vips(config: InstallConfig) -> Iterator[FieldError]:
    """The same for the ingress."""
    platform = config.platform.with_vips
    if platform is not None:
        yield from _vips(
            config, platform, "ingressVIPs", "Ingress", mine=platform.ingress_vips, others=platform.api_vips
        )


def _vips(
    config: InstallConfig,
    platform: VipPlatform,
    name: str,
    kind: str,
    *,
    mine: tuple[str, ...],
    others: tuple[str, ...],
) -> Iterator[FieldError]:
    path = f"platform.{config.platform.name}.{name}"
    user_managed = platform.load_balancer is not None and platform.load_balancer.type == "UserManaged"
    if not mine:
        yield required(path, f"must specify at least one VIP for the {kind}")
        if others:
            other = "Ingress" if kind == "API" else "API"
            yield required(path, f"must specify VIP for {kind}, when VIP for {other} is set")
        return
    if len(mine) > 2:
        yield too_many(path, len(mine), 2)
    yield from _each(config, path, kind, mine, others=() if user_managed else others, user_managed=user_managed)
    families = [address.version for value in mine if (address := check.address(value)) is not None]
    if len(mine) == 2 and sorted(families) != [4, 6]:
        text = f"If two {kind} VIPs are given, one must be an IPv4 address, the other an IPv6"
        yield invalid(path, list(mine), text)
    if families:
        yield from _primary(config, path, mine[0], families[0])


def _each(
    config: InstallConfig,
    path: str,
    kind: str,
    mine: tuple[str, ...],
    *,
    others: tuple[str, ...],
    user_managed: bool,
) -> Iterator[FieldError]:
    networks = [entry.cidr for entry in config.networking.machine_network] if config.networking else []
    for value in mine:
        address = check.address(value)
        if address is None:
            yield invalid(path, value, f'"{value}" is not a valid IP')
            continue
        if any(address == check.address(other) for other in others):
            other = "Ingress" if kind == "API" else "API"
            yield invalid(path, value, f"VIP for {kind} must not be one of the {other} VIPs")
        machine_networks = [net for net in map(check.network, networks) if net is not None]
        if not user_managed and machine_networks and not any(address in net for net in machine_networks):
            yield invalid(
                path, value, f"IP expected to be in one of the machine networks: {','.join(map(str, machine_networks))}"
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
        families = [cidr.version for item in values if (cidr := check.network(item)) is not None]
        if len(set(families)) == 2 and families[0] != family:
            yield invalid(
                path,
                value,
                f"clusters with dual-stack networking require the first VIP to be of the primary "
                f"IP family, which {name} gives as IPv{families[0]}",
            )
