"""Rules 24 to 27: platform baremetal, its provisioning network and BMCs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from installer.common.redact import without_login
from installer.config.fielderror import FieldError, duplicate, invalid, required, unsupported
from installer.config.rules.catalogue import rule
from installer.config.rules.platforms.platform import balancer_and_dns
from installer.config.types.install import InstallConfig
from installer.config.types.platform import BareMetalPlatform
from installer.config.values import bmc, check

PROVISIONING_NETWORKS = ("Disabled", "Managed", "Unmanaged")
# BMC drivers that can boot a host without a provisioning network: those with virtual media.
_VIRTUAL_MEDIA = ("redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia")


@rule("24", "platform.baremetal.provisioningNetwork")
def provisioning_mode(config: InstallConfig) -> Iterator[FieldError]:
    """provisioningNetwork is Managed, Unmanaged or Disabled."""
    platform = config.platform.baremetal
    if platform is not None and platform.provisioning_network not in PROVISIONING_NETWORKS:
        yield unsupported(
            "platform.baremetal.provisioningNetwork", platform.provisioning_network, PROVISIONING_NETWORKS
        )


@rule("25", "platform.baremetal.{bootstrap,cluster}ProvisioningIP")
def provisioning_addresses(config: InstallConfig) -> Iterator[FieldError]:
    """Check that the provisioning addresses are IP addresses."""
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
    """Check that the type is known; external DNS records need a load balancer of the user's own."""
    platform = config.platform.baremetal
    if platform is not None:
        yield from balancer_and_dns("platform.baremetal", platform.load_balancer, platform.dns_records_type)


def has_bmc(platform: BareMetalPlatform) -> bool:
    """Return whether any host's BMC is given: only then does anybody use the provisioning network."""
    return any(host.bmc and host.bmc.address for host in platform.hosts)


@rule("27", "platform.baremetal")
def provisioning(config: InstallConfig) -> Iterator[FieldError]:
    """Check the provisioning network and the BMCs."""
    platform = config.platform.baremetal
    if platform is None or not has_bmc(platform):
        return
    yield from _bmcs(platform)
    if platform.provisioning_network == "Disabled":
        yield from _without_provisioning(platform, config)
        return
    yield from _provisioning_network(platform, config)
    for server in platform.additional_ntp_servers:
        if check.address(server) is None and check.domain(server):
            yield invalid("platform.baremetal", server, "NTP server is not a valid IP or domain name")


def _without_provisioning(platform: BareMetalPlatform, config: InstallConfig) -> Iterator[FieldError]:
    """Without a provisioning network, the provisioning addresses have to be in a machine network."""
    value = platform.cluster_provisioning_ip
    address = check.address(value)
    cidrs = [entry.cidr for entry in config.networking.machine_network] if config.networking else []
    inside = address is not None and any(net is not None and address in net for net in map(check.network, cidrs))
    if value and not inside:
        text = f"provisioning network is disabled, IP expected to be in one of the machine networks: {','.join(cidrs)}"
        yield invalid("platform.baremetal.clusterProvisioningIP", value, text)


def _bmcs(platform: BareMetalPlatform) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, host in enumerate(platform.hosts):
        path = f"platform.baremetal.hosts[{index}].bmc"
        for name in ("address", "username", "password"):
            if not (host.bmc and getattr(host.bmc, name)):
                yield required(f"{path}.{name}", f"missing {name}")
        if host.bmc is None or not host.bmc.address:
            if platform.provisioning_network == "Disabled":
                yield from _driver(path, "")
            continue
        address = host.bmc.address
        if address in seen:
            yield duplicate(f"{path}.address", without_login(address))
        seen.add(address)
        if platform.provisioning_network == "Disabled":
            yield from _driver(path, address)


def _driver(path: str, address: str) -> Iterator[FieldError]:
    """Check that the BMC has a driver that boots a host without a provisioning network."""
    safe_address = without_login(address)
    try:
        driver = bmc.driver(address)
    except ValueError as error:
        yield invalid(path, safe_address, str(error))
        return
    if driver.network:
        text = f"driver {driver.name} requires provisioning network, use one of {', '.join(_VIRTUAL_MEDIA)}"
        yield invalid(path, safe_address, text)


def _provisioning_network(platform: BareMetalPlatform, config: InstallConfig) -> Iterator[FieldError]:
    path, value = "platform.baremetal", platform.provisioning_network_cidr
    network = check.network(value)
    if network is None:
        return
    if network.version == 6 and network.prefixlen < 64 and platform.provisioning_network == "Managed":
        text = "provisioningNetworkCIDR mask must be greater than or equal to 64 for IPv6 networks"
        yield invalid(f"{path}.provisioningNetworkCIDR", value, text)
    for entry in config.networking.machine_network if config.networking else ():
        machines = check.network(entry.cidr)
        if machines is not None and check.overlap(network, machines):
            yield invalid(f"{path}.provisioningNetworkCIDR", value, f"cannot overlap with machine network: {machines}")
            break
    cluster = check.address(platform.cluster_provisioning_ip)
    if cluster is None or cluster not in network:
        ip = platform.cluster_provisioning_ip
        yield invalid(f"{path}.clusterProvisioningIP", ip, f'"{ip}" is not in the provisioning network')
    if ipaddress.ip_interface(value).ip != network.network_address:
        yield invalid(
            f"{path}.provisioningNetworkCIDR", value, f"provisioningNetworkCIDR has host bits set, expected {network}"
        )
    if platform.provisioning_dhcp_range:
        yield from _dhcp_range(platform, network)


def _dhcp_range(platform: BareMetalPlatform, network: check.Network) -> Iterator[FieldError]:
    """Two addresses of the network, and neither of the fixed ones between them."""
    path, value = "platform.baremetal.provisioningDHCPRange", platform.provisioning_dhcp_range
    parts = value.split(",")
    if len(parts) != 2:
        yield invalid(path, value, "provisioning DHCP range should be in format: start_ip,end_ip")
        return
    ends: list[int] = []
    for part in parts:
        address = check.address(part)
        if address is None:
            yield invalid(path, value, f'{part}: "{part}" is not a valid IP')
            return
        if address not in network:
            yield invalid(path, value, f'"{part}" is not in the provisioning network')
            return
        ends.append(int(address))
    for name, fixed in (
        ("clusterProvisioningIP", platform.cluster_provisioning_ip),
        ("bootstrapProvisioningIP", platform.bootstrap_provisioning_ip),
    ):
        own = check.address(fixed)
        if own is not None and ends[0] <= int(own) <= ends[1]:
            text = f'"{fixed}" overlaps with the allocated DHCP range'
            yield invalid(f"platform.baremetal.{name}", fixed, text)
