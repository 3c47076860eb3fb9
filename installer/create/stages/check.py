"""Second stage of `create`: from input files to validated inputs, whichever of the sources they come from."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from installer.config.contradictions import contradictions
from installer.config.fielderror import raise_if_any
from installer.config.load import (
    AGENT_CONFIG_FILE,
    INSTALL_CONFIG_FILE,
    as_written,
    check_hosts,
    decoded_text,
    parse_agent_config,
    parse_install_config,
    resolve_hosts,
)
from installer.config.notes import outdone
from installer.config.rendezvous import choose
from installer.config.state import AGENT_CONFIG, EXTRA_MANIFESTS, INSTALL_CONFIG, MANIFESTS, MIRROR
from installer.config.types.agent import AgentConfig, Host
from installer.config.types.install import DigestSource as Mirrors
from installer.config.types.install import Fencing, ImageSource, InstallConfig
from installer.config.values.check import weak_certificates
from installer.create.stages.hosts import host_files
from installer.create.stages.read import InputFiles, loading
from installer.create.stages.resolve import expected_release
from installer.errors import INSTALL_CONFIG_MARKER, AssetError, ConfigError
from installer.ignition.live import HostFiles
from installer.manifests import files as names
from installer.manifests import networks
from installer.manifests.extra import split_documents
from installer.release import DigestSource
from installer.release.payload import repository_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inputs:
    """The user's inputs, validated.

    `install`: with the machine network of node0 in its proxy's noProxy. `host_files`: what is written for each of
    `hosts`. `ntp_sources` and `rendezvous_ip` are what follows from both configs. `agent_text`: agent-config.yaml as it
    was written, empty without one. `extra_manifests`: the documents of openshift/, by the name that they have on the
    live host. `manifests` (by file name) and `registries` as they were given, None where they are to be made.
    `kept`: manifests by file name that stand in the place of what the configs give. `consumed`: files that go into the
    state, by asset. `discarded`: files on disk that newer inputs replace. `contradictions`: a line each.
    """

    install: InstallConfig
    agent: AgentConfig
    hosts: tuple[Host, ...]
    rendezvous_ip: str
    _: KW_ONLY
    ntp_sources: tuple[str, ...]
    host_files: tuple[HostFiles, ...] = ()
    agent_text: str = field(default="", repr=False)
    extra_manifests: dict[str, bytes] = field(default_factory=dict, repr=False)
    manifests: dict[str, bytes] | None = field(default=None, repr=False)
    registries: str | None = None
    kept: dict[str, bytes] = field(default_factory=dict, repr=False)
    consumed: dict[str, dict[str, bytes]] = field(default_factory=dict, repr=False)
    discarded: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def hosts_place(self) -> tuple[str, str]:
        """The file that lists the hosts, and the path of the list in it."""
        if self.agent.hosts:
            return AGENT_CONFIG_FILE, "hosts"
        if self.manifests is not None:
            return names.NMSTATE, "hosts"
        return INSTALL_CONFIG_FILE, "platform.baremetal.hosts"

    def host_place(self, index: int) -> tuple[str, str]:
        """Return the file that has a host's MAC addresses, and the path in it: an NMStateConfig is a document."""
        file, path = self.hosts_place
        if file == names.NMSTATE or 0 < len(self.agent.hosts) <= index:
            return names.NMSTATE, "spec.interfaces"
        return file, f"{path}[{index}]"


def check(files: InputFiles, target: str, *, for_image: bool = True) -> Inputs:
    """Return the validated inputs, network configs too; `target` is for messages.

    `for_image`: whether there must be a rendezvous IP; manifests need none, and it may be empty for them.

    Raises ConfigError, AssetError, StateError.
    """
    source = _from_manifests if files.from_manifests else _from_configs
    inputs = source(files, target, for_image=for_image)
    _log_rendezvous(inputs.rendezvous_ip)
    required = len(inputs.agent.hosts if files.from_manifests else inputs.hosts)
    written = tuple(host_files(inputs.hosts, target, required=required))
    # Of networks that are refused nothing more is said.
    found = _contradictions(inputs)
    for line in found:
        log.warning(line)
    install = with_rendezvous_in_no_proxy(inputs.install, inputs.rendezvous_ip)
    return replace(inputs, install=install, host_files=written, contradictions=found)


