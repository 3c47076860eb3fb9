"""`agent add-nodes create`: the image that adds hosts to a running cluster.

Each of these hosts is installed by a rendezvous service of its own, which imports the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from installer.addnodes import access, nodesconfig, target
from installer.addnodes.access import Access
from installer.addnodes.nodesconfig import ARCHITECTURES, NodesConfig, OneHost
from installer.addnodes.report import FILE as REPORT
from installer.addnodes.report import reported
from installer.addnodes.target import Target
from installer.config.fielderror import raise_if_any
from installer.config.state import State
from installer.config.types.agent import Host
from installer.config.types.install import InstallConfig, MachinePool
from installer.create.image import BOOT_ARTIFACTS
from installer.create.outputs import Outputs
from installer.create.stages.hosts import host_files
from installer.create.stages.render import kernel_arguments, proxy_environment
from installer.create.stages.resolve import Payload, architecture, digest_sources, resolve_payload
from installer.errors import AssetError, ConfigError, IsoError
from installer.ignition.live import EACH_ITS_OWN, IMAGE_VARIABLES, HostFiles, Joined, LiveInputs, live_config
from installer.image.artifacts import LiveChanges, prepare_iso, write_pxe
from installer.image.copy import IMAGE_MODE
from installer.manifests import cluster as manifests
from installer.release import registries_conf

log = logging.getLogger(__name__)

Kind = Literal["image", "pxe-files"]
#: The files are called `node.ARCH…`; an installation's are `agent.ARCH…`.
NAME = "node"
TARGETS: dict[Kind, str] = {"image": "Agent Installer ISO", "pxe-files": "Agent Installer PXE Files"}
_STAGES: dict[Kind, str] = {"image": "generate-iso", "pxe-files": "generate-pxe"}


@dataclass(frozen=True)
class Wanted:
    """The image to make, and the hosts and the cluster that it is for. `options`: those of a single host."""

    kind: Kind
    directory: Path
    kubeconfig: Path
    _: KW_ONLY
    options: OneHost
    output_name: str = ""
    report: bool = False


@dataclass(frozen=True)
class Parts:
    """All that an image is made of. `install`: the cluster's install-config as these hosts need it; `files`: the
    hosts' own."""

    config: NodesConfig
    cluster: Target
    install: InstallConfig
    payload: Payload
    _: KW_ONLY
    access: Access
    files: tuple[HostFiles, ...]


def create(wanted: Wanted) -> None:
    """Write the image into the directory, and its tokens into the cluster, or change neither. Raises InstallerError."""
    directory, kubeconfig = wanted.directory, wanted.kubeconfig
    with reported(directory, f"add-nodes-{wanted.kind}", always=wanted.report) as report:
        report.stage("add-nodes-cluster-inspection")
        _check_name(wanted)
        config, source = nodesconfig.read(directory, wanted.options)
        with target.connected(kubeconfig) as api:
            cluster = target.read(api, kubeconfig)
            target.check_directory(State.load(directory), cluster, kubeconfig)
            raise_if_any("invalid nodes configuration", [*nodesconfig.present(config.hosts, cluster.members)], source)
            install, hosts = _install_config(cluster, config), _hosts(config)
            files = tuple(host_files(hosts, TARGETS[wanted.kind], required=len(hosts)))
            tokens, secret = access.usable(api, datetime.now(UTC))
            report.stage("fetch-base-iso")
            payload = resolve_payload(install, IMAGE_VARIABLES.values(), pullspec=cluster.release_image)
            report.stage("ignition")
            parts = Parts(config, cluster, install, payload, access=tokens, files=files)
            changes = LiveChanges(live_config(live_inputs(parts)), kernel_arguments(install), payload.agent_files)
            report.stage(_STAGES[wanted.kind])
            with Outputs(directory) as outputs:
                made = [*_write(wanted, parts, changes, outputs)]
                access.store(api, tokens, secret)
                outputs.commit()
    for line in made:
        log.info("%s", line)
    log.info("Its tokens expire at %s: boot the hosts before", f"{tokens.expiry:%Y-%m-%dT%H:%M:%SZ}")


