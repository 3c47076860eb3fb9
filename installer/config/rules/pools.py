"""Rules 33 to 43: how many machines of which kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

from installer.common.redact import without_login
from installer.config import gates
from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, required, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types.cloud import DataDisk, VSpherePool
from installer.config.types.install import Fencing, InstallConfig, MachinePool
from installer.config.types.platform import PoolPlatform
from installer.config.values import check

# For vSphere: the default of processors and of cores a socket, and the limits of further disks.
_CPUS, _DATA_DISKS, _DISK_NAME, _DISK_GIB = 4, 29, 80, 16384
_MODES = ("EagerlyZeroed", "Thick", "Thin")
_WITH_ARBITER = ("baremetal", "external", "none")
ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")


@rule("34", "controlPlane.replicas")
def control_plane_replicas(config: InstallConfig) -> Iterator[FieldError]:
    """Positive, and a number that has a topology; what two of them need is in rules 43 and 44."""
    replicas = config.masters
    if replicas == 0:
        yield invalid("controlPlane.replicas", replicas, "number of control plane replicas must be positive")
    supported = ["3", "1", "4", "5"]
    if gates.enabled(config, gates.ARBITER):
        supported.append("2 (with arbiter)")
    if gates.enabled(config, gates.FENCING):
        supported.append("2 (with fencing)")
    if not 1 <= replicas <= 5:
        yield unsupported("controlPlane.replicas", replicas, supported)


@rule("35", "architecture")
def architectures(config: InstallConfig) -> Iterator[FieldError]:
    """Every pool has a known architecture."""
    for path, pool in _pools(config):
        if pool.architecture not in ARCHITECTURES:
            yield unsupported(f"{path}.architecture", pool.architecture, ARCHITECTURES)


def _pools(config: InstallConfig) -> Iterator[tuple[str, MachinePool]]:
    if config.control_plane is not None:
        yield "controlPlane", config.control_plane
    if config.arbiter is not None:
        yield "arbiter", config.arbiter
    for index, pool in enumerate(config.compute):
        yield f"compute[{index}]", pool


@rule("38", "compute[].architecture")
def mixed_architectures(config: InstallConfig) -> Iterator[FieldError]:
    """Workers have the control plane's architecture, or are arm64 with an amd64 control plane on bare metal."""
    first = config.control_plane.architecture if config.control_plane else ""
    for index, pool in enumerate(config.compute):
        path, mine = f"compute[{index}].architecture", pool.architecture
        if mine == first:
            continue
        if config.platform.baremetal is None:
            text = "heteregeneous multi-arch is not supported; compute pool architecture must match control plane"
            yield invalid(path, mine, text)
            continue
        if first != "amd64":
            yield invalid(path, first, "on multi-arch baremetal, the control plane must be amd64")
        if mine != "arm64":
            yield invalid(path, mine, "on baremetal with amd64 control plane, compute must be amd64 or arm64")


@rule("37", "compute[].name")
def compute_names(config: InstallConfig) -> Iterator[FieldError]:
    """There is one compute pool, named worker; edge is for clouds."""
    seen: set[str] = set()
    for index, pool in enumerate(config.compute):
        path = f"compute[{index}].name"
        if pool.name == "edge":
            yield unsupported(path, pool.name, ("worker",))
        elif pool.name != "worker":
            yield unsupported(path, pool.name, ("worker", "edge"))
        if pool.name in seen:
            yield duplicate(path, pool.name)
        seen.add(pool.name)


@rule("39", "compute[].fencing")
def compute_fencing(config: InstallConfig) -> Iterator[FieldError]:
    """Only the control plane is fenced."""
    for path, pool in _pools(config):
        if pool.fencing is not None and path != "controlPlane":
            yield invalid(f"{path}.fencing", _fencing(pool.fencing), "fencing is only valid for control plane")


def _fencing(fencing: Fencing) -> dict[str, object]:
    """Return the fencing as given to an error, which takes the passwords out."""
    return {
        "credentials": [
            {
                **({"hostName": entry.host_name} if entry.host_name else {}),
                "username": entry.username,
                "password": entry.password,
                "address": without_login(entry.address),
            }
            for entry in fencing.credentials
        ]
    }


