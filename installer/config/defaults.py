"""Deprecated spellings turned into current ones, and defaults (reference/installer.md §1.1)."""

from __future__ import annotations

from dataclasses import replace

from installer.config import vsphere
from installer.config.fielderror import FieldError, invalid, required
from installer.config.types.install import (
    ClusterNetworkEntry,
    InstallConfig,
    MachineNetworkEntry,
    MachinePool,
    Networking,
)
from installer.config.types.platform import BareMetalPlatform, Platform, VipPlatform
from installer.config.values import check

DEFAULT_ARCHITECTURE = "amd64"
OVN = "OVNKubernetes"
_KNOWN_NETWORK_TYPES = (OVN, "OpenShiftSDN")
_CONVERTIBLE = ("v1", "v1beta3", "v1beta4")
PROVISIONING_CIDR = "172.22.0.0/24"
# The order of hosts, also in paths of errors: the control plane first, those without a role last.
_BY_ROLE = {"master": 0, "worker": 2, "": 3}
# Addresses of a provisioning network that has room for a DHCP range from the 10th on.
_SMALLEST = 16
# credentialsMode where the config does not set it.
_CREDENTIALS_MODES = {"nutanix": "Manual", "openstack": "Passthrough", "powervc": "Passthrough", "powervs": "Manual"}


def _networking(networking: Networking) -> Networking:
    clusters = networking.cluster_network or networking.cluster_networks
    converted = []
    for entry in clusters:
        if not entry.host_prefix and entry.host_subnet_length:
            network = check.network(entry.cidr)
            bits = network.max_prefixlen if network is not None else 0
            entry = replace(entry, host_prefix=bits - entry.host_subnet_length)
        converted.append(entry)
    machines = networking.machine_network
    if not machines and networking.machine_cidr:
        machines = (MachineNetworkEntry(networking.machine_cidr),)
    services = networking.service_network or ((networking.service_cidr,) if networking.service_cidr else ())
    kind = networking.network_type or networking.type
    kind = next((name for name in _KNOWN_NETWORK_TYPES if name.lower() == kind.lower()), kind)
    return replace(
        networking,
        network_type=kind,
        cluster_network=tuple(converted),
        machine_network=machines,
        service_network=services,
        cluster_networks=tuple(converted) if networking.cluster_networks else (),
    )


def _vips(name: str, platform: VipPlatform, errors: list[FieldError]) -> dict[str, tuple[str, ...]]:
    vips: dict[str, tuple[str, ...]] = {}
    for path, single, many in (
        ("apiVIPs", platform.api_vip, platform.api_vips),
        ("ingressVIPs", platform.ingress_vip, platform.ingress_vips),
    ):
        vips[path] = many or ((single,) if single else ())
        if single and many and single not in many:
            errors.append(
                invalid(
                    f"platform.{name}.{path}",
                    single,
                    f"differs from the deprecated singular field, which must be one of {path} or absent",
                )
            )
    return {"api_vips": vips["apiVIPs"], "ingress_vips": vips["ingressVIPs"]}


def _baremetal(platform: BareMetalPlatform, errors: list[FieldError]) -> BareMetalPlatform:
    vips = _vips("baremetal", platform, errors)
    platform = replace(platform, api_vips=vips["api_vips"], ingress_vips=vips["ingress_vips"])
    if platform.provisioning_dhcp_external and not platform.provisioning_network:
        platform = replace(platform, provisioning_network="Unmanaged")
    old = platform.provisioning_host_ip
    if old and not platform.cluster_provisioning_ip:
        platform = replace(platform, cluster_provisioning_ip=old)
    if old and old != platform.cluster_provisioning_ip:
        text = "provisioningHostIP is deprecated; only clusterProvisioningIP needs to be specified"
        errors.append(invalid("platform.baremetal.provisioningHostIP", old, text))
    return platform


def upconvert(config: InstallConfig) -> tuple[InstallConfig, list[FieldError]]:
    """`config` without deprecated spellings, and what could not be converted."""
    if not config.api_version:
        return config, [required("apiVersion", "no version was provided")]
    if config.api_version not in _CONVERTIBLE:
        text = f"cannot upconvert from version {config.api_version}"
        return config, [invalid("apiVersion", config.api_version, text)]
    errors: list[FieldError] = []
    config = replace(config, api_version="v1")
    if config.networking is not None:
        config = replace(config, networking=_networking(config.networking))
    platform = config.platform
    if platform.baremetal is not None:
        platform = replace(platform, baremetal=_baremetal(platform.baremetal, errors))
    if platform.vsphere is not None:
        vips = _vips("vsphere", platform.vsphere, errors)
        plain = replace(platform.vsphere, api_vips=vips["api_vips"], ingress_vips=vips["ingress_vips"])
        platform = replace(platform, vsphere=vsphere.upconvert(plain))
    if platform.nutanix is not None:
        vips = _vips("nutanix", platform.nutanix, errors)
        nutanix = replace(platform.nutanix, api_vips=vips["api_vips"], ingress_vips=vips["ingress_vips"])
        platform = replace(platform, nutanix=nutanix)
    return replace(config, platform=platform), errors


