"""Warnings about an install-config that is valid: fields without effect, deprecated ones (§1.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import fields

from installer.common.redact import without_login
from installer.config.decode import camel
from installer.config.types.agent import AgentConfig, Host
from installer.config.types.cloud import VSpherePlatform
from installer.config.types.install import InstallConfig, Networking
from installer.config.types.uses import PROVISIONING, Use, note, unused
from installer.config.values import check

log = logging.getLogger(__name__)

_DOCKER = "172.17.0.0/16"


def log_notes(written: InstallConfig, complete: InstallConfig) -> None:
    """Log them: `written` is the config as it was written, `complete` with its defaults."""
    notes = (*unused(written, Use.IGNORED), *_without_credentials(written, complete.platform.vsphere))
    for line in (*overlaps(complete), *notes, *architectures(complete), *partitioning(complete)):
        log.warning(line)
    for line in unused(written, Use.HARMLESS):
        log.debug(line)
    if complete.image_content_sources:
        log.warning("imageContentSources is deprecated, please use ImageDigestSources")
    for host in missing_credentials(complete):
        log.warning('Mirror registry "%s" is not found in pullSecret', host)


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
    """Nodes of another architecture than the control plane's need a release with both."""
    own = config.control_plane.architecture if config.control_plane else ""
    pools = (*config.compute, *([config.arbiter] if config.arbiter else []))
    if any(pool.architecture != own for pool in pools):
        yield (
            "Could not determine release architecture for multi arch cluster configuration. Make sure the release is a "
            "multi architecture payload."
        )


def partitioning(config: InstallConfig) -> Iterator[str]:
    """Yield an unknown mode partitions nothing, and partitioning cannot be turned on later."""
    if config.cpu_partitioning_mode not in ("", "None", "AllNodes"):
        yield (
            f"cpuPartitioningMode: {config.cpu_partitioning_mode} is neither None nor AllNodes: no processor is "
            "partitioned, and that cannot be changed after the installation"
        )


def _without_credentials(written: InstallConfig, complete: VSpherePlatform | None) -> Iterator[str]:
    vsphere = written.platform.vsphere
    if vsphere is not None and complete is not None and not any(vcenter.has_any for vcenter in complete.vcenters):
        yield from note("platform.vsphere.failureDomains", vsphere.failure_domains)


def outdone(written: InstallConfig, agent: AgentConfig, hosts: Sequence[Host]) -> Iterator[str]:
    """List fields without effect because of another field or file; `written` is the install-config as decoded."""
    net, platform = written.networking or Networking(), written.platform.baremetal
    for name, old, new in (
        ("machineCIDR", net.machine_cidr, [entry.cidr for entry in net.machine_network]),
        ("serviceCIDR", net.service_cidr, net.service_network),
        ("type", net.type, [net.network_type] if net.network_type else []),
        ("clusterNetworks", net.cluster_networks, [net.cluster_network] if net.cluster_network else []),
    ):
        if new and str(old).lower() not in [str(value).lower() for value in new]:
            yield from note(f"networking.{name}", old)
    if platform is None:
        for index, host in enumerate(hosts):
            yield from note(f"hosts[{index}].BMC", host.bmc)
        return
    if agent.additional_ntp_sources:
        yield from note("platform.baremetal.additionalNTPServers", platform.additional_ntp_servers)
    # `agent boot` and `create cluster` drive the BMCs that install-config names, whatever hosts agent-config has.
    without_bmc = [index for index, host in enumerate(platform.hosts) if not (host.bmc and host.bmc.has_any)]
    for index in without_bmc:
        yield from note(f"platform.baremetal.hosts[{index}].bootMode", platform.hosts[index].boot_mode, "UEFI")
    if len(without_bmc) == len(platform.hosts):
        yield from note("platform.baremetal.bmcVerifyCA", platform.bmc_verify_ca)
    if not any(host.bmc and host.bmc.has_any for host in hosts):
        for field in fields(platform):
            if field.name in PROVISIONING.split():
                # Without BMCs there is no provisioning network, as with Disabled.
                key = str(field.metadata.get("key", camel(field.name)))
                yield from note(f"platform.baremetal.{key}", getattr(platform, field.name), "Disabled")


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
    """Return the registry or repository that an entry of a pull secret is for (containers-auth.json(5)): URLs count by
    their host."""
    _, is_url, rest = name.partition("://")
    registry = rest.partition("/")[0] if is_url else name
    return "docker.io" if registry in ("index.docker.io", "registry-1.docker.io") else registry
