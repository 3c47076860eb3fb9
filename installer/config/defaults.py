"""Deprecated spellings turned into current ones, and defaults (reference/installer.md §1.1)."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import replace

from installer.config.fielderror import FieldError, invalid
from installer.config.types import (
    BareMetalPlatform,
    ClusterNetworkEntry,
    InstallConfig,
    MachineNetworkEntry,
    MachinePool,
    Networking,
)

log = logging.getLogger(__name__)

DEFAULT_ARCHITECTURE = "amd64"
OVN = "OVNKubernetes"
_KNOWN_NETWORK_TYPES = (OVN, "OpenShiftSDN", "Kuryr")
_UPCONVERTED = ("v1beta3", "v1beta4")


def _networking(networking: Networking) -> Networking:
    clusters = networking.cluster_network or networking.cluster_networks
    converted = []
    for entry in clusters:
        if entry.host_prefix is None and entry.host_subnet_length is not None:
            try:
                bits = ipaddress.ip_network(entry.cidr, strict=False).max_prefixlen
            except ValueError:
                bits = 32
            entry = ClusterNetworkEntry(entry.cidr, bits - entry.host_subnet_length)
        converted.append(entry)
    machines = networking.machine_network
    if not machines and networking.machine_cidr:
        machines = (MachineNetworkEntry(networking.machine_cidr),)
    services = networking.service_network or ((networking.service_cidr,) if networking.service_cidr else ())
    kind = networking.network_type or networking.type
    kind = next((known for known in _KNOWN_NETWORK_TYPES if known.lower() == kind.lower()), kind)
    return replace(
        networking,
        network_type=kind,
        cluster_network=tuple(converted),
        machine_network=machines,
        service_network=services,
        machine_cidr="",
        service_cidr="",
        cluster_networks=(),
        type="",
    )


def _vips(platform: BareMetalPlatform, errors: list[FieldError]) -> BareMetalPlatform:
    found: dict[str, tuple[str, ...]] = {}
    for path, one, many in (
        ("apiVIPs", platform.api_vip, platform.api_vips),
        ("ingressVIPs", platform.ingress_vip, platform.ingress_vips),
    ):
        found[path] = many or ((one,) if one else ())
        if one and many and one not in many:
            errors.append(
                invalid(
                    f"platform.baremetal.{path}",
                    one,
                    f"differs from the deprecated singular field, which must be one of {path} or absent",
                )
            )
    return replace(platform, api_vips=found["apiVIPs"], ingress_vips=found["ingressVIPs"])


def upconvert(config: InstallConfig) -> tuple[InstallConfig, list[FieldError]]:
    """`config` without deprecated spellings, and what could not be converted."""
    errors: list[FieldError] = []
    if config.api_version in _UPCONVERTED:
        config = replace(config, api_version="v1")
    if config.networking is not None:
        config = replace(config, networking=_networking(config.networking))
    if config.platform.baremetal is not None:
        baremetal = _vips(config.platform.baremetal, errors)
        config = replace(config, platform=replace(config.platform, baremetal=baremetal))
    return config, errors


def _pool(pool: MachinePool | None, name: str, replicas: int) -> MachinePool:
    pool = pool or MachinePool(name=name)
    return replace(
        pool,
        replicas=replicas if pool.replicas is None else pool.replicas,
        hyperthreading=pool.hyperthreading or "Enabled",
        architecture=pool.architecture or DEFAULT_ARCHITECTURE,
    )


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
    net = replace(net, cluster_network=tuple(_host_prefix(entry) for entry in net.cluster_network))
    config = replace(
        config,
        networking=net,
        control_plane=_pool(config.control_plane, "master", 3),
        compute=tuple(_pool(pool, "worker", 3) for pool in config.compute) or (_pool(None, "worker", 3),),
        publish=config.publish or "External",
    )
    if config.arbiter is not None:
        config = replace(config, arbiter=_pool(config.arbiter, "arbiter", 0))
    if config.platform.baremetal is not None:
        baremetal = config.platform.baremetal
        baremetal = replace(baremetal, provisioning_network=baremetal.provisioning_network or "Managed")
        config = replace(config, platform=replace(config.platform, baremetal=baremetal))
    return config


def _host_prefix(entry: ClusterNetworkEntry) -> ClusterNetworkEntry:
    if entry.host_prefix is not None:
        return entry
    return replace(entry, host_prefix=64 if ":" in entry.cidr else 23)


def ignored(config: InstallConfig) -> list[str]:
    """What is set and has no effect with the agent installer: one `<path>: <value> is ignored` each."""
    notes: list[str] = []

    def note(path: str, value: object, default: object = "") -> None:
        if value not in (None, "", (), {}, default):
            notes.append(f"{path}: {value} is ignored")

    note("publish", config.publish, "External")
    note("credentialsMode", config.credentials_mode)
    if config.bootstrap_in_place is not None:
        note("bootstrapInPlace.installationDisk", config.bootstrap_in_place.installation_disk)
    for path, pool in [("controlPlane", config.control_plane)] + [
        (f"compute[{index}]", pool) for index, pool in enumerate(config.compute)
    ]:
        if pool is not None:
            note(f"{path}.platform", pool.platform)
            note(f"{path}.hyperthreading", pool.hyperthreading, "Enabled")
    baremetal = config.platform.baremetal
    if baremetal is not None:
        note("platform.baremetal.externalBridge", baremetal.external_bridge)
        note("platform.baremetal.provisioningBridge", baremetal.provisioning_bridge)
        note("platform.baremetal.defaultMachinePlatform", baremetal.default_machine_platform)
        for index, host in enumerate(baremetal.hosts):
            note(f"platform.baremetal.hosts[{index}].bootMode", host.boot_mode, "UEFI")
    if isinstance(config.platform.vsphere, dict):
        for name in ("clusterOSImage", "defaultMachinePlatform", "diskType", "loadBalancer", "hosts"):
            note(f"platform.vsphere.{name}", config.platform.vsphere.get(name))
    return notes
