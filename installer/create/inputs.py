"""Inputs from either source: install-config.yaml and agent-config.yaml, or cluster-manifests/ (reference §2.1).

An install-config.yaml on disk counts more than manifests, which would be made from it; else manifests on disk count
more than what earlier commands left in the state.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from installer.config import load
from installer.config.agent_types import AgentConfig
from installer.config.fielderror import raise_if_any
from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE, Inputs
from installer.config.rendezvous import choose
from installer.config.rules import agent as rules_agent
from installer.config.state import AGENT_CONFIG, EXTRA_MANIFESTS, INSTALL_CONFIG, MANIFESTS, MIRROR, State, blamed
from installer.create.release import expected_release
from installer.errors import AssetError, ConfigError, InstallerError
from installer.manifests import files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gathered:
    """The inputs; `manifests` (by file name) and `registries` as they were given, None where they are to be made.

    `discarded` are files on disk that newer inputs replace.
    """

    inputs: Inputs
    manifests: dict[str, bytes] | None = field(default=None, repr=False)
    registries: str | None = None
    discarded: tuple[str, ...] = ()

    @property
    def consumed(self) -> dict[str, dict[str, bytes]]:
        """What goes into the state, by asset."""
        return self.inputs.consumed


def _on_disk(directory: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for name in names:
        data = load._read(directory, name)
        if data is not None:
            found[name] = data
    return found


def gather(directory: Path, target: str) -> Gathered:
    """The validated inputs of a directory; `target` is for messages. Raises ConfigError, AssetError, StateError."""
    if not directory.is_dir():
        raise ConfigError(f"asset directory {directory} does not exist")
    state = State.load(directory)
    on_disk = _on_disk(directory, files.MANIFESTS)
    mirrors = _on_disk(directory, files.MIRROR)
    fresh = (directory / INSTALL_CONFIG_FILE).exists()
    if fresh:
        for name in (*on_disk, *mirrors):
            log.warning(
                "Discarding the %s that was provided in the target directory because its dependencies are dirty and "
                "it needs to be regenerated",
                name,
            )
        inputs = load.load_inputs(directory, target)
        inputs.consumed.update({MANIFESTS: {}, MIRROR: {}})
        return Gathered(inputs, discarded=(*on_disk, *mirrors))
    kept = state.files(MANIFESTS)
    given = {**kept, **on_disk}
    if on_disk and files.NMSTATE not in on_disk:
        given.pop(files.NMSTATE, None)  # an optional file that the user took away
    mirror_given = {**state.files(MIRROR), **mirrors}
    stale = (directory / AGENT_CONFIG_FILE).exists() and state.files(INSTALL_CONFIG) and not on_disk
    if given and not stale:
        return _from_manifests(directory, state, target, on_disk, given, mirrors, mirror_given)
    gathered = Gathered(load.load_inputs(directory, target))
    if stale:
        gathered.consumed[MANIFESTS] = {}
    with blamed(state.path, kept=not mirrors):
        return _with_mirror(gathered, mirrors, mirror_given)


def _with_mirror(gathered: Gathered, on_disk: dict[str, bytes], given: dict[str, bytes]) -> Gathered:
    """An install-config from the state, with mirror/ that the user has edited since."""
    if on_disk:
        gathered.consumed[MIRROR] = on_disk
    if not given:
        return gathered
    from installer.manifests import mirror

    sources, bundle = mirror.read_mirror(given)
    install = replace(
        gathered.inputs.install,
        image_digest_sources=sources,
        image_content_sources=(),
        additional_trust_bundle=bundle,
    )
    registries = given.get(files.REGISTRIES, b"").decode()
    return replace(gathered, inputs=replace(gathered.inputs, install=install), registries=registries)


def _from_manifests(
    directory: Path,
    state: State,
    target: str,
    on_disk: dict[str, bytes],
    given: dict[str, bytes],
    mirrors: dict[str, bytes],
    mirror_given: dict[str, bytes],
) -> Gathered:
    from installer.manifests import mirror, read, ztp  # not needed, and not read, where there are configs

    with blamed(state.path, kept=not on_disk):
        manifests = read.read_manifests(given, expected_release(), target)
    consumed = {name: files for name, files in ((MANIFESTS, on_disk), (MIRROR, mirrors)) if files}
    try:
        with blamed(state.path, kept=not mirrors):
            sources, bundle = mirror.read_mirror(mirror_given)
        install = ztp.install_config(manifests, sources, bundle)
        raw = load._read(directory, AGENT_CONFIG_FILE)
        if raw is not None:
            consumed[AGENT_CONFIG] = {AGENT_CONFIG_FILE: raw}
        else:
            raw = state.files(AGENT_CONFIG).get(AGENT_CONFIG_FILE)
        with blamed(state.path, kept=AGENT_CONFIG not in consumed):
            agent_text = load._text(raw, AGENT_CONFIG_FILE) if raw is not None else ""
            agent = load.parse_agent_config(agent_text) if raw is not None else AgentConfig()
        hosts = ztp.with_networks(agent.hosts, manifests)
        named = hosts[: len(agent.hosts)]
        raise_if_any("invalid Hosts configuration", list(rules_agent.hosts(agent, hosts)), AGENT_CONFIG_FILE)
        replicas = {"master": install.masters, "arbiter": install.arbiters, "worker": install.workers}
        errors, warnings = rules_agent.host_counts(named, replicas)
        for warning in warnings:
            log.warning(warning)
        raise_if_any("invalid Hosts configuration", errors, AGENT_CONFIG_FILE)
        extra_files = load._extra_manifests(directory)
        if extra_files:
            consumed[EXTRA_MANIFESTS] = extra_files
        with blamed(state.path, kept=not extra_files):
            extra = load._split(extra_files or state.files(EXTRA_MANIFESTS))
        rendezvous = choose(agent, hosts)
    except InstallerError as error:
        raise AssetError(f"failed to fetch {target}", error) from error
    for asset, label in ((MANIFESTS, "Agent Manifests"), (AGENT_CONFIG, "Agent Config")):
        if asset in consumed:
            log.info("Consuming %s from target directory", label)
    log.info("The rendezvous host IP (node0 IP) is %s", rendezvous)
    ntp = agent.additional_ntp_sources or manifests.infra_env.spec.additional_ntp_sources
    if consumed.get(MANIFESTS):
        consumed[MANIFESTS] = given
    inputs = Inputs(install, agent, hosts, rendezvous, tuple(ntp), agent_text, extra, consumed)
    texts = {name.removeprefix(f"{files.DIRECTORY}/"): data for name, data in given.items()}
    registries = mirror_given[files.REGISTRIES].decode() if files.REGISTRIES in mirror_given else None
    return Gathered(inputs, texts, registries)
