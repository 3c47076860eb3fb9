"""From an asset directory to validated inputs; nothing on disk is changed here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

from installer.config import defaults, notes, prerelease
from installer.config.agent_types import AgentConfig, Host
from installer.config.decode import decode
from installer.config.fielderror import FieldError, aggregate, invalid, raise_if_any, required
from installer.config.rendezvous import choose
from installer.config.rules import agent as rules_agent
from installer.config.rules import catalogue as rules
from installer.config.state import AGENT_CONFIG, EXTRA_MANIFESTS, INSTALL_CONFIG, State, blamed
from installer.config.types import InstallConfig
from installer.errors import INSTALL_CONFIG_MARKER, AssetError, ConfigError, InstallerError
from installer.inputs import read_input
from installer.yamltext import YamlError, compose, dump, load_all

log = logging.getLogger(__name__)

INSTALL_CONFIG_FILE = "install-config.yaml"
AGENT_CONFIG_FILE = "agent-config.yaml"
MANIFESTS_DIR = "openshift"
OLD_DIR = "cluster-manifests"

_LABELS = {INSTALL_CONFIG: "Install Config", AGENT_CONFIG: "Agent Config", EXTRA_MANIFESTS: "Extra Manifests"}

T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """What the user gave, validated.

    agent_text is agent-config.yaml as it was written, empty without one. extra_manifests: the documents of openshift/,
    each under the name that it has on the live host. consumed: files that are on disk now and belong into the state,
    by asset. ntp_sources and rendezvous_ip are what follows from both configs.
    """

    install: InstallConfig
    agent: AgentConfig
    hosts: tuple[Host, ...]
    rendezvous_ip: str
    ntp_sources: tuple[str, ...]
    agent_text: str = field(default="", repr=False)
    extra_manifests: dict[str, bytes] = field(default_factory=dict, repr=False)
    consumed: dict[str, dict[str, bytes]] = field(default_factory=dict)


def parse_install_config(text: str) -> InstallConfig:
    """Decode, convert, default and validate an install-config; ConfigError names all that is wrong."""
    config = _decode(text, InstallConfig, INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")
    config, errors = defaults.upconvert(config)
    if not config.api_version:
        raise_if_any(
            "invalid install-config configuration", [required("apiVersion", "install-config version required")]
        )
    if config.api_version != "v1":
        problem = invalid("apiVersion", config.api_version, 'install-config version must be "v1"')
        raise_if_any("invalid install-config configuration", [problem])
    given, config = config, defaults.apply(config)
    errors += rules.run(config)
    notes.log_all(given, config)
    log.info(
        "Configuration has %d master replicas, %d arbiter replicas, and %d worker replicas",
        config.masters,
        config.arbiters,
        config.workers,
    )
    raise_if_any("invalid install-config configuration", errors, INSTALL_CONFIG_FILE)
    return config


def parse_agent_config(text: str) -> AgentConfig:
    """Decode and validate an agent-config, its hosts apart. Raises ConfigError."""
    config = _decode(text, AgentConfig, AGENT_CONFIG_FILE, "", prerelease.current_form)
    raise_if_any("invalid Agent Config configuration", list(rules_agent.agent_config(config)), AGENT_CONFIG_FILE)
    return config


def _decode(
    text: str, cls: type[T], file: str, wrap: str, convert: Callable[[yaml.Node], yaml.Node] | None = None
) -> T:
    try:
        node = compose(text)
        if node is not None and convert is not None:
            node = convert(node)
    except YamlError as error:
        raise ConfigError(f"{wrap}failed to unmarshal {file}: {error}", file=file) from error
    if node is None:
        raise ConfigError(f"{wrap}failed to unmarshal {file}: the file is empty", file=file)
    value, problems = decode(node, cls)
    if problems:
        raise ConfigError(f"{wrap}failed to unmarshal {file}: {aggregate([str(item) for item in problems])}", file=file)
    return value


def resolve_hosts(install: InstallConfig, agent: AgentConfig) -> tuple[Host, ...]:
    """agent-config's hosts, or else install-config's; validated, and counted against the replicas."""
    hosts = agent.hosts
    baremetal = install.platform.baremetal
    if baremetal is not None and baremetal.hosts:
        if hosts:
            log.warning("hosts from install-config.yaml are ignored: agent-config.yaml has hosts")
        else:
            hosts = rules_agent.install_config_hosts(baremetal)
    problems: list[FieldError] = list(rules_agent.hosts(agent, hosts))
    raise_if_any("invalid Hosts configuration", problems, AGENT_CONFIG_FILE)
    replicas = {"master": install.masters, "arbiter": install.arbiters, "worker": install.workers}
    errors, warnings = rules_agent.host_counts(hosts, replicas)
    for warning in warnings:
        log.warning(warning)
    raise_if_any("invalid Hosts configuration", errors, AGENT_CONFIG_FILE)
    return hosts


def _near(directory: Path) -> str:
    """The first description of this installer had its users put the configs where now the manifests are."""
    misplaced = [name for name in (INSTALL_CONFIG_FILE, AGENT_CONFIG_FILE) if (directory / OLD_DIR / name).exists()]
    if not misplaced:
        return ""
    return f"; {' and '.join(f'{OLD_DIR}/{name}' for name in misplaced)} must be moved to {directory} to be read"


def _read(directory: Path, name: str, wrap: str = "") -> bytes | None:
    try:
        return read_input(directory / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{wrap}failed to load {name} file: {error.strerror or error}", file=name) from error


def _text(data: bytes, name: str, wrap: str = "") -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{wrap}failed to unmarshal {name}: not UTF-8 text at byte {error.start}", file=name
        ) from error


def _extra_manifests(directory: Path) -> dict[str, bytes]:
    folder = directory / MANIFESTS_DIR
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"failed to load {MANIFESTS_DIR}: {error.strerror or error}", file=MANIFESTS_DIR) from error
    found = {}
    for path in paths:
        name = f"{MANIFESTS_DIR}/{path.name}"
        if path.suffix in (".yaml", ".yml"):
            data = _read(directory, name)
            if data is None:
                raise ConfigError(f"failed to load {name} file: it is a link that leads nowhere", file=name)
            found[name] = data
        elif not path.name.startswith("."):
            log.warning("%s is ignored: extra manifests end in .yaml or .yml", name)
    return found


def _split(files: dict[str, bytes]) -> dict[str, bytes]:
    """Each document as a file of its own: <base>-<n><ext>, n from 0 (reference §2.1)."""
    documents: dict[str, bytes] = {}
    for name, data in files.items():
        path = Path(name)
        try:
            for number, document in enumerate(load_all(_text(data, name))):
                if not isinstance(document, dict) or not document.get("kind"):
                    raise ConfigError(f"{name}: document {number} is not a manifest: it has no kind", file=name)
                documents[f"{path.stem}-{number}{path.suffix}"] = dump(document).encode()
        except YamlError as error:
            raise ConfigError(f"failed to unmarshal {name}: {error}", file=name) from error
    return documents


def load_inputs(directory: Path, target: str) -> Inputs:
    """Read and validate the inputs in `directory`, those consumed earlier from its state; `target` is for messages."""
    if not directory.is_dir():
        raise ConfigError(f"asset directory {directory} does not exist")
    state = State.load(directory)
    consumed: dict[str, dict[str, bytes]] = {}
    found: dict[str, dict[str, bytes]] = {}
    for asset, label, name in (
        (INSTALL_CONFIG, "Install Config", INSTALL_CONFIG_FILE),
        (AGENT_CONFIG, "Agent Config", AGENT_CONFIG_FILE),
    ):
        with _asset(target, label):
            data = _read(directory, name, f"{INSTALL_CONFIG_MARKER}: " if asset == INSTALL_CONFIG else "")
        if data is not None:
            consumed[asset] = {name: data}
        given = consumed.get(asset) or state.files(asset)
        if not given and asset == INSTALL_CONFIG:
            raise AssetError(
                f'failed to fetch {target}: failed to load asset "{label}"',
                ConfigError(
                    f"missing configuration or manifest file: {directory / name} does not exist{_near(directory)}"
                ),
            )
        found[asset] = given
    manifests = _extra_manifests(directory)
    if manifests:
        consumed[EXTRA_MANIFESTS] = manifests
    found[EXTRA_MANIFESTS] = manifests or state.files(EXTRA_MANIFESTS)

    with _asset(target, "Install Config"), blamed(state.path, kept=INSTALL_CONFIG not in consumed):
        install = parse_install_config(
            _text(found[INSTALL_CONFIG][INSTALL_CONFIG_FILE], INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")
        )
    with _asset(target, "Agent Config"), blamed(state.path, kept=AGENT_CONFIG not in consumed):
        raw = found[AGENT_CONFIG].get(AGENT_CONFIG_FILE)
        agent_text = _text(raw, AGENT_CONFIG_FILE) if raw is not None else ""
        agent = parse_agent_config(agent_text) if raw is not None else AgentConfig()
    all_kept = not consumed.keys() & {INSTALL_CONFIG, AGENT_CONFIG}
    with _asset(target, "Agent Hosts"), blamed(state.path, kept=all_kept):
        hosts = resolve_hosts(install, agent)
    with _asset(target, "Extra Manifests"), blamed(state.path, kept=not manifests):
        extra = _split(found[EXTRA_MANIFESTS])
    for label, files in (
        ("Install Config", consumed.get(INSTALL_CONFIG)),
        ("Agent Config", consumed.get(AGENT_CONFIG)),
    ):
        if files:
            log.info("Consuming %s from target directory", label)
    with _asset(target, "Agent Installer Ignition"), blamed(state.path, kept=all_kept):
        rendezvous = choose(agent, hosts)
    log.info("The rendezvous host IP (node0 IP) is %s", rendezvous)
    baremetal = install.platform.baremetal
    ntp = agent.additional_ntp_sources or (baremetal.additional_ntp_servers if baremetal else ())
    return Inputs(install, agent, hosts, rendezvous, tuple(ntp), agent_text, extra, consumed)


class _asset:
    """Wrap errors with the name of the asset that could not be loaded."""

    def __init__(self, target: str, name: str) -> None:
        self._wrap = f'failed to fetch {target}: failed to load asset "{name}"'

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InstallerError):
            raise AssetError(self._wrap, error) from error
