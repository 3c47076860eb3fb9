"""Second stage of `create`: from input files to validated inputs, whichever of the sources they come from."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass, field, replace

from installer.config.fielderror import raise_if_any
from installer.config.load import (
    AGENT_CONFIG_FILE,
    INSTALL_CONFIG_FILE,
    check_hosts,
    decoded_text,
    parse_agent_config,
    parse_install_config,
    resolve_hosts,
)
from installer.config.rendezvous import choose
from installer.config.state import AGENT_CONFIG, EXTRA_MANIFESTS, INSTALL_CONFIG, MANIFESTS, MIRROR
from installer.config.types.agent import AgentConfig, Host
from installer.config.types.install import InstallConfig
from installer.config.values.check import weak_certificates
from installer.create.stages.hosts import host_files
from installer.create.stages.read import InputFiles, loading
from installer.create.stages.resolve import expected_release
from installer.errors import INSTALL_CONFIG_MARKER
from installer.ignition.live import HostFiles
from installer.manifests import files as names
from installer.manifests import networks
from installer.manifests.extra import split_documents

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """What the user gave, validated.

    `install`: with the machine network of node0 in its proxy's noProxy. `host_files`: what is written for each of
    `hosts`. `ntp_sources` and `rendezvous_ip` are what follows from both configs. `agent_text`: agent-config.yaml as it
    was written, empty without one. `extra_manifests`: the documents of openshift/, by the name that they have on the
    live host. `manifests` (by file name) and `registries` as they were given, None where they are to be made.
    `consumed`: files that go into the state, by asset. `discarded`: files on disk that newer inputs replace.
    """

    install: InstallConfig
    agent: AgentConfig
    hosts: tuple[Host, ...]
    rendezvous_ip: str
    ntp_sources: tuple[str, ...]
    host_files: tuple[HostFiles, ...] = ()
    agent_text: str = field(default="", repr=False)
    extra_manifests: dict[str, bytes] = field(default_factory=dict, repr=False)
    manifests: dict[str, bytes] | None = field(default=None, repr=False)
    registries: str | None = None
    consumed: dict[str, dict[str, bytes]] = field(default_factory=dict, repr=False)
    discarded: tuple[str, ...] = ()


def check(files: InputFiles, target: str, *, for_image: bool = True) -> Inputs:
    """The validated inputs, network configs too; `target` is for messages.

    `for_image`: whether there must be a rendezvous IP, which manifests do without; it is empty then.

    Raises ConfigError, AssetError, StateError.
    """
    source = _from_manifests if files.from_manifests else _from_configs
    inputs = source(files, target, for_image=for_image)
    return replace(
        inputs,
        install=with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip),
        host_files=tuple(host_files(inputs.hosts)),
    )


def with_rendezvous_in_no_proxy(config: InstallConfig, address: str) -> InstallConfig:
    """The machine network that holds node0 is never reached through the proxy (reference §1.1)."""
    if config.proxy is None or config.networking is None or not address:
        return config
    ip = ipaddress.ip_address(address)
    cidrs = [entry.cidr for entry in config.networking.machine_network if entry.cidr]
    nets = [cidr for cidr in cidrs if ip in ipaddress.ip_network(cidr, strict=False)]
    parts = [part for part in config.proxy.no_proxy.split(",") if part]
    joined = ",".join([*parts, *(net for net in nets[:1] if net not in parts)])
    return replace(config, proxy=replace(config.proxy, no_proxy=joined))


def _from_configs(files: InputFiles, target: str, *, for_image: bool) -> Inputs:
    """install-config.yaml and agent-config.yaml; where they are kept ones, with mirror/ that was edited since."""
    fresh = INSTALL_CONFIG in files.on_disk
    discarded = _discarded(files) if fresh else ()
    install_files, agent_files, extra = (files.of(a) for a in (INSTALL_CONFIG, AGENT_CONFIG, EXTRA_MANIFESTS))
    mirror_files = {} if fresh else {**files.state.files(MIRROR), **files.on_disk.get(MIRROR, {})}
    with loading(target, "Install Config"), files.blamed(INSTALL_CONFIG):
        install = parse_install_config(
            decoded_text(install_files[INSTALL_CONFIG_FILE], INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")
        )
    with loading(target, "Agent Config"), files.blamed(AGENT_CONFIG):
        agent, agent_text = _agent_config(agent_files)
    with loading(target, "Agent Hosts"), files.blamed(INSTALL_CONFIG, AGENT_CONFIG):
        hosts = resolve_hosts(install, agent)
    with loading(target), files.blamed(INSTALL_CONFIG):
        _check_networks(install, target)
    _note_mirrors(install)
    with loading(target, "Extra Manifests"), files.blamed(EXTRA_MANIFESTS):
        documents = split_documents(extra)
    _log_consumed(files, INSTALL_CONFIG, AGENT_CONFIG)
    with loading(target, "Agent Installer Ignition"), files.blamed(INSTALL_CONFIG, AGENT_CONFIG):
        rendezvous = choose(agent, hosts, needed=for_image)
    _log_rendezvous(rendezvous)
    baremetal = install.platform.baremetal
    ntp = agent.additional_ntp_sources or (baremetal.additional_ntp_servers if baremetal else ())
    inputs = Inputs(
        install,
        agent,
        hosts,
        rendezvous,
        tuple(ntp),
        agent_text=agent_text,
        extra_manifests=documents,
        consumed=_consumed_configs(files),
        discarded=discarded,
    )
    if mirror_files:
        with files.blamed(MIRROR):
            return _with_mirror(inputs, mirror_files)
    return inputs


def _note_mirrors(install: InstallConfig) -> None:
    """Mirrors that the release is not in, and certificates that sign no others."""
    release = expected_release()
    name = release.partition("@")[0] if "@" in release else release.rpartition(":")[0] or release
    if install.sources and not any(entry.mirrors and entry.source == name for entry in install.sources):
        log.warning(
            "The imageDigestSources configuration in install-config.yaml should have at least one source field "
            "matching the releaseImage value %s",
            release,
        )
    for note in weak_certificates(install.additional_trust_bundle):
        log.warning(note)


def _check_networks(install: InstallConfig, target: str) -> None:
    """What agent-cluster-install.yaml would be refused for. Raises ConfigError."""
    if install.networking is not None:
        stage = f'failed to fetch dependency of "{target}": failed to generate asset "AgentClusterInstall Config"'
        problems = list(networks.errors(install.networking, install.masters + install.workers))
        raise_if_any(f"{stage}: invalid NetworkType configured", problems, INSTALL_CONFIG_FILE)


def _log_rendezvous(address: str) -> None:
    if address:
        log.info("The rendezvous host IP (node0 IP) is %s", address)


def _discarded(files: InputFiles) -> tuple[str, ...]:
    """The manifests on disk that a new install-config replaces; says so."""
    paths = (*files.on_disk.get(MANIFESTS, {}), *files.on_disk.get(MIRROR, {}))
    for path in paths:
        log.warning(
            "Discarding the %s that was provided in the target directory because its dependencies are dirty and "
            "it needs to be regenerated",
            path,
        )
    return paths


def _consumed_configs(files: InputFiles) -> dict[str, dict[str, bytes]]:
    """What goes into the state; manifests that newer configs replace go out of it."""
    consumed = {asset: paths for asset, paths in files.on_disk.items() if asset != MANIFESTS}
    if INSTALL_CONFIG in files.on_disk:
        return {**consumed, MANIFESTS: {}, MIRROR: {}}
    return {**consumed, MANIFESTS: {}} if files.stale else consumed


def _agent_config(files: dict[str, bytes]) -> tuple[AgentConfig, str]:
    """The agent-config among the files and its text; an empty one without."""
    data = files.get(AGENT_CONFIG_FILE)
    if data is None:
        return AgentConfig(), ""
    text = decoded_text(data, AGENT_CONFIG_FILE)
    return parse_agent_config(text), text


def _log_consumed(files: InputFiles, *assets: str) -> None:
    labels = {INSTALL_CONFIG: "Install Config", MANIFESTS: "Agent Manifests", AGENT_CONFIG: "Agent Config"}
    for asset in assets:
        if asset in files.on_disk:
            log.info("Consuming %s from target directory", labels[asset])


def _with_mirror(inputs: Inputs, files: dict[str, bytes]) -> Inputs:
    """The mirrors of mirror/ in the place of the install-config's."""
    from installer.manifests import mirror

    sources, bundle = mirror.read_mirror(files)
    install = replace(
        inputs.install, image_digest_sources=sources, image_content_sources=(), additional_trust_bundle=bundle
    )
    return replace(inputs, install=install, registries=files.get(names.REGISTRIES, b"").decode())


