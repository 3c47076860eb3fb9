"""Warnings about an install-config that is valid: fields without effect, deprecated ones (§1.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields

from installer.config.decode import camel
from installer.config.types.cloud import NutanixPlatform, NutanixPool, VSpherePlatform, VSpherePool
from installer.config.types.install import InstallConfig, Networking
from installer.config.types.platform import BareMetalPlatform, PoolPlatform
from installer.config.values import check
from installer.redact import without_login

log = logging.getLogger(__name__)

_DOCKER = "172.17.0.0/16"


def log_notes(written: InstallConfig, complete: InstallConfig) -> None:
    """Log them: `written` is the config as it was written, `complete` with its defaults."""
    for note in (*overlaps(complete), *ignored(written, complete), *architectures(complete), *partitioning(complete)):
        log.warning(note)
    for note in silently_ignored(written):
        log.debug(note)
    if complete.image_content_sources:
        log.warning("imageContentSources is deprecated, please use ImageDigestSources")
    for host in missing_credentials(complete):
        log.warning('Mirror registry "%s" is not found in pullSecret', host)


def _note(path: str, value: object, default: object = "") -> Iterator[str]:
    if value not in (None, "", (), [], {}, default):
        yield f"{path}: {_shown(value)} is ignored"


def _shown(value: object) -> object:
    # Fields of plain data may hold anything, secrets too: only scalars are shown.
    return value if isinstance(value, str | int | float | bool) else "what is given"


def overlaps(config: InstallConfig) -> Iterator[str]:
    """Networks that Docker's bridge uses on machines that have one."""
    net = config.networking or Networking()
    bridge = check.network(_DOCKER)
    for path, cidr in (
        *((f"networking.machineNetwork[{index}]", entry.cidr) for index, entry in enumerate(net.machine_network)),
        *((f"networking.serviceNetwork[{index}]", cidr) for index, cidr in enumerate(net.service_network)),
        # Upstream's text has the index twice.
        *(
            (f"networking.clusterNetwork[{index}][{index}]", entry.cidr)
            for index, entry in enumerate(net.cluster_network)
        ),
    ):
        own = check.network(cidr)
        if own is not None and bridge is not None and not check.cidr(cidr) and check.overlap(own, bridge):
            yield f"{path}: {cidr} overlaps with default Docker Bridge subnet"


def architectures(config: InstallConfig) -> Iterator[str]:
    """Workers of another architecture need a release with both."""
    own = config.control_plane.architecture if config.control_plane else ""
    if any(pool.architecture != own for pool in config.compute):
        yield (
            "Could not determine release architecture for multi arch cluster configuration. Make sure the release is a "
            "multi architecture payload."
        )


def partitioning(config: InstallConfig) -> Iterator[str]:
    """An unknown mode partitions nothing, and partitioning cannot be turned on later."""
    if config.cpu_partitioning_mode not in ("", "None", "AllNodes"):
        yield (
            f"cpuPartitioningMode: {config.cpu_partitioning_mode} is neither None nor AllNodes: no processor is "
            "partitioned, and that cannot be changed after the installation"
        )


def ignored(config: InstallConfig, complete: InstallConfig) -> Iterator[str]:
    """What is set and has no effect with the agent installer, each as `<path>: <value> is ignored`."""
    for path, pool in [("controlPlane", config.control_plane)] + [
        (f"compute[{index}]", pool) for index, pool in enumerate(config.compute)
    ]:
        if pool is not None:
            yield from _note(f"{path}.hyperthreading", pool.hyperthreading, "Enabled")
            if pool.platform not in (None, PoolPlatform()):
                yield f"{path}.platform is ignored"
    platform = config.platform
    if platform.baremetal is not None:
        yield from _ignored_baremetal(platform.baremetal)
    if platform.vsphere is not None:
        yield from _ignored_vsphere(platform.vsphere)
    if platform.nutanix is not None:
        yield from _ignored_nutanix(platform.nutanix)
    yield from _note("publish", config.publish, "External")
    yield from _note("credentialsMode", complete.credentials_mode)
    if config.bootstrap_in_place is not None:
        yield from _note("bootstrapInPlace.installationDisk", config.bootstrap_in_place.installation_disk)


