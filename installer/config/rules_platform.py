"""Rules 20 to 31: the platform and what belongs to it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from installer.config import check
from installer.config.fielderror import FieldError, duplicate, invalid, required, unsupported
from installer.config.rules import rule
from installer.config.types import AGENT_PLATFORMS, BareMetalPlatform, InstallConfig

PROVISIONING_NETWORKS = ("Disabled", "Managed", "Unmanaged")
# BMC drivers that can boot a host without a provisioning network: those with virtual media.
_VIRTUAL_MEDIA = ("redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia")


@rule("20", "platform")
def one_platform(config: InstallConfig) -> Iterator[FieldError]:
    """Exactly one."""
    names = config.platform.names()
    if not names:
        yield invalid("platform", "", f"must specify one of the platforms ({', '.join(AGENT_PLATFORMS)})")
    elif len(names) > 1:
        yield invalid(
            "platform",
            list(names),
            f"must only specify a single type of platform; cannot use {names[1]} and {names[0]} together",
        )


@rule("21", "platform")
def agent_platform(config: InstallConfig) -> Iterator[FieldError]:
    """One that the agent installer can do, on an architecture that it can do (rule 22)."""
    name = config.platform.name
    if name and name not in AGENT_PLATFORMS:
        yield unsupported("platform", name, AGENT_PLATFORMS)
    architecture = config.control_plane.architecture if config.control_plane else ""
    if name != "none" and architecture in ("ppc64le", "s390x"):
        yield invalid("platform", name, f'CPU architecture "{architecture}" only supports platform "none".')


@rule("23", "platform.external.cloudControllerManager")
def external(config: InstallConfig) -> Iterator[FieldError]:
    """oci needs an external cloud controller manager."""
    platform = config.platform.external
    path = "platform.external.cloudControllerManager"
    if platform is None:
        return
    if platform.cloud_controller_manager not in ("", "External", "None"):
        yield unsupported(path, platform.cloud_controller_manager, ("", "External"))
    if platform.platform_name == "oci" and platform.cloud_controller_manager != "External":
        yield invalid(
            path, platform.cloud_controller_manager, f"When using external oci platform, {path} must be set to External"
        )


@rule("24", "platform.baremetal")
def baremetal(config: InstallConfig) -> Iterator[FieldError]:
    """Modes and addresses that are checked in any case (rules 24 to 26)."""
    platform = config.platform.baremetal
    if platform is None:
        return
    if platform.provisioning_network not in PROVISIONING_NETWORKS:
        yield unsupported(
            "platform.baremetal.provisioningNetwork", platform.provisioning_network, PROVISIONING_NETWORKS
        )
    for name, value in (
        ("bootstrapProvisioningIP", platform.bootstrap_provisioning_ip),
        ("clusterProvisioningIP", platform.cluster_provisioning_ip),
    ):
        if value and check.address(value) is None:
            yield invalid(f"platform.baremetal.{name}", value, f'"{value}" is not a valid IP')
    balancer = platform.load_balancer.type if platform.load_balancer else ""
    if balancer not in ("", "OpenShiftManagedDefault", "UserManaged"):
        yield invalid("platform.baremetal.loadBalancer.type", balancer, "invalid load balancer type")
    if platform.dns_records_type not in ("", "Internal", "External"):
        yield invalid("platform.baremetal.dnsRecordsType", platform.dns_records_type, "invalid DNS records type")
    elif platform.dns_records_type == "External" and balancer != "UserManaged":
        yield invalid(
            "platform.baremetal.dnsRecordsType",
            platform.dns_records_type,
            "external DNS records can only be configured with user-managed loadbalancers",
        )


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


def _as_map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@rule("28", "platform.vsphere")
def vsphere(config: InstallConfig) -> Iterator[FieldError]:
    """All of a vCenter's credentials or none (rules 28 to 30)."""
    platform = _as_map(config.platform.vsphere)
    path = "platform.vsphere"
    servers, given = set(), False
    for index, entry in enumerate(_as_list(platform.get("vcenters"))):
        vcenter = _as_map(entry)
        servers.add(vcenter.get("server"))
        fields = {"server": "server", "user": "user", "password": "password", "datacenters": "datacenter"}
        if not any(vcenter.get(name) for name in fields):
            continue
        given = True
        for name, shown in fields.items():
            if not vcenter.get(name):
                legacy = name == "user" and any(platform.get(old) for old in ("vCenter", "password", "datacenter"))
                where = f"{path}.username" if legacy else f"{path}.vcenters[{index}].{shown}"
                yield required(where, "All credential fields are required if any one is specified")
    for index, entry in enumerate(_as_list(platform.get("failureDomains"))):
        domain = _as_map(entry)
        if given and not _as_map(domain.get("topology")).get("folder"):
            yield required(
                f"{path}.failureDomains[{index}].topology.folder", "must specify a folder for agent-based installs"
            )
        if servers and domain.get("server") and domain["server"] not in servers:
            yield invalid(f"{path}.failureDomains.server", domain["server"], "server does not exist in vcenters")


@rule("31", "platform.nutanix")
def nutanix(config: InstallConfig) -> Iterator[FieldError]:
    """Prism's endpoints and credentials, and subnets."""
    if config.platform.nutanix is None:
        return
    platform, path = _as_map(config.platform.nutanix), "platform.nutanix"
    central = _as_map(platform.get("prismCentral"))
    yield from _endpoint(_as_map(central.get("endpoint")), f"{path}.prismCentral.endpoint")
    for name in ("username", "password"):
        if not central.get(name):
            yield required(f"{path}.prismCentral.{name}", f"must specify the Prism Central {name}")
    elements = _as_list(platform.get("prismElements"))
    if not elements:
        yield required(f"{path}.prismElements", "must specify one Prism Element")
    elif len(elements) > 1:
        yield invalid(f"{path}.prismElements", len(elements), "currently only one Prism Element is supported")
    for index, entry in enumerate(elements):
        element = _as_map(entry)
        if not element.get("uuid"):
            yield required(f"{path}.prismElements[{index}].uuid", "must specify the Prism Element UUID")
        yield from _endpoint(_as_map(element.get("endpoint")), f"{path}.prismElements[{index}].endpoint")
    subnets = _as_list(platform.get("subnetUUIDs"))
    if not subnets or not all(subnets):
        yield required(f"{path}.subnetUUIDs", "must specify at least one subnet")
    elif len(set(map(str, subnets))) != len(subnets):
        yield invalid(f"{path}.subnetUUIDs", subnets, "should not configure duplicate subnets")


def _endpoint(endpoint: dict[str, Any], path: str) -> Iterator[FieldError]:
    if not endpoint.get("address"):
        yield required(f"{path}.address", "must specify the endpoint address")
    port = endpoint.get("port")
    if not isinstance(port, int) or not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "the endpoint port is invalid, must be in the range of 1 to 65535")
