"""Rules 28 to 30: platform vsphere. A vCenter's credentials are optional here: all of them are given, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from installer.config import check, gates
from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, required, too_many
from installer.config.platform_types import VSphereFailureDomain, VSphereNetworking, VSpherePlatform
from installer.config.rules.catalogue import rule
from installer.config.rules.platform import balancer_and_dns
from installer.config.types import InstallConfig
from installer.config.vsphere import GENERATED

_PATH = "platform.vsphere"
_DOMAINS = f"{_PATH}.failureDomains"
DISK_TYPES = ("eagerZeroedThick", "thick", "thin")
_TYPES = ("", "HostGroup", "ComputeCluster", "Datacenter")
_TAG = re.compile(r"urn:vmomi:InventoryServiceTag:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:[^:]+")
_MANY = 10


@rule("28", f"{_PATH}.vcenters")
def credentials(config: InstallConfig) -> Iterator[FieldError]:
    """All of a vCenter's credentials or none; what else of it is checked only then."""
    platform = config.platform.vsphere
    if platform is None:
        return
    legacy = platform.v_center or platform.password or platform.datacenter
    for index, vcenter in enumerate(platform.vcenters):
        path = f"{_PATH}.vcenters[{index}]"
        for name, value, where in (
            ("server", vcenter.server, f"{path}.server"),
            ("user", vcenter.user, f"{_PATH}.username" if legacy else f"{path}.user"),
            ("password", vcenter.password, f"{path}.password"),
            ("datacenter", vcenter.datacenters, f"{path}.datacenter"),
        ):
            if vcenter.given and not value:
                yield required(where, "All credential fields are required if any one is specified")
            elif name == "server" and vcenter.server and check.address(vcenter.server) is None:
                problem = check.domain(vcenter.server)
                if problem:
                    yield invalid(where, vcenter.server, "must be the domain name or IP address of the vCenter")


@rule("29", f"{_DOMAINS}[].topology")
def failure_domains(config: InstallConfig) -> Iterator[FieldError]:
    """Their names, tags and inventory paths; a folder, where there are credentials to reach it with."""
    platform = config.platform.vsphere
    if platform is None:
        return
    with_credentials = any(vcenter.given for vcenter in platform.vcenters)
    names: set[str] = set()
    zones: set[tuple[str, str]] = set()
    for index, domain in enumerate(platform.failure_domains):
        if with_credentials and not domain.topology.folder:
            yield required(f"{_DOMAINS}[{index}].topology.folder", "must specify a folder for agent-based installs")
        if domain.name == GENERATED:
            continue  # made from the deprecated form, which may lack anything
        for name, text in (("name", "the name"), ("zone", "zone tag value"), ("region", "region tag value")):
            if not getattr(domain, name):
                yield required(f"{_DOMAINS}[{index}].{name}", f"must specify {text}")
        if domain.name and domain.name in names:
            yield duplicate(f"{_DOMAINS}[{index}].name", domain.name)
        if domain.zone and (domain.zone, domain.region) in zones:
            text = f'cannot be used more than once for the failure domain region "{domain.region}"'
            yield invalid(f"{_DOMAINS}[{index}].zone", domain.zone, text)
        names.add(domain.name)
        zones.add((domain.zone, domain.region))
        yield from _types(f"{_DOMAINS}[{index}]", domain)
        yield from _topology(f"{_DOMAINS}[{index}].topology", domain, platform)


def _types(path: str, domain: VSphereFailureDomain) -> Iterator[FieldError]:
    region, zone = domain.region_type, domain.zone_type
    for name, value in (("regionType", region), ("zoneType", zone)):
        if value not in _TYPES:
            yield invalid(f"{path}.{name}", value, f"must be one of {', '.join(filter(None, _TYPES))}")
    if zone and not region:
        yield required(f"{path}.regionType", "must specify regionType if zoneType is defined")
    if region and not zone:
        yield required(f"{path}.zoneType", "must specify zoneType if regionType is defined")
    if region == "HostGroup":
        yield required(f"{path}.regionType", "region type cannot be used for host group failure domains")
    if region == "ComputeCluster" and zone != "HostGroup":
        yield required(f"{path}.zoneType", "must be HostGroup if regionType is ComputeCluster")
    if zone == "HostGroup" and not domain.topology.host_group:
        yield required(f"{path}.topology.hostGroup", "must not be empty if zoneType is HostGroup")