def _from_manifests(files: InputFiles, target: str, *, for_image: bool) -> Inputs:
    """cluster-manifests/ and mirror/; agent-config.yaml besides, if there is one."""
    from installer.manifests import mirror, read, ztp  # not needed, and not read, where there are configs

    on_disk = files.on_disk.get(MANIFESTS, {})
    manifest_files = {**files.state.files(MANIFESTS), **on_disk}
    if on_disk and names.NMSTATE not in on_disk:
        manifest_files.pop(names.NMSTATE, None)  # an optional file that the user took away
    mirror_files = {**files.state.files(MIRROR), **files.on_disk.get(MIRROR, {})}
    with files.blamed(MANIFESTS):
        manifests = read.read_manifests(manifest_files, expected_release(), target)
    with loading(target):
        with files.blamed(MIRROR):
            sources, bundle = mirror.read_mirror(mirror_files)
        install = ztp.install_config(manifests, sources, bundle)
        agent_files, extra = files.of(AGENT_CONFIG), files.of(EXTRA_MANIFESTS)
        with files.blamed(AGENT_CONFIG):
            agent, agent_text = _agent_config(agent_files)
        hosts = ztp.with_networks(agent.hosts, manifests)
        check_hosts(agent, hosts, install, counted=hosts[: len(agent.hosts)])
        with files.blamed(EXTRA_MANIFESTS):
            documents = split_documents(extra)
        rendezvous = choose(agent, hosts, needed=for_image)
    _log_consumed(files, MANIFESTS, AGENT_CONFIG)
    _log_rendezvous(rendezvous)
    registries = mirror_files.get(names.REGISTRIES)
    return Inputs(
        install,
        agent,
        hosts,
        rendezvous,
        tuple(agent.additional_ntp_sources or manifests.infra_env.spec.additional_ntp_sources),
        agent_text=agent_text,
        extra_manifests=documents,
        manifests={path.removeprefix(f"{names.DIRECTORY}/"): data for path, data in manifest_files.items()},
        registries=None if registries is None else registries.decode(),
        # Of the manifests those too that are still in the state: together they are one input.
        consumed={**files.on_disk, **({MANIFESTS: manifest_files} if on_disk else {})},
    )
