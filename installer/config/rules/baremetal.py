"""Rules 24 to 27: platform baremetal, its provisioning network and BMCs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from installer.config import check
from installer.config.fielderror import FieldError, duplicate, invalid, required, unsupported
from installer.config.platform_types import BareMetalPlatform
from installer.config.rules.catalogue import rule
from installer.config.rules.platform import balancer_and_dns
from installer.config.types import InstallConfig

PROVISIONING_NETWORKS = ("Disabled", "Managed", "Unmanaged")
# BMC drivers that can boot a host without a provisioning network: those with virtual media.
_VIRTUAL_MEDIA = ("redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia")


@rule("24", "platform.baremetal.provisioningNetwork")
def provisioning_mode(config: InstallConfig) -> Iterator[FieldError]:
    """One of three."""
    platform = config.platform.baremetal
    if platform is not None and platform.provisioning_network not in PROVISIONING_NETWORKS:
        yield unsupported(
            "platform.baremetal.provisioningNetwork", platform.provisioning_network, PROVISIONING_NETWORKS
        )


@rule("25", "platform.baremetal.{bootstrap,cluster}ProvisioningIP")
def provisioning_addresses(config: InstallConfig) -> Iterator[FieldError]:
    """IP addresses."""
    platform = config.platform.baremetal
    if platform is None:
        return
    for name, value in (
        ("bootstrapProvisioningIP", platform.bootstrap_provisioning_ip),
        ("clusterProvisioningIP", platform.cluster_provisioning_ip),
    ):
        if value and check.address(value) is None:
            yield invalid(f"platform.baremetal.{name}", value, f'"{value}" is not a valid IP')


@rule("26", "platform.baremetal.loadBalancer.type")
def load_balancer(config: InstallConfig) -> Iterator[FieldError]:
    """Known types; DNS records elsewhere need a load balancer elsewhere."""
    platform = config.platform.baremetal
    if platform is not None:
        balancer = platform.load_balancer.type if platform.load_balancer else ""
        yield from balancer_and_dns("platform.baremetal", balancer, platform.dns_records_type)


def has_bmc(platform: BareMetalPlatform) -> bool:
    """True if any host's BMC is given: only then does anybody use the provisioning network."""
    return any(host.bmc and host.bmc.address for host in platform.hosts)


@rule("27", "platform.baremetal")
def provisioning(config: InstallConfig) -> Iterator[FieldError]:
    """The provisioning network and the BMCs."""
    platform = config.platform.baremetal
    if platform is None or not has_bmc(platform):
        return
    yield from _bmcs(platform)
    if platform.provisioning_network != "Disabled":
        yield from _provisioning_network(platform, config)
    for server in platform.additional_ntp_servers:
        if check.address(server) is None and check.domain(server):
            yield invalid(
                "platform.baremetal.additionalNTPServers", server, "NTP server is not a valid IP or domain name"
            )


def _bmcs(platform: BareMetalPlatform) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, host in enumerate(platform.hosts):
        path = f"platform.baremetal.hosts[{index}].bmc"
        for name in ("address", "username", "password"):
            if not (host.bmc and getattr(host.bmc, name)):
                yield required(f"{path}.{name}", f"missing {name}")
        if host.bmc is None or not host.bmc.address:
            continue
        address = host.bmc.address
        if address in seen:
            yield duplicate(f"{path}.address", address)
        seen.add(address)
        driver = address.partition("://")[0].partition("+")[0]
        if platform.provisioning_network == "Disabled" and driver not in _VIRTUAL_MEDIA:
            yield invalid(
                f"{path}.address",
                address,
                f"driver {driver} requires provisioning network, use one of {', '.join(_VIRTUAL_MEDIA)}",
            )


def _provisioning_network(platform: BareMetalPlatform, config: InstallConfig) -> Iterator[FieldError]:
    path = "platform.baremetal"
    value = platform.provisioning_network_cidr or "172.22.0.0/24"
    network = check.network(value)
    if network is None or check.cidr(value):
        yield invalid(
            f"{path}.provisioningNetworkCIDR", value, "provisioningNetworkCIDR has host bits set or is invalid"
        )
        return
    if network.version == 6 and network.prefixlen != 64 and platform.provisioning_network == "Managed":
        yield invalid(f"{path}.provisioningNetworkCIDR", value, "provisioningNetworkCIDR mask must be 64 for IPv6")
    for entry in config.networking.machine_network if config.networking else ():
        machines = check.network(entry.cidr)
        if machines is not None and check.overlap(network, machines):
            yield invalid(f"{path}.provisioningNetworkCIDR", value, f"cannot overlap with machine network: {machines}")
    limits = _dhcp_range(platform.provisioning_dhcp_range, network)
    if platform.provisioning_dhcp_range and limits is None:
        yield invalid(
            f"{path}.provisioningDHCPRange",
            platform.provisioning_dhcp_range,
            f"must be in format: start_ip,end_ip, both inside {value}",
        )
    cluster = check.address(platform.cluster_provisioning_ip)
    if cluster is not None:
        if cluster not in network:
            yield invalid(
                f"{path}.clusterProvisioningIP", str(cluster), f'"{cluster}" is not in the provisioning network'
            )
        elif limits and int(limits[0]) <= int(cluster) <= int(limits[1]):
            yield invalid(
                f"{path}.clusterProvisioningIP", str(cluster), f'"{cluster}" overlaps with the allocated DHCP range'
            )


def _dhcp_range(
    value: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> tuple[check.Address, check.Address] | None:
    start, comma, end = value.partition(",")
    first, last = check.address(start.strip()), check.address(end.strip())
    if not comma or first is None or last is None or first not in network or last not in network:
        return None
    return (first, last) if int(first) < int(last) else None
