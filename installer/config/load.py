"""From the texts of install-config and agent-config to validated types."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import yaml

from installer.common.formats import YamlError
from installer.common.formats.composer import decoded
from installer.common.formats.yamltext import compose
from installer.config import defaults, notes, prerelease
from installer.config.decode import decode
from installer.config.fielderror import aggregate, raise_if_any
from installer.config.rules import agent as rules_agent
from installer.config.rules import catalogue as rules
from installer.config.types.agent import AgentConfig, Host
from installer.config.types.install import InstallConfig
from installer.errors import INSTALL_CONFIG_MARKER, ConfigError

log = logging.getLogger(__name__)

INSTALL_CONFIG_FILE = "install-config.yaml"
AGENT_CONFIG_FILE = "agent-config.yaml"
# Set by programs that write install-configs for several versions of the installer: fields that this one does not know
# are ignored then.
INVOKER = "OPENSHIFT_INSTALL_INVOKER"

T = TypeVar("T")


def parse_install_config(text: str) -> InstallConfig:
    """Decode, convert, default and validate an install-config; ConfigError names all that is wrong."""
    written = decode_file(text, InstallConfig, INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ", warn=True)
    config, errors = defaults.upconvert(written)
    raise_if_any(f"{INSTALL_CONFIG_MARKER}: failed to upconvert install config", errors, INSTALL_CONFIG_FILE)
    config = defaults.apply(config)
    errors = rules.run(config)
    notes.log_notes(written, config)
    log.info(
        "Configuration has %d master replicas, %d arbiter replicas, and %d worker replicas",
        config.masters,
        config.arbiters,
        config.workers,
    )
    raise_if_any("invalid install-config configuration", errors, INSTALL_CONFIG_FILE)
    return defaults.by_role(config)


def parse_agent_config(text: str) -> AgentConfig:
    """Decode and validate an agent-config, its hosts apart. Raises ConfigError."""
    config = decode_file(text, AgentConfig, AGENT_CONFIG_FILE, "", convert=prerelease.current_form, warn=True)
    version = rules_agent.version(config)
    if version is not None:
        raise ConfigError(str(version), file=AGENT_CONFIG_FILE)
    raise_if_any("invalid Agent Config configuration", list(rules_agent.agent_config(config)), AGENT_CONFIG_FILE)
    return config


def decode_file(
    text: str,
    cls: type[T],
    file: str,
    wrap: str,
    *,
    convert: Callable[[yaml.Node], yaml.Node] | None = None,
    warn: bool = False,
) -> T:
    """Decode an input file, called `file` in messages, which begin with `wrap`; `convert` makes older forms today's,
    `warn` of changes of spelling. Raises ConfigError with all that is wrong."""
    try:
        node = compose(text)
        if node is not None and convert is not None:
            node = convert(node)
    except YamlError as error:
        raise ConfigError(f"{wrap}failed to unmarshal {file}: {error}", file=file) from error
    if node is None:
        return cls()  # an empty file has no version either
    value, problems = decode(node, cls, (lambda change: log.warning("%s: %s", file, change)) if warn else None)
    if problems:
        message = f"failed to unmarshal {file}: {aggregate([str(item) for item in problems])}"
        if file == INSTALL_CONFIG_FILE and any(problem.unknown for problem in problems):
            message = f"failed to parse first occurrence of unknown field: {message}"
            if os.environ.get(INVOKER) and all(problem.unknown for problem in problems):
                log.warning(message)
                log.info("Attempting to unmarshal while ignoring unknown keys because strict unmarshaling failed")
                return value
        raise ConfigError(f"{wrap}{message}", file=file)
    return value


def as_written(text: str) -> InstallConfig:
    """Return an install-config that was validated before, without its defaults. Raises ConfigError."""
    return decode_file(text, InstallConfig, INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: ")


def resolve_hosts(install: InstallConfig, agent: AgentConfig) -> tuple[Host, ...]:
    """agent-config's hosts, or else install-config's; validated, and counted against the replicas."""
    hosts = agent.hosts
    baremetal = install.platform.baremetal
    if baremetal is not None and baremetal.hosts:
        if hosts:
            log.warning("hosts from install-config.yaml are ignored")
        else:
            hosts = rules_agent.install_config_hosts(baremetal)
    check_hosts(agent, hosts, install, counted=hosts)
    return hosts


def check_hosts(agent: AgentConfig, hosts: Sequence[Host], install: InstallConfig, *, counted: Sequence[Host]) -> None:
    """Validate hosts, and hold the `counted` ones against the replicas. Raises ConfigError."""
    raise_if_any("invalid Hosts configuration", list(rules_agent.hosts(agent, hosts)), AGENT_CONFIG_FILE)
    replicas = {"master": install.masters, "arbiter": install.arbiters, "worker": install.workers}
    errors, warnings = rules_agent.host_counts(counted, replicas)
    for warning in warnings:
        log.warning(warning)
    raise_if_any("invalid Hosts configuration", errors, AGENT_CONFIG_FILE)


def decoded_text(data: bytes, name: str, wrap: str = "") -> str:
    """Return the text of the file `name`; `wrap` begins the error. Raises ConfigError for what is not UTF-8."""
    try:
        return decoded(data)
    except YamlError as error:
        raise ConfigError(f"{wrap}failed to unmarshal {name}: {error.text}", file=name) from error
