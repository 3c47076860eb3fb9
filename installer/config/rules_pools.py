"""Rules 32 to 44: how many machines of which kind."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, required, unsupported
from installer.config.rules import rule
from installer.config.types import InstallConfig, MachinePool

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")


def gate(config: InstallConfig, name: str) -> bool:
    """True if a feature gate is on: by name, or with a feature set that has it."""
    if config.feature_set in ("TechPreviewNoUpgrade", "DevPreviewNoUpgrade"):
        return True
    return any(
        entry.partition("=")[0] == name and entry.partition("=")[2].lower() in ("true", "t", "1")
        for entry in config.feature_gates
    )


def _arbiter_allowed(config: InstallConfig) -> bool:
    # Generally available since 4.20: on unless a gate says otherwise.
    return not any(entry.lower() == "highlyavailablearbiter=false" for entry in config.feature_gates)


@rule("33", "controlPlane")
def control_plane(config: InstallConfig) -> Iterator[FieldError]:
    """Its name and replicas (rule 34)."""
    pool = config.control_plane
    if pool is None:
        yield required("controlPlane", "controlPlane is required")
        return
    if pool.name != "master":
        yield unsupported("controlPlane.name", pool.name, ("master",))
    replicas = pool.replicas or 0
    if replicas < 1:
        yield invalid("controlPlane.replicas", replicas, "number of control plane replicas must be positive")
    two = []
    if _arbiter_allowed(config):
        two.append("2 (with arbiter)")
    if gate(config, "DualReplica"):
        two.append("2 (with fencing)")
    fenced = pool.fencing is not None and pool.fencing.credentials
    if not 1 <= replicas <= 5 or (replicas == 2 and config.arbiter is None and not fenced):
        yield unsupported("controlPlane.replicas", replicas, ("3", "1", "4", "5", *two))


@rule("35", "architecture")
def architectures(config: InstallConfig) -> Iterator[FieldError]:
    """Known, and the same everywhere but for arm64 workers on bare metal (rule 38)."""
    first = config.control_plane.architecture if config.control_plane else ""
    if first not in ARCHITECTURES:
        yield unsupported("controlPlane.architecture", first, ARCHITECTURES)
    for index, pool in enumerate(config.compute):
        path = f"compute[{index}].architecture"
        if pool.architecture not in ARCHITECTURES:
            yield unsupported(path, pool.architecture, ARCHITECTURES)
        elif pool.architecture != first and not (
            config.platform.name == "baremetal" and (first, pool.architecture) == ("amd64", "arm64")
        ):
            yield invalid(
                path,
                pool.architecture,
                "heteregeneous multi-arch is not supported; compute pool architecture must match control plane",
            )


@rule("37", "compute")
def compute(config: InstallConfig) -> Iterator[FieldError]:
    """Names (37), no fencing (39), replicas."""
    seen: set[str] = set()
    for index, pool in enumerate(config.compute):
        path = f"compute[{index}]"
        if pool.name != "worker":
            yield unsupported(f"{path}.name", pool.name, ("worker",))
        if pool.name in seen:
            yield duplicate(f"{path}.name", pool.name)
        seen.add(pool.name)
        if pool.fencing is not None:
            yield invalid(f"{path}.fencing", pool.name, "fencing is only valid for control plane")
        if (pool.replicas or 0) < 0:
            yield invalid(f"{path}.replicas", pool.replicas, "number of compute replicas must not be negative")
    yield from _hyperthreading(config)


def _hyperthreading(config: InstallConfig) -> Iterator[FieldError]:
    pools: list[tuple[str, MachinePool | None]] = [("controlPlane", config.control_plane)]
    pools += [(f"compute[{index}]", pool) for index, pool in enumerate(config.compute)]
    for path, pool in pools:
        if pool is not None and pool.hyperthreading not in ("", "Enabled", "Disabled"):
            yield unsupported(f"{path}.hyperthreading", pool.hyperthreading, ("Disabled", "Enabled"))


@rule("40", "single node")
def single_node(config: InstallConfig) -> Iterator[FieldError]:
    """What one control plane node goes with (rules 40 to 43)."""
    if config.masters != 1:
        return
    name = config.platform.name
    if config.workers:
        yield forbidden(
            "compute.replicas",
            "Total number of compute replicas must be 0 when controlPlane.replicas is 1 for platform none or external. "
            f"Found {config.workers}",
        )
    else:
        kind = config.networking.network_type if config.networking else ""
        if name in ("none", "external") and kind != "OVNKubernetes":
            yield invalid(
                "networking.networkType",
                kind,
                "Only OVNKubernetes network type is allowed for Single Node OpenShift (SNO) cluster",
            )
        if name and name not in ("none", "external"):
            yield invalid(
                "platform", name, "Only platform none and external supports 1 ControlPlane and 0 Compute nodes"
            )
    if config.arbiters:
        yield forbidden(
            "arbiter.replicas",
            "Total number of arbiter replicas must be 0 when controlPlane.replicas is 1 for Single Node Openshift "
            f"(SNO) cluster. Found {config.arbiters}",
        )


@rule("43", "arbiter")
def arbiter(config: InstallConfig) -> Iterator[FieldError]:
    """An arbiter needs two control plane nodes at least, and a platform that can have one."""
    pool = config.arbiter
    if pool is None:
        return
    if not _arbiter_allowed(config):
        yield forbidden("arbiter", "feature gate HighlyAvailableArbiter must be enabled to use an arbiter")
    if config.platform.name and config.platform.name not in ("baremetal", "external", "none"):
        yield unsupported("platform", config.platform.name, ("baremetal", "external", "none"))
    if pool.name != "arbiter":
        yield unsupported("arbiter.name", pool.name, ("arbiter",))
    if config.arbiters < 1:
        yield invalid("arbiter.replicas", config.arbiters, "number of arbiter replicas must be positive")
    if 1 < config.masters == 2 and config.arbiters > 1:
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


@rule("44", "controlPlane.fencing")
def fencing(config: InstallConfig) -> Iterator[FieldError]:
    """Two credentials for two nodes, each whole and different."""
    pool = config.control_plane
    if pool is None or pool.fencing is None or not pool.fencing.credentials:
        return
    path, credentials = "controlPlane.fencing.credentials", pool.fencing.credentials
    if not gate(config, "DualReplica"):
        yield invalid(
            "controlPlane.fencing", "configured", "fencing configuration requires FeatureGateDualReplica to be enabled"
        )
    if config.masters != 2:
        yield forbidden(path, "fencing credentials are only supported with 2 control plane replicas")
    elif len(credentials) != 2:
        yield invalid(path, len(credentials), "must provide exactly 2 fencing credentials for 2 control plane replicas")
    if config.platform.name not in ("", "none", "external", "baremetal"):
        yield forbidden("controlPlane.fencing", f"fencing is not supported on platform {config.platform.name}")
    seen: set[tuple[str, str]] = set()
    for index, entry in enumerate(credentials):
        here = f"{path}[{index}]"
        who = ("macAddress", entry.mac_address) if entry.mac_address else ("hostName", entry.host_name)
        for name, value in (
            who,
            ("username", entry.username),
            ("password", entry.password),
            ("address", entry.address),
        ):
            if not value:
                yield required(f"{here}.{name}", f"missing {name}")
        for name, value in (who, ("address", entry.address)):
            if value and (name, value) in seen:
                yield duplicate(f"{here}.{name}", value)
            seen.add((name, value))
        if entry.certificate_verification not in ("", "Enabled", "Disabled"):
            yield unsupported(
                f"{here}.certificateVerification", entry.certificate_verification, ("Disabled", "Enabled")
            )
        scheme = urlsplit(entry.address).scheme
        if entry.address and not (scheme.startswith("redfish") or "redfish" in entry.address):
            yield invalid(f"{here}.address", entry.address, "fencing only supports redfish-compatible BMC addresses")
