"""Rules 33 to 43: how many machines of which kind."""

from __future__ import annotations

from collections.abc import Iterator

from installer.config import gates
from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, unsupported
from installer.config.rules.catalogue import rule
from installer.config.types import InstallConfig, MachinePool

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")


@rule("33", "controlPlane")
def control_plane(config: InstallConfig) -> Iterator[FieldError]:
    """Its name."""
    pool = config.control_plane
    if pool is not None and pool.name != "master":
        yield unsupported("controlPlane.name", pool.name, ("master",))


@rule("34", "controlPlane.replicas")
def control_plane_replicas(config: InstallConfig) -> Iterator[FieldError]:
    """Positive, and as many as there are topologies for; what two of them need is the business of rules 43 and 44."""
    replicas = config.masters
    if replicas < 1:
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
    """Known ones."""
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
    """That of the control plane, but for arm64 workers of an amd64 control plane on bare metal."""
    first = config.control_plane.architecture if config.control_plane else ""
    for index, pool in enumerate(config.compute):
        path, mine = f"compute[{index}].architecture", pool.architecture
        if mine == first or mine not in ARCHITECTURES:
            continue
        if config.platform.name != "baremetal":
            text = "heteregeneous multi-arch is not supported; compute pool architecture must match control plane"
            yield invalid(path, mine, text)
        elif first != "amd64":
            yield invalid(path, first, "on multi-arch baremetal, the control plane must be amd64")
        elif mine != "arm64":
            yield invalid(path, mine, "on baremetal with amd64 control plane, compute must be amd64 or arm64")


@rule("37", "compute[].name")
def compute_names(config: InstallConfig) -> Iterator[FieldError]:
    """worker, once; edge is for a cloud."""
    seen: set[str] = set()
    for index, pool in enumerate(config.compute):
        path = f"compute[{index}].name"
        if pool.name != "worker":
            yield unsupported(path, pool.name, ("worker",))
        if pool.name in seen:
            yield duplicate(path, pool.name)
        seen.add(pool.name)


@rule("39", "compute[].fencing")
def compute_fencing(config: InstallConfig) -> Iterator[FieldError]:
    """Only the control plane is fenced."""
    for path, pool in _pools(config):
        if pool.fencing is not None and path != "controlPlane":
            yield invalid(f"{path}.fencing", pool.name, "fencing is only valid for control plane")


@rule("pools", "replicas, hyperthreading")
def pools(config: InstallConfig) -> Iterator[FieldError]:
    """What every pool must be, whatever its kind."""
    for path, pool in _pools(config):
        if (pool.replicas or 0) < 0 and path != "controlPlane":
            yield invalid(f"{path}.replicas", pool.replicas, "number of replicas must not be negative")
        if pool.hyperthreading not in ("", "Enabled", "Disabled"):
            yield unsupported(f"{path}.hyperthreading", pool.hyperthreading, ("Disabled", "Enabled"))


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
    """A single node has OVNKubernetes."""
    kind = config.networking.network_type if config.networking else ""
    if _single(config) and config.platform.name in ("none", "external") and kind != "OVNKubernetes":
        text = "Only OVNKubernetes network type is allowed for Single Node OpenShift (SNO) cluster"
        yield invalid("networking.networkType", kind, text)


def _single(config: InstallConfig) -> bool:
    return config.masters == 1 and not config.workers


@rule("42", "platform")
def single_node_platform(config: InstallConfig) -> Iterator[FieldError]:
    """A single node is on none or external."""
    name = config.platform.name
    if _single(config) and name and name not in ("none", "external"):
        yield invalid("platform", name, "Only platform none and external supports 1 ControlPlane and 0 Compute nodes")


@rule("43", "arbiter")
def arbiter(config: InstallConfig) -> Iterator[FieldError]:
    """An arbiter needs two control plane nodes at least, and a platform that can have one."""
    pool = config.arbiter
    if pool is None:
        return
    if config.masters == 1 and config.arbiters:
        text = (
            "Total number of arbiter replicas must be 0 when controlPlane.replicas is 1 for Single Node Openshift (SNO)"
        )
        yield forbidden("arbiter.replicas", f"{text} cluster. Found {config.arbiters}")
    if not gates.enabled(config, gates.ARBITER):
        text = f"{gates.ARBITER} feature must be enabled in order to use arbiter cluster deployment"
        yield forbidden("arbiter", text)
    if config.platform.name and config.platform.name not in ("baremetal", "external", "none"):
        yield unsupported("platform", config.platform.name, ("baremetal", "external", "none"))
    if pool.name != "arbiter":
        yield unsupported("arbiter.name", pool.name, ("arbiter",))
    if config.arbiters < 1:
        yield invalid("arbiter.replicas", config.arbiters, "number of arbiter replicas must be positive")
    if config.masters == 2 and config.arbiters > 1:
        yield invalid(
            "arbiter.replicas",
            config.arbiters,
            "TNA (Two Node with Arbiter) configuration requires exactly 1 arbiter replica",
        )
    if config.masters < 2:
        yield invalid(
            "controlPlane.replicas",
            config.masters,
            "number of controlPlane replicas must be at least 2 for arbiter deployments",
        )