def _pool(pool: MachinePool | None, name: str, replicas: int) -> MachinePool:
    pool = pool or MachinePool()
    return replace(
        pool,
        name=name,
        replicas=replicas if pool.replicas is None else pool.replicas,
        hyperthreading=pool.hyperthreading or "Enabled",
        architecture=pool.architecture or DEFAULT_ARCHITECTURE,
    )


def _with_workers(pools: tuple[MachinePool, ...]) -> tuple[MachinePool, ...]:
    """Return the compute pools, with a pool named worker added if there is none."""
    return pools if any(pool.name == "worker" for pool in pools) else (*pools, MachinePool(name="worker"))


def apply(config: InstallConfig) -> InstallConfig:
    """`config` with every default filled in."""
    net = config.networking or Networking()
    net = replace(
        net,
        network_type=net.network_type or OVN,
        machine_network=net.machine_network or (MachineNetworkEntry("10.0.0.0/16"),),
        service_network=net.service_network or ("172.30.0.0/16",),
        cluster_network=net.cluster_network or (ClusterNetworkEntry("10.128.0.0/14", 23),),
    )
    config = replace(
        config,
        networking=net,
        control_plane=_pool(config.control_plane, "master", 3),
        compute=tuple(_pool(pool, pool.name, 3) for pool in _with_workers(config.compute)),
        publish=config.publish or "External",
    )
    if config.arbiter is not None:
        config = replace(config, arbiter=_pool(config.arbiter, "arbiter", 0))
    if config.platform.baremetal is not None:
        baremetal = _provisioning(config.platform.baremetal, [entry.cidr for entry in net.machine_network])
        config = replace(config, platform=replace(config.platform, baremetal=baremetal))
    config = replace(config, platform=_with_dns(config.platform))
    if not config.credentials_mode:
        config = replace(config, credentials_mode=_CREDENTIALS_MODES.get(config.platform.name, ""))
    return config


def by_role(config: InstallConfig) -> InstallConfig:
    """Put hosts into the order of their roles. After validation, whose messages number them as the file does."""
    baremetal = config.platform.baremetal
    if baremetal is None:
        return config
    hosts = tuple(sorted(baremetal.hosts, key=lambda host: _BY_ROLE.get(host.role, 1)))
    return replace(config, platform=replace(config.platform, baremetal=replace(baremetal, hosts=hosts)))


def _with_dns(platform: Platform) -> Platform:
    """Return the platform with dnsRecordsType Internal, unless the config sets it."""
    for name in ("baremetal", "vsphere", "nutanix"):
        own = getattr(platform, name)
        if own is not None and not own.dns_records_type:
            platform = replace(platform, **{name: replace(own, dns_records_type="Internal")})
    return platform


def _provisioning(platform: BareMetalPlatform, machines: list[str]) -> BareMetalPlatform:
    """Return the provisioning network's CIDR, addresses and DHCP range.

    Where there is none, it is the machine network in which the cluster's provisioning address is, if there is one.
    """
    platform = replace(platform, provisioning_network=platform.provisioning_network or "Managed")
    if platform.provisioning_network == "Disabled":
        own = check.address(platform.cluster_provisioning_ip)
        for cidr in machines:
            inside = check.network(cidr)
            if own is not None and inside is not None and own in inside:
                platform = replace(platform, provisioning_network_cidr=cidr)
        return platform
    platform = replace(platform, provisioning_network_cidr=platform.provisioning_network_cidr or PROVISIONING_CIDR)
    net = check.network(platform.provisioning_network_cidr)
    if net is None or net.num_addresses < _SMALLEST:
        return platform
    dhcp = platform.provisioning_dhcp_range
    if platform.provisioning_network == "Managed":
        dhcp = dhcp or f"{net[10]},{net[-2]}"
    return replace(
        platform,
        bootstrap_provisioning_ip=platform.bootstrap_provisioning_ip or str(net[2]),
        cluster_provisioning_ip=platform.cluster_provisioning_ip or str(net[3]),
        provisioning_dhcp_range=dhcp,
    )
