"""Rules 28 to 30: platform vsphere. A vCenter's credentials are optional here: all of them are given, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from installer.common.redact import without_login
from installer.config import gates
from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, required, too_many
from installer.config.rules.catalogue import rule
from installer.config.rules.platforms.platform import balancer_and_dns
from installer.config.types.cloud import VSphereFailureDomain, VSphereNetworking, VSpherePlatform, VSphereTopology
from installer.config.types.install import InstallConfig, MachinePool
from installer.config.values import check
from installer.config.vsphere import GENERATED, GENERATED_REGION, GENERATED_ZONE

_PATH = "platform.vsphere"
_DOMAINS = f"{_PATH}.failureDomains"
DISK_TYPES = ("eagerZeroedThick", "thick", "thin")
_TAG = re.compile(r"urn:vmomi:InventoryServiceTag:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:[^:]+")
_MANY = 10


@rule("28", f"{_PATH}.vcenters")
def credentials(config: InstallConfig) -> Iterator[FieldError]:
    """Check that a vCenter has all credentials or none; its other fields are checked only where it has them."""
    platform = config.platform.vsphere
    if platform is None:
        return
    legacy = platform.v_center or platform.password or platform.datacenter
    for index, vcenter in enumerate(platform.vcenters):
        path = f"{_PATH}.vcenters[{index}]"
        for value, where in (
            (vcenter.server, f"{path}.server"),
            (vcenter.user, f"{_PATH}.username" if legacy else f"{path}.user"),
            (vcenter.password, f"{path}.password"),
            (vcenter.datacenters, f"{path}.datacenter"),
        ):
            if vcenter.has_any and not value:
                yield required(where, "All credential fields are required if any one is specified")
    first = platform.vcenters[0] if platform.vcenters else None
    if first is None or not (first.user and first.password and first.server and first.datacenters):
        return
    for index, vcenter in enumerate(platform.vcenters):
        path = f"{_PATH}.vcenters[{index}]"
        text = "must be the domain name or IP address of the vCenter"
        if not vcenter.server:
            yield required(f"{path}.server", text)
        elif check.address(vcenter.server) is None and check.subdomain(vcenter.server):
            yield invalid(f"{path}.server", without_login(vcenter.server), text)
        for name, value, text in (
            ("username", vcenter.user, "must specify the username"),
            ("password", vcenter.password, "must specify the password"),
            ("datacenters", vcenter.datacenters, "must specify at least one datacenter"),
        ):
            if not value:
                yield required(f"{path}.{name}", text)


def _generated(domain: VSphereFailureDomain) -> bool:
    """Return whether the failure domain was made from the deprecated fields, any of which may be missing."""
    return domain.name == GENERATED or domain.zone == GENERATED_ZONE or domain.region == GENERATED_REGION


@rule("29", f"{_DOMAINS}[].topology")
def failure_domains(config: InstallConfig) -> Iterator[FieldError]:
    """Their names, tags and inventory paths; a folder, where there are credentials to reach it with.

    Upstream names the list and not its entry; here the detail says which one it is.
    """
    platform = config.platform.vsphere
    if platform is None:
        return
    with_credentials = any(vcenter.has_any for vcenter in platform.vcenters)
    for index, domain in enumerate(platform.failure_domains):
        if with_credentials and not domain.topology.folder:
            yield required(f"{_DOMAINS}[{index}].topology.folder", "must specify a folder for agent-based installs")
    if not platform.failure_domains or _generated(platform.failure_domains[0]):
        return
    names: set[str] = set()
    zones: set[tuple[str, str]] = set()
    several = len(platform.failure_domains) > 1
    for index, domain in enumerate(platform.failure_domains):
        which = f" ({_DOMAINS}[{index}])" if several else ""
        for error in _domain(domain, platform, names, zones):
            yield replace(error, detail=error.detail + which)
        if domain.name and domain.name in names:
            yield duplicate(f"{_DOMAINS}.name[{index}]", domain.name)
        names.add(domain.name)


def _domain(
    domain: VSphereFailureDomain, platform: VSpherePlatform, names: set[str], zones: set[tuple[str, str]]
) -> Iterator[FieldError]:
    if (domain.zone, domain.region) in zones:
        text = f'cannot be used more than once for the failure domain region "{domain.region}"'
        yield invalid(f"{_DOMAINS}.zone", domain.zone, text)
    zones.add((domain.zone, domain.region))
    for name, text in (("name", "the name"), ("zone", "zone tag value"), ("region", "region tag value")):
        if not getattr(domain, name):
            yield required(f"{_DOMAINS}.{name}", f"must specify {text}")
    yield from _types(domain)
    if not domain.server:
        yield required(f"{_DOMAINS}.server", "must specify a vCenter server")
    elif domain.server not in {vcenter.server for vcenter in platform.vcenters}:
        yield invalid(f"{_DOMAINS}.server", without_login(domain.server), "server does not exist in vcenters")
    yield from _topology(domain, platform)


def _types(domain: VSphereFailureDomain) -> Iterator[FieldError]:
    region, zone = domain.region_type, domain.zone_type
    if zone and not region:
        yield required(f"{_DOMAINS}.regionType", "must specify regionType if zoneType is defined")
    if region and not zone:
        yield required(f"{_DOMAINS}.zoneType", "must specify zoneType if regionType is defined")
    if region == "HostGroup":
        yield required(f"{_DOMAINS}.regionType", "region type cannot be used for host group failure domains")
    if zone == "HostGroup" and not domain.topology.host_group:
        yield required(f"{_DOMAINS}.hostGroup", "must not be empty if zoneType is HostGroup")
    if region == "ComputeCluster" and zone != "HostGroup":
        yield required(f"{_DOMAINS}.regionType", "zoneType must be HostGroup")
        yield required(f"{_DOMAINS}.zoneType", "must be HostGroup if regionType is ComputeCluster")


# What an inventory path must look like: (field, pattern, form, what it is called).
_INVENTORY = (
    ("datastore", "/(.*?)/datastore/(.*?)", "/<datacenter>/datastore/<datastore>", "datastore"),
    ("folder", "/(.*?)/vm/(.*?)", "/<datacenter>/vm/<folder>", "folder"),
    ("computeCluster", "/(.*?)/host/(.*?)", "/<datacenter>/host/<cluster>", "compute cluster"),
    ("resourcePool", "/(.*?)/host/(.*?)/(.*?)", "/<datacenter>/host/<cluster>/...", "resource pool"),
)


def _topology(domain: VSphereFailureDomain, platform: VSpherePlatform) -> Iterator[FieldError]:
    path, topology, center = f"{_DOMAINS}.topology", domain.topology, domain.topology.datacenter
    owner = next((vcenter for vcenter in platform.vcenters if vcenter.server == domain.server), None)
    # UPI without zones, which needed neither network nor cluster.
    legacy = bool(platform.v_center) and not platform.network and not platform.cluster
    if not center:
        yield required(f"{path}.datacenter", "must specify a datacenter")
    elif owner is not None and owner.datacenters and center not in owner.datacenters:
        text = f"datacenter must be defined in vCenter {domain.server} datacenters list"
        yield invalid(f"{path}.datacenter", center, text)
    for name, value, text in (
        ("datastore", topology.datastore, "must specify a datastore"),
        ("computeCluster", "legacy" if legacy else topology.compute_cluster, "must specify a computeCluster"),
        ("networks", "legacy" if legacy else topology.networks, "must specify a network"),
    ):
        if not value:
            yield required(f"{path}.{name}", text)
    yield from _inventory_paths(path, topology)
    if len(topology.networks) > _MANY:
        yield too_many(f"{path}.networks", len(topology.networks), _MANY)
    if len(topology.tag_ids) > _MANY:
        yield invalid(f"{path}.tagIDs", list(topology.tag_ids), f"a maximum of {_MANY} tags are allowed")
    if not all(_TAG.fullmatch(tag) for tag in topology.tag_ids):
        text = "tag ID must be in the format of urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL"
        yield invalid(f"{path}.tagIDs", list(topology.tag_ids), text)
    if topology.template and platform.cluster_os_image:
        text = "cannot be specified when failuredomain.topology.template is set"
        yield invalid(f"{path}.template", topology.template, "cannot be specified when clusterOSImage is set")
        yield invalid(f"{_PATH}.clusterOSImage", platform.cluster_os_image, text)


def _inventory_paths(path: str, topology: VSphereTopology) -> Iterator[FieldError]:
    center, cluster = topology.datacenter, topology.compute_cluster
    values = {
        "datastore": topology.datastore,
        "folder": topology.folder,
        "computeCluster": cluster,
        "resourcePool": topology.resource_pool,
    }
    for name, pattern, form, what in _INVENTORY:
        value = values[name]
        match = re.fullmatch(pattern, value)
        if not value:
            continue
        if match is None:
            yield invalid(f"{path}.{name}", value, f"full path of {what} must be provided in format {form}")
        elif name in ("datastore", "folder") and center not in value:
            yield invalid(f"{path}.{name}", value, f"the {what} defined does not exist in the correct datacenter")
        elif name in ("computeCluster", "resourcePool") and center and match[1] not in center:
            yield invalid(f"{path}.{name}", value, f"{what} must be in datacenter {center}")
        elif name == "resourcePool" and cluster and match[2] not in cluster:
            yield invalid(f"{path}.{name}", value, f"resource pool must be in compute cluster {cluster}")


@rule("vsphere", _PATH)
def others(config: InstallConfig) -> Iterator[FieldError]:
    """Check the rest of "vsphere validation": disk type, load balancer, the nodes' networks, gates."""
    platform = config.platform.vsphere
    if platform is None:
        return
    if platform.disk_type and platform.disk_type not in DISK_TYPES:
        yield invalid(f"{_PATH}.diskType", platform.disk_type, f"diskType must be one of {', '.join(DISK_TYPES)}")
    yield from balancer_and_dns(_PATH, platform.load_balancer, platform.dns_records_type)
    if platform.node_networking is not None:
        networks = {network for domain in platform.failure_domains for network in domain.topology.networks}
        yield from _node_networking(f"{_PATH}.nodeNetworking.internal", platform.node_networking.internal, networks)
        yield from _node_networking(f"{_PATH}.nodeNetworking.external", platform.node_networking.external, networks)
    for path, used, gate in (
        (f"{_DOMAINS}.topology.networks", _several_networks(platform), gates.NETWORKS),
        (f"{_PATH}.nodeNetworking", platform.node_networking is not None, gates.NETWORKS),
        (f"{_DOMAINS}.zoneType", _host_groups(platform), gates.HOST_GROUPS),
        ("controlPlane.platform.vsphere.dataDisks", _data_disks([config.control_plane]), gates.DATA_DISKS),
        ("compute.platform.vsphere.dataDisks", _data_disks(config.compute), gates.DATA_DISKS),
    ):
        if used and gates.are_valid(config) and not gates.enabled(config, gate):
            yield forbidden(path, gates.forbidden_text(gate))


def _data_disks(pools: Sequence[MachinePool | None]) -> bool:
    chosen = [pool.platform.vsphere for pool in pools if pool is not None and pool.platform is not None]
    return any(vsphere is not None and vsphere.data_disks for vsphere in chosen)


def _several_networks(platform: VSpherePlatform) -> bool:
    return any(len(domain.topology.networks) > 1 for domain in platform.failure_domains)


def _host_groups(platform: VSpherePlatform) -> bool:
    return any(domain.zone_type == "HostGroup" or domain.topology.host_group for domain in platform.failure_domains)


def _node_networking(path: str, spec: VSphereNetworking, networks: set[str]) -> Iterator[FieldError]:
    for name, values in (
        ("networkSubnetCidr", spec.network_subnet_cidr),
        ("excludeNetworkSubnetCidr", spec.exclude_network_subnet_cidr),
    ):
        for value in values:
            if not value:
                yield required(f"{path}.{name}", "must specify a IP address with CIDR")
            elif check.network(value) is None:
                yield invalid(f"{path}.{name}", value, f"invalid CIDR address: {value}")
    if spec.network and spec.network not in networks:
        yield invalid(f"{path}.network", spec.network, "network must be defined in topology")