def with_rendezvous_in_no_proxy(config: InstallConfig, address: str) -> InstallConfig:
    """Return the machine network that holds node0 is never reached through the proxy (reference §1.1)."""
    if config.proxy is None or config.networking is None or not address:
        return config
    ip = ipaddress.ip_address(address)
    cidrs = [entry.cidr for entry in config.networking.machine_network if entry.cidr]
    nets = [cidr for cidr in cidrs if ip in ipaddress.ip_network(cidr, strict=False)]
    parts = [part for part in config.proxy.no_proxy.split(",") if part]
    if config.proxy.no_proxy == "*":
        return config  # all of it already, and valid only alone
    joined = ",".join([*parts, *(net for net in nets[:1] if net not in parts)])
    return replace(config, proxy=replace(config.proxy, no_proxy=joined))


def _from_configs(files: InputFiles, target: str, *, for_image: bool) -> Inputs:
    """install-config.yaml and agent-config.yaml; where they are kept ones, with mirror/ that was edited since."""
    install_files, agent_files = (files.of(asset) for asset in (INSTALL_CONFIG, AGENT_CONFIG))
    mirror_files = {} if files.install_changed else {**files.state.files(MIRROR), **files.on_disk.get(MIRROR, {})}
    with loading(target, "Install Config"), files.blaming_state(INSTALL_CONFIG):
        text = decoded_text(install_files[INSTALL_CONFIG_FILE], INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")
        install = parse_install_config(text)
    with loading(target, "Agent Config"), files.blaming_state(AGENT_CONFIG):
        agent, agent_text = _agent_config(agent_files)
    _discard(files, target)
    with loading(target, "Agent Hosts"), files.blaming_state(INSTALL_CONFIG, AGENT_CONFIG):
        hosts = resolve_hosts(install, agent)
        for note in outdone(as_written(text), agent, hosts):
            log.warning(note)
    with loading(target), files.blaming_state(INSTALL_CONFIG):
        _check_networks(install, target)
    _note_mirrors(install)
    documents = _extra_manifests(files, target) if for_image else {}
    if files.manifests:
        install = _with_kept_manifests(install, files.manifests, target)
    _log_consumed(files, INSTALL_CONFIG, AGENT_CONFIG)
    with loading(target, "Agent Installer Ignition"), files.blaming_state(INSTALL_CONFIG, AGENT_CONFIG):
        rendezvous = choose(agent, hosts, needed=for_image)
    baremetal = install.platform.baremetal
    ntp = agent.additional_ntp_sources or (baremetal.additional_ntp_servers if baremetal else ())
    inputs = Inputs(
        install,
        agent,
        hosts,
        rendezvous,
        ntp_sources=tuple(ntp),
        agent_text=agent_text,
        extra_manifests=documents,
        kept={path.removeprefix(f"{names.DIRECTORY}/"): data for path, data in files.manifests.items()},
        consumed=_consumed(files, files.manifests, for_image=for_image),
        discarded=files.discarded,
    )
    return _with_mirror(inputs, mirror_files, files, target) if mirror_files else inputs


def _extra_manifests(files: InputFiles, target: str) -> dict[str, bytes]:
    with loading(target, "Extra Manifests"), files.blaming_state(EXTRA_MANIFESTS):
        return split_documents(files.of(EXTRA_MANIFESTS))


def _with_kept_manifests(install: InstallConfig, kept: dict[str, bytes], target: str) -> InstallConfig:
    """Return the install-config with what edited manifests say, of those that an agent-config has no influence on."""
    from installer.manifests import read

    manifests = read.read_manifests(kept, expected_release(), target, whole=False)
    if manifests.pull_secret:
        install = replace(install, pull_secret=manifests.pull_secret)
    domain = manifests.deployment.spec.base_domain
    return replace(install, base_domain=domain) if domain else install


def _note_mirrors(install: InstallConfig) -> None:
    """Log warnings: mirrors that the release is not in, certificates that cannot sign others."""
    if install.sources and not _has_release(install.sources):
        log.warning(
            "The imageDigestSources configuration in install-config.yaml should have at least one source field "
            "matching the releaseImage value %s",
            expected_release(),
        )
    for note in weak_certificates(install.additional_trust_bundle):
        log.warning(note)


def _has_release(sources: Iterable[ImageSource]) -> bool:
    name = repository_of(expected_release())
    return any(entry.mirrors and DigestSource(entry.source).covers(name) for entry in sources)


def _check_networks(install: InstallConfig, target: str) -> None:
    """Refuse networks as agent-cluster-install.yaml would be. Raises ConfigError."""
    if install.networking is not None:
        stage = f'failed to fetch dependency of "{target}": failed to generate asset "AgentClusterInstall Config"'
        problems = list(networks.errors(install.networking, install.masters + install.workers))
        raise_if_any(f"{stage}: invalid NetworkType configured", problems, INSTALL_CONFIG_FILE)


def _contradictions(inputs: Inputs) -> tuple[str, ...]:
    file, path = inputs.hosts_place
    networks_file = names.NMSTATE if Path(names.NMSTATE).name in (inputs.manifests or {}) else file
    where = {"file": file, "path": path, "networks_file": networks_file}
    return tuple(contradictions(inputs.install, inputs.hosts, inputs.rendezvous_ip, **where))


def _log_rendezvous(address: str) -> None:
    if address:
        log.info("The rendezvous host IP (node0 IP) is %s", address)


def _discard(files: InputFiles, target: str) -> None:
    """Warn of each file on disk that a newer config replaces.

    Raises AssetError for one that cannot be read, as for any other: whoever wrote it wants to know.
    """
    if not files.discarded:
        return
    from installer.manifests import mirror, read

    contents = {**files.on_disk.get(MANIFESTS, {}), **files.on_disk.get(MIRROR, {})}
    for path, asset in names.ASSETS.items():
        if path not in files.discarded:
            continue
        with loading(target, asset):
            if path in names.MIRROR:
                mirror.read_mirror({path: contents[path]})
            else:
                read.judge(path, contents, expected_release())
        log.warning(
            "Discarding the %s that was provided in the target directory because its dependencies are dirty and "
            "it needs to be regenerated",
            asset,
        )


def _consumed(files: InputFiles, manifests: dict[str, bytes], *, for_image: bool) -> dict[str, dict[str, bytes]]:
    """Return the state's new content, `manifests` with it; what newer configs replace goes out of it."""
    consumed = dict(files.on_disk)
    if manifests or files.install_changed or files.state.files(MANIFESTS):
        consumed[MANIFESTS] = manifests
    if files.install_changed:
        consumed[MIRROR] = {}
    if not for_image:
        consumed.pop(EXTRA_MANIFESTS, None)  # no manifest has these
    return consumed


def _agent_config(files: dict[str, bytes]) -> tuple[AgentConfig, str]:
    """Return the agent-config among the files and its text; an empty one without."""
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


def _with_mirror(inputs: Inputs, mirror_files: dict[str, bytes], files: InputFiles, target: str) -> Inputs:
    """Return the mirrors of mirror/ in the place of the install-config's."""
    sources, bundle = _mirror(mirror_files, files, target)
    install = replace(
        inputs.install, image_digest_sources=sources, image_content_sources=(), additional_trust_bundle=bundle
    )
    return replace(inputs, install=install, registries=mirror_files.get(names.REGISTRIES, b"").decode())


def _mirror(mirror_files: dict[str, bytes], files: InputFiles, target: str) -> tuple[tuple[Mirrors, ...], str]:
    """(mirrors, trust bundle) of mirror/; notes mirrors on disk that the release is not in. Raises AssetError."""
    from installer.manifests import mirror

    with files.blaming_state(MIRROR):
        try:
            sources, bundle = mirror.read_mirror(mirror_files)
        except ConfigError as error:
            asset = names.ASSETS[str(error.file)]
            raise AssetError(f'failed to fetch {target}: failed to load asset "{asset}"', error) from error
    if names.REGISTRIES in files.on_disk.get(MIRROR, {}) and sources and not _has_release(sources):
        log.warning("%s should have an entry matching the releaseImage %s", names.REGISTRIES, expected_release())
    return sources, bundle


def _from_manifests(files: InputFiles, target: str, *, for_image: bool) -> Inputs:
    """cluster-manifests/ and mirror/; agent-config.yaml besides, if there is one."""
    from installer.manifests import read, ztp  # not needed, and not read, where there are configs
    from installer.manifests.completed import completed

    if names.REQUIRED - files.manifests.keys() and files.state.files(INSTALL_CONFIG):
        files = _completed_from_configs(files, target)
    mirror_files = {**files.state.files(MIRROR), **files.on_disk.get(MIRROR, {})}
    with loading(target, "Agent Config"), files.blaming_state(AGENT_CONFIG):
        agent, agent_text = _agent_config(files.of(AGENT_CONFIG))
    with files.blaming_state(MANIFESTS):
        manifests = read.read_manifests(files.manifests, expected_release(), target)
    sources, bundle = _mirror(mirror_files, files, target)
    with loading(target):
        install = ztp.install_config(manifests, sources, bundle, _fencing(files))
        hosts = ztp.with_networks(agent.hosts, manifests)
        check_hosts(agent, hosts, install, counted=hosts[: len(agent.hosts)])
        rendezvous = choose(agent, hosts, needed=for_image)
    documents = _extra_manifests(files, target) if for_image else {}
    _log_consumed(files, MANIFESTS, AGENT_CONFIG)
    registries = mirror_files.get(names.REGISTRIES)
    return Inputs(
        install,
        agent,
        hosts,
        rendezvous,
        ntp_sources=tuple(agent.additional_ntp_sources or manifests.infra_env.spec.additional_ntp_sources),
        agent_text=agent_text,
        extra_manifests=documents,
        manifests={path.removeprefix(f"{names.DIRECTORY}/"): data for path, data in completed(manifests).items()},
        registries=None if registries is None else registries.decode(),
        # Manifests that are still in the state too: together they are one input.
        consumed=_consumed(files, files.manifests, for_image=for_image),
    )


def _completed_from_configs(files: InputFiles, target: str) -> InputFiles:
    """Return some manifests in the place of what the kept configs give, with all others, and mirror/, that these
    give."""
    from installer.manifests import cluster, mirror

    mirrors = files.on_disk.get(MIRROR, {})
    without_manifests = replace(files, on_disk={MIRROR: mirrors}, manifests={}, from_manifests=False)
    configs = _from_configs(without_manifests, target, for_image=False)
    install = with_rendezvous_in_no_proxy(configs.install, configs.rendezvous_ip)
    source = cluster.Inputs(
        install, configs.ntp_sources, configs.hosts, expected_release(), release_version=version("node0")
    )
    generated = {f"{names.DIRECTORY}/{name}": data for name, data in cluster.cluster_manifests(source).items()}
    on_disk = {**files.on_disk, MIRROR: {**mirror.mirror_files(install), **mirrors}}
    return replace(files, on_disk=on_disk, manifests={**generated, **files.manifests})


def _fencing(files: InputFiles) -> Fencing | None:
    """Return the fencing of the install-config that the manifests were made from: none of them has it."""
    data = files.of(INSTALL_CONFIG).get(INSTALL_CONFIG_FILE)
    if data is None:
        return None
    with files.blaming_state(INSTALL_CONFIG):
        pool = as_written(decoded_text(data, INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")).control_plane
    return pool.fencing if pool else None