def _ignored_baremetal(platform: BareMetalPlatform) -> Iterator[str]:
    path = "platform.baremetal"
    yield from _note(f"{path}.externalBridge", platform.external_bridge, "baremetal")
    if platform.provisioning_network == "Disabled" and not platform.provisioning_bridge:
        yield f"{path}.provisioningBridge:  is ignored"
    yield from _note(f"{path}.provisioningBridge", platform.provisioning_bridge, "provisioning")
    for index, host in enumerate(platform.hosts):
        yield from _note(f"{path}.hosts[{index}].bootMode", host.boot_mode, "UEFI")
    yield from _note(f"{path}.defaultMachinePlatform", platform.default_machine_platform)


def _ignored_vsphere(platform: VSpherePlatform) -> Iterator[str]:
    path = "platform.vsphere"
    yield from _note(f"{path}.clusterOSImage", platform.cluster_os_image)
    yield from _note(f"{path}.defaultMachinePlatform", platform.default_machine_platform, VSpherePool())
    yield from _note(f"{path}.diskType", platform.disk_type)
    yield from _note(f"{path}.loadBalancer", platform.load_balancer and platform.load_balancer.type)
    yield from _note(f"{path}.hosts", platform.hosts[1:])  # upstream does not warn about a single one


def _ignored_nutanix(platform: NutanixPlatform) -> Iterator[str]:
    path = "Platform.Nutanix"  # upstream spells these as Go does
    yield from _note(f"{path}.ClusterOSImage", platform.cluster_os_image)
    yield from _note(f"{path}.PreloadedOSImageName", platform.preloaded_os_image_name)
    yield from _note(f"{path}.DefaultMachinePlatform", platform.default_machine_platform, NutanixPool())
    yield from _note(f"{path}.LoadBalancer", platform.load_balancer and platform.load_balancer.type)
    yield from _note(f"{path}.PrismAPICallTimeout", platform.prism_api_call_timeout)
    yield from _note(f"{path}.FailureDomains", platform.failure_domains)


def silently_ignored(config: InstallConfig) -> Iterator[str]:
    """Fields that are ignored and that nobody misses: logged at debug level only."""
    platform = config.platform.baremetal
    if platform is None:
        return
    for field in fields(platform):
        name = field.name
        if name in ("libvirt_uri", "bootstrap_provisioning_ip") or name.startswith("bootstrap_external_static"):
            key = str(field.metadata.get("key", camel(name)))
            yield from _note(f"platform.baremetal.{key}", getattr(platform, name))


def missing_credentials(config: InstallConfig) -> list[str]:
    """Registries of mirrors that the pull secret has no entry for (rule 57), in alphabetical order."""
    try:
        hosts_with_credentials = check.pull_secret_hosts(config.pull_secret)
    except ValueError:
        return []  # rule 45 reports it
    if not hosts_with_credentials:
        return []
    sources = (*config.image_digest_sources, *config.image_content_sources)
    mirrors = {without_login(mirror) for source in sources for mirror in source.mirrors}
    names = tuple(f"{_credentials_for(name)}/" for name in hosts_with_credentials)
    return sorted({mirror.partition("/")[0] for mirror in mirrors if not f"{mirror}/".startswith(names)} - {""})


def _credentials_for(name: str) -> str:
    """The registry or repository that an entry of a pull secret is for (containers-auth.json(5)): URLs count by their
    host."""
    _, is_url, rest = name.partition("://")
    registry = rest.partition("/")[0] if is_url else name
    return "docker.io" if registry in ("index.docker.io", "registry-1.docker.io") else registry