def _check_name(wanted: Wanted) -> None:
    """Raise ConfigError for an --output-name that is no new file of the directory."""
    path, problem = wanted.directory / wanted.output_name, ""
    try:
        if path.exists():
            problem = "is there already"
        elif path.parent != wanted.directory:
            problem = "must be the name of a file in the asset directory"
        elif path.name in (nodesconfig.FILE, REPORT):
            problem = "is the name of another file of this command"
    except OSError as error:
        problem = error.strerror or str(error)
    if wanted.output_name and problem:
        raise ConfigError(f"--output-name {wanted.output_name}: {problem}")


def _install_config(cluster: Target, config: NodesConfig) -> InstallConfig:
    """Return the cluster's install-config as the hosts need it: of their architecture, with their SSH key."""
    install = replace(cluster.install, ssh_key=config.ssh_key or cluster.install.ssh_key)
    if not config.cpu_architecture:
        return install
    pool = install.control_plane or MachinePool()
    return replace(install, control_plane=replace(pool, architecture=ARCHITECTURES[config.cpu_architecture]))


def _hosts(config: NodesConfig) -> tuple[Host, ...]:
    """Return the hosts with their roles."""
    return tuple(host if host.role else replace(host, role="worker") for host in config.hosts)


def live_inputs(parts: Parts) -> LiveInputs:
    """Return all that goes into the hosts' Ignition config."""
    install, release, cluster, tokens = parts.install, parts.payload.release, parts.cluster, parts.access.tokens
    hosts = _hosts(parts.config)
    sources, sources_of_time = digest_sources(install), parts.config.additional_ntp_sources or cluster.ntp_sources
    return LiveInputs(
        rendezvous_ip=EACH_ITS_OWN,
        release_image=release.image,
        release_version=release.version,
        images=release.components,
        public_key_pem=tokens.public_key_pem,
        agent_token=tokens.agent,
        user_token=tokens.user,
        watcher_token=tokens.watcher,
        tls_files=parts.access.tls_files(),
        pull_secret=install.pull_secret,
        ssh_keys=tuple(line.strip() for line in install.ssh_key.splitlines() if line.strip()),
        manifests=manifests.cluster_manifests(
            manifests.Inputs(install, sources_of_time, hosts, release.image, release_version=release.version)
        ),
        hosts=parts.files,
        registries_conf=registries_conf(sources) if sources else "",
        ca_bundle=install.additional_trust_bundle,
        proxy=proxy_environment(install),
        ntp_sources=sources_of_time,
        masters=sum(host.role == "master" for host in hosts),
        workers=sum(host.role == "worker" for host in hosts),
        console=bool(parts.payload.agent_files),
        cluster_name=cluster.domain,
        joined=Joined(
            cluster_id=cluster.cluster_id,
            name=install.metadata.name,
            api=f"api.{cluster.domain}",
            url=cluster.url,
            ca=cluster.ca,
            expiry=f"{parts.access.expiry:%Y-%m-%dT%H:%M:%SZ}",
        ),
    )


def _write(wanted: Wanted, parts: Parts, changes: LiveChanges, outputs: Outputs) -> Iterator[str]:
    """Write the files beside their final places; yield the lines to log once they are there. Raises AssetError."""
    iso, arch = parts.payload.iso, architecture(parts.install)
    try:
        if wanted.kind == "image":
            path = wanted.directory / (wanted.output_name or f"{NAME}.{arch}.iso")
            outputs.take(prepare_iso(iso, path, changes, mode=IMAGE_MODE))
            yield f"Generated ISO at {path}."
            return
        folder = outputs.folder(BOOT_ARTIFACTS, f"{NAME}.*")
        arguments = write_pxe(iso, folder, arch, changes, mode=IMAGE_MODE, name=NAME)
        yield f"PXE boot artifacts created in: {wanted.directory / BOOT_ARTIFACTS}"
        yield f"Kernel parameters for PXE boot: {arguments}"
    except IsoError as error:
        raise AssetError(f"failed to fetch {TARGETS[wanted.kind]}", error) from error