@rule("pools", "replicas, hyperthreading")
def pools(config: InstallConfig) -> Iterator[FieldError]:
    """Check the rules that every pool has to keep."""
    for path, pool in _pools(config):
        if (pool.replicas or 0) < 0:
            yield invalid(f"{path}.replicas", pool.replicas, "number of replicas must not be negative")
        if pool.hyperthreading not in ("", "Enabled", "Disabled"):
            yield unsupported(f"{path}.hyperthreading", pool.hyperthreading, ("Disabled", "Enabled"))
        if pool.platform is not None:
            yield from _platform(config, f"{path}.platform", pool.platform)


def _platform(config: InstallConfig, path: str, chosen: PoolPlatform) -> Iterator[FieldError]:
    """Check that a pool's platform section is that of the cluster's platform; nutanix and powervc are not checked."""
    cluster = config.platform.name
    for field in fields(chosen):
        settings = getattr(chosen, field.name)
        if settings is not None and field.name not in (cluster, "nutanix", "powervc"):
            text = f'cannot specify "{field.name}" for machine pool when cluster is using "{cluster}"'
            yield invalid(f"{path}.{field.name}", _shown(settings), text)
    if chosen.vsphere is not None and config.platform.vsphere is not None and cluster == "vsphere":
        zones = [domain.name for domain in config.platform.vsphere.failure_domains]
        yield from _vsphere(f"{path}.vsphere", chosen.vsphere, zones)


def _shown(settings: object) -> object:
    if not isinstance(settings, VSpherePool):
        return settings if isinstance(settings, dict) else {}
    return {
        "cpus": settings.cpus or 0,
        "coresPerSocket": settings.cores_per_socket or 0,
        "memoryMB": settings.memory_mb or 0,
        "osDisk": {"diskSizeGB": (settings.os_disk.disk_size_gb if settings.os_disk else None) or 0},
        "dataDisks": [_shown_disk(disk) for disk in settings.data_disks] or None,
        **({"zones": list(settings.zones)} if settings.zones else {}),
    }


def _shown_disk(disk: DataDisk) -> dict[str, object]:
    mode = {"provisioningMode": disk.provisioning_mode} if disk.provisioning_mode else {}
    return {"name": disk.name, "sizeGiB": disk.size_gib or 0, **mode}


def _vsphere(path: str, pool: VSpherePool, zones: list[str]) -> Iterator[FieldError]:
    """Processors fill whole sockets, disk sizes are within the limits, and zones name failure domains."""
    disk = (pool.os_disk.disk_size_gb if pool.os_disk else None) or 0
    for name, value, what in (
        ("diskSizeGB", disk, "storage disk size"),
        ("memoryMB", pool.memory_mb or 0, "memory size"),
        ("cpus", pool.cpus or 0, "number of CPUs"),
        ("coresPerSocket", pool.cores_per_socket or 0, "cores per socket"),
    ):
        if value < 0:
            yield invalid(f"{path}.{name}", value, f"{what} must be positive")
    cpus = pool.cpus if pool.cpus and pool.cpus > 0 else _CPUS
    cores = pool.cores_per_socket if pool.cores_per_socket and pool.cores_per_socket > 0 else _CPUS
    if cores > cpus:
        text = f"cores per socket must be less than the number of CPUs (which is by default {_CPUS})"
        yield invalid(f"{path}.coresPerSocket", cores, text)
    elif cpus % cores:
        text = f"numCPUs specified should be a multiple of cores per socket (which is by default {_CPUS})"
        yield invalid(f"{path}.cpus", cpus, text)
    if len(pool.data_disks) > _DATA_DISKS:
        text = f"data disk count must not exceed {_DATA_DISKS}"
        yield invalid(f"{path}.dataDisks", len(pool.data_disks), text)
    for index, item in enumerate(pool.data_disks):
        yield from _data_disk(f"{path}.disks[{index}]", item)
    if pool.zones and not zones:
        yield required(f"{path}.zones", "failureDomains must be defined if zones are defined")
        return
    for index, zone in enumerate(pool.zones):
        if not re.match("[a-z]", zone) or check.subdomain(zone, 54):
            yield invalid(f"{path}.zones", list(pool.zones), "cluster name must begin with a lower-case letter")
        if zone in pool.zones[:index]:
            yield duplicate(f"{path}.zones[{index}]", zone)
        if zone not in zones:
            yield invalid(f"{path}.zones", zone, "zone not defined in failureDomains")


