"""Rules 18 and 19: the API's and the ingress' virtual addresses."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config.fielderror import FieldError, invalid, required, too_many
from installer.config.rules.catalogue import rule
from installer.config.rules.networking import families
from installer.config.types.install import InstallConfig
from installer.config.types.platform import VipPlatform
from installer.config.values import check


@rule("18", "platform.<p>.apiVIPs")
def api_vips(config: InstallConfig) -> Iterator[FieldError]:
    """At least one, apart from the ingress', in the machine networks, one of each family at most."""
    platform = config.platform.with_vips
    if platform is not None:
        yield from _vips(config, platform, "apiVIPs", "API", mine=platform.api_vips, others=platform.ingress_vips)


@rule("19", "platform.<p>.ingressVIPs")
def ingress_vips(config: InstallConfig) -> Iterator[FieldError]:
    """At least one, apart from the API's, in the machine networks, one of each family at most."""
    platform = config.platform.with_vips
    if platform is not None:
        yield from _vips(
            config, platform, "ingressVIPs", "Ingress", mine=platform.ingress_vips, others=platform.api_vips
        )


@rule("vips", "platform.nutanix")
def nutanix_families(config: InstallConfig) -> Iterator[FieldError]:
    """On Nutanix each list has IP addresses only, and has two where both families are in it."""
    platform = config.platform.nutanix
    if platform is None:
        return
    for name, values in (("apiVIPs", platform.api_vips), ("ingressVIPs", platform.ingress_vips)):
        path, addresses = f"platform.nutanix.{name}", [check.address(value) for value in values]
        if None in addresses:
            index = addresses.index(None)
            yield invalid(path, list(values), f"invalid IP[{index}]: {values[index]}")
        elif len({address.version for address in addresses if address}) == 2 and len(values) != 2:
            yield invalid(path, list(values), "wrong number of VIPs given. Expecting 2 VIPs for dual stack")


def _vips(
    config: InstallConfig,
    platform: VipPlatform,
    name: str,
    kind: str,
    *,
    mine: tuple[str, ...],
    others: tuple[str, ...],
) -> Iterator[FieldError]:
    path = f"platform.{config.platform.vips_of}.{name}"
    if not mine:
        yield required(path, f"must specify at least one VIP for the {kind}")
        if others:
            other = "ingress" if kind == "API" else "API"
            yield required(path, f"must specify VIP for {kind}, when VIP for {other} is set")
        return
    if len(mine) > 2:
        yield too_many(path, len(mine), 2)
        return
    user_managed = platform.load_balancer is not None and platform.load_balancer.type == "UserManaged"
    for value in mine:
        if check.address(value) is None:
            yield invalid(path, value, f'"{value}" is not a valid IP')
        if not user_managed:
            # Reported for the API's VIPs only, so that each pair is reported once.
            yield from _apart(path, value, others if kind == "API" else ())
            yield from _in_machine_networks(config, path, value)
    families = [address.version if (address := check.address(value)) is not None else 4 for value in mine]
    yield from _primary(config, path, kind, value=mine[0], family=families[0])
    wrong = next((number for number, value in enumerate(mine) if check.address(value) is None), None)
    if len(mine) == 2 and wrong is not None:
        # Upstream reports this error a second time, for both lists together.
        api, ingress = (mine, others) if kind == "API" else (others, mine)
        shown = {"API": list(api), "Ingress": list(ingress)}
        yield invalid(f"platform.{config.platform.vips_of}", shown, f"invalid IP[{wrong}]: {mine[wrong]}")
    if len(mine) == 2 and (wrong is not None or sorted(families) != [4, 6]):
        text = f"If two {kind} VIPs are given, one must be an IPv4 address, the other an IPv6"
        yield invalid(path, list(mine), text)


def _apart(path: str, value: str, ingress: tuple[str, ...]) -> Iterator[FieldError]:
    address = check.address(value)
    for other in ingress:
        if address is not None and address == check.address(other):
            yield invalid(path, value, "VIP for API must not be one of the Ingress VIPs")


def _in_machine_networks(config: InstallConfig, path: str, value: str) -> Iterator[FieldError]:
    cidrs = [entry.cidr for entry in config.networking.machine_network] if config.networking else []
    address, networks = check.address(value), [check.network(cidr) for cidr in cidrs]
    if address is None or not any(net is not None and address in net for net in networks):
        shown = check.networks((str(net or "") for net in networks), ",")
        yield invalid(path, value, f"IP expected to be in one of the machine networks: {shown}")


def _primary(config: InstallConfig, path: str, kind: str, *, value: str, family: int) -> Iterator[FieldError]:
    """In a dual-stack cluster, which the service networks make one, all lists begin with the first VIP's family."""
    lists = families(config.networking) if config.networking else {}
    if not {4, 6} <= set(lists.get("serviceNetwork", ())):
        return
    for name, vips in sorted(lists.items()):
        if vips and vips[0] != family:
            text = f"{name} primary IP Family and primary IP family for the {kind} VIP should match"
            yield invalid(path, value, text)