def _topology(path: str, domain: VSphereFailureDomain, platform: VSpherePlatform) -> Iterator[FieldError]:
    topology, center = domain.topology, domain.topology.datacenter
    known = next((vcenter for vcenter in platform.vcenters if vcenter.server == domain.server), None)
    if not center:
        yield required(f"{path}.datacenter", "must specify a datacenter")
    elif known is not None and known.datacenters and center not in known.datacenters:
        text = f"datacenter must be defined in vCenter {domain.server} datacenters list"
        yield invalid(f"{path}.datacenter", center, text)
    for name, value, kind, needed in (
        ("datastore", topology.datastore, "datastore", True),
        ("computeCluster", topology.compute_cluster, "host", True),
        ("folder", topology.folder, "vm", False),
        ("resourcePool", topology.resource_pool, "host", False),
    ):
        if not value:
            if needed:
                yield required(f"{path}.{name}", f"must specify a {name}")
            continue
        form = f"/<datacenter>/{kind}/" + {"resourcePool": "<cluster>/...", "computeCluster": "<cluster>"}.get(
            name, f"<{name}>"
        )
        match = re.fullmatch(rf"/(.+?)/{kind}/(.+)", value)
        if match is None or (name == "resourcePool" and "/" not in match[2]):
            yield invalid(f"{path}.{name}", value, f"full path of {name} must be provided in format {form}")
        elif center and match[1] != center:
            yield invalid(f"{path}.{name}", value, f"must be in datacenter {center}")
        elif name == "resourcePool" and topology.compute_cluster:
            cluster = topology.compute_cluster.rstrip("/")
            if not value.startswith(cluster + "/"):
                yield invalid(f"{path}.{name}", value, f"resource pool must be in compute cluster {cluster}")
    if not topology.networks:
        yield required(f"{path}.networks", "must specify a network")
    elif len(topology.networks) > _MANY:
        yield too_many(f"{path}.networks", len(topology.networks), _MANY)
    if len(topology.tag_ids) > _MANY:
        yield invalid(f"{path}.tagIDs", list(topology.tag_ids), f"a maximum of {_MANY} tags are allowed")
    if not all(_TAG.fullmatch(tag) for tag in topology.tag_ids):
        text = "tag ID must be in the format of urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL"
        yield invalid(f"{path}.tagIDs", list(topology.tag_ids), text)
    if topology.template and platform.cluster_os_image:
        yield invalid(f"{path}.template", topology.template, "cannot be specified when clusterOSImage is set")


@rule("30", f"{_DOMAINS}.server")
def servers(config: InstallConfig) -> Iterator[FieldError]:
    """Each failure domain is in one of the vCenters."""
    platform = config.platform.vsphere
    if platform is None:
        return
    known = {vcenter.server for vcenter in platform.vcenters}
    for domain in platform.failure_domains:
        if domain.name == GENERATED:
            continue
        if not domain.server:
            yield required(f"{_DOMAINS}.server", "must specify a vCenter server")
        elif domain.server not in known:
            yield invalid(f"{_DOMAINS}.server", domain.server, "server does not exist in vcenters")


@rule("vsphere", _PATH)
def others(config: InstallConfig) -> Iterator[FieldError]:
    """What the page leaves to "vsphere validation": disk type, load balancer, the nodes' networks, gates."""
    platform = config.platform.vsphere
    if platform is None:
        return
    if platform.disk_type and platform.disk_type not in DISK_TYPES:
        yield invalid(f"{_PATH}.diskType", platform.disk_type, f"diskType must be one of {', '.join(DISK_TYPES)}")
    balancer = platform.load_balancer.type if platform.load_balancer else ""
    yield from balancer_and_dns(_PATH, balancer, platform.dns_records_type)
    if platform.node_networking is not None:
        known = {network for domain in platform.failure_domains for network in domain.topology.networks}
        yield from _node_networking(f"{_PATH}.nodeNetworking.internal", platform.node_networking.internal, known)
        yield from _node_networking(f"{_PATH}.nodeNetworking.external", platform.node_networking.external, known)
    for path, used, gate in (
        (f"{_DOMAINS}.topology.networks", _several_networks(platform), gates.NETWORKS),
        (f"{_PATH}.nodeNetworking", platform.node_networking is not None, gates.NETWORKS),
        (f"{_DOMAINS}.zoneType", _host_groups(platform), gates.HOST_GROUPS),
    ):
        if used and not gates.enabled(config, gate):
            yield forbidden(path, gates.forbidden_text(gate))


def _several_networks(platform: VSpherePlatform) -> bool:
    return any(len(domain.topology.networks) > 1 for domain in platform.failure_domains)


def _host_groups(platform: VSpherePlatform) -> bool:
    return any(domain.zone_type == "HostGroup" or domain.topology.host_group for domain in platform.failure_domains)


def _node_networking(path: str, spec: VSphereNetworking, known: set[str]) -> Iterator[FieldError]:
    for name, values in (
        ("networkSubnetCidr", spec.network_subnet_cidr),
        ("excludeNetworkSubnetCidr", spec.exclude_network_subnet_cidr),
    ):
        for value in values:
            if check.network(value) is None:
                yield invalid(f"{path}.{name}", value, f"invalid CIDR address: {value}")
    if spec.network and spec.network not in known:
        yield invalid(f"{path}.network", spec.network, "network must be defined in topology")