def _data_disk(path: str, disk: DataDisk) -> Iterator[FieldError]:
    if not disk.name:
        yield required(f"{path}.name", "data disk name must be set")
    elif len(disk.name) > _DISK_NAME:
        yield invalid(f"{path}.name", len(disk.name), f"data disk name must not exceed {_DISK_NAME}")
    elif not re.fullmatch("[a-zA-Z0-9](?:[-_a-zA-Z0-9]*[a-zA-Z0-9])?", disk.name):
        text = "must consist only of alphanumeric characters, hyphens and underscores"
        yield invalid(
            f"{path}.name", disk.name, f"data disk name {text}, and must start and end with an alphanumeric one"
        )
    if not disk.size_gib:
        yield required(f"{path}.sizeGiB", "data disk size must be set")
    elif disk.size_gib > _DISK_GIB:
        yield invalid(f"{path}.sizeGiB", disk.size_gib, f"data disk size (GiB) must not exceed {_DISK_GIB}")
    if disk.provisioning_mode and disk.provisioning_mode not in _MODES:
        yield unsupported(path, disk.provisioning_mode, _MODES)


@rule("40", "compute.replicas")
def single_node_alone(config: InstallConfig) -> Iterator[FieldError]:
    """One control plane node has no workers."""
    if config.masters == 1 and config.workers:
        text = (
            "Total number of compute replicas must be 0 when controlPlane.replicas is 1 for platform none or external"
        )
        yield forbidden("compute.replicas", f"{text}. Found {config.workers}")


@rule("41", "networking.networkType")
def single_node_network(config: InstallConfig) -> Iterator[FieldError]:
    """Check that a single node has OVNKubernetes."""
    kind = config.networking.network_type if config.networking else ""
    if _single(config) and config.platform.name in ("none", "external") and kind != "OVNKubernetes":
        text = "Only OVNKubernetes network type is allowed for Single Node OpenShift (SNO) cluster"
        yield invalid("networking.networkType", kind, text)


def _single(config: InstallConfig) -> bool:
    return config.masters == 1 and not config.workers


@rule("42", "platform")
def single_node_platform(config: InstallConfig) -> Iterator[FieldError]:
    """Check that a single node is on none or external."""
    name = config.platform.name
    if _single(config) and name and name not in ("none", "external"):
        yield invalid("platform", name, "Only platform none and external supports 1 ControlPlane and 0 Compute nodes")


@rule("43", "arbiter")
def arbiter(config: InstallConfig) -> Iterator[FieldError]:
    """Check that an arbiter needs two control plane nodes at least, and a platform that can have one."""
    pool = config.arbiter
    if pool is None:
        return
    if config.masters == 1 and config.arbiters:
        text = (
            "Total number of arbiter replicas must be 0 when controlPlane.replicas is 1 for Single Node Openshift (SNO)"
        )
        yield forbidden("arbiter.replicas", f"{text} cluster. Found {config.arbiters}")
    on = gates.enabled(config, gates.ARBITER)
    if config.masters == 2:
        if config.arbiters != 1:
            text = "TNA (Two Node with Arbiter) configuration requires exactly 1 arbiter replica"
            yield invalid("arbiter.replicas", config.arbiters, text)
        if not on:
            yield invalid(
                "arbiter", "configured", f"arbiter configuration requires FeatureGate{gates.ARBITER} to be enabled"
            )
    if not on:
        yield forbidden(
            "arbiter", f"{gates.ARBITER} feature must be enabled in order to use arbiter cluster deployment"
        )
        return
    if config.platform.name not in _WITH_ARBITER:
        yield unsupported("arbiter.platform", config.platform.name, _WITH_ARBITER)
    if not config.arbiters:
        yield invalid("arbiter.replicas", config.arbiters, "number of arbiter replicas must be positive")
    if config.masters < 2:
        text = "number of controlPlane replicas must be at least 2 for arbiter deployments"
        yield invalid("arbiter.replicas", config.masters, text)
