"""nodes-config.yaml, or the options that stand for one host in it: hosts to be added (reference/add-nodes.md §1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from installer.common.formats import YamlError
from installer.common.formats.yamltext import dump, load
from installer.common.inputs import read_input
from installer.config.decode import key
from installer.config.fielderror import FieldError, invalid, raise_if_any, required, unsupported
from installer.config.load import decode_file, decoded_text
from installer.config.rules import agent as rules
from installer.config.types.agent import AgentConfig, Host
from installer.config.types.install import ObjectMeta, TypeName
from installer.config.values import check
from installer.errors import ConfigError

FILE = "nodes-config.yaml"
#: The source of a host that options describe, in messages.
OPTIONS = "command line"
ROLES = ("worker", "master")
#: The release's names of architectures, by every spelling that is accepted.
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
#: The NIC of the options' host, as its network config calls it.
NIC = "eth0"
#: The hints whose values are not strings.
_TYPED_HINTS = ("minSizeGigabytes", "rotational")


@dataclass(frozen=True)
class NodesConfig:
    """nodes-config.yaml. Empty time sources, `ssh_key` and `cpu_architecture` stand for the cluster's."""

    hosts: tuple[Host, ...] = ()
    _: KW_ONLY
    api_version: TypeName = ""
    kind: TypeName = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    cpu_architecture: str = ""
    ssh_key: str = ""
    additional_ntp_sources: tuple[str, ...] = key("additionalNTPSources", default=())


@dataclass(frozen=True, kw_only=True)
class OneHost:
    """The options of a single host; empty where they are not used."""

    mac_address: str = ""
    cpu_architecture: str = ""
    ssh_key_path: str = ""
    hostname: str = ""
    root_device_hint: str = ""
    network_config_path: str = ""

    def text(self) -> str:
        """Return the nodes-config.yaml that says the same. Raises ConfigError for all that cannot be read."""
        problems: list[str] = []
        host: dict[str, Any] = {"interfaces": [{"name": NIC, "macAddress": self.mac_address}]}
        if self.hostname:
            host["hostname"] = self.hostname
        if self.root_device_hint:
            name, colon, value = self.root_device_hint.partition(":")
            try:
                host["rootDeviceHints"] = {name: load(value) if name in _TYPED_HINTS else value}
            except YamlError as error:
                problems.append(f"--root-device-hint {self.root_device_hint!r}: {error.text}")
            if not (colon and name and value):
                problems.append(f"--root-device-hint {self.root_device_hint!r} must be NAME:VALUE")
        document: dict[str, Any] = {"hosts": [host]}
        if self.cpu_architecture:
            document["cpuArchitecture"] = self.cpu_architecture
        if self.ssh_key_path:
            document["sshKey"] = _read(self.ssh_key_path, "--ssh-key-path", problems).strip()
        if self.network_config_path:
            text = _read(self.network_config_path, "--network-config-path", problems)
            try:
                host["networkConfig"] = load(text)
            except YamlError as error:
                problems.append(f"--network-config-path {self.network_config_path}: {error}")
        if problems:
            raise ConfigError("; ".join(problems))
        return dump(document)


def _read(path: str, option: str, problems: list[str]) -> str:
    try:
        return decoded_text(read_input(Path(path)), path)
    except OSError as error:
        problems.append(f"{option} {path}: {error.strerror or error}")
    except ConfigError as error:
        problems.append(f"{option}: {error}")
    return ""


def read(directory: Path, options: OneHost) -> tuple[NodesConfig, str]:
    """Return the hosts that the options describe, or else those of nodes-config.yaml in the directory, and where they
    are described. Raises ConfigError with all that is wrong."""
    if options.mac_address:
        return parse(options.text(), OPTIONS), OPTIONS
    path = directory / FILE
    try:
        data = read_input(path)
    except OSError as error:
        hint = "; describe the hosts there, or one by --mac-address" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{path}: {error.strerror or error}{hint}", file=FILE) from error
    return parse(decoded_text(data, FILE), FILE), FILE


def parse(text: str, source: str) -> NodesConfig:
    """Decode and validate a nodes-config. Raises ConfigError."""
    config = decode_file(text, NodesConfig, source, "")
    raise_if_any("invalid nodes configuration", list(_problems(config)), source)
    return config


def _problems(config: NodesConfig) -> Iterator[FieldError]:
    if config.api_version not in ("", rules.API_VERSION, "v1alpha1"):
        yield unsupported("apiVersion", config.api_version, [rules.API_VERSION])
    if not config.hosts:
        yield required("hosts", "at least one host must be defined")
    if config.cpu_architecture and config.cpu_architecture not in ARCHITECTURES:
        yield unsupported("cpuArchitecture", config.cpu_architecture, ARCHITECTURES)
    for line in filter(None, config.ssh_key.split("\n")):
        if problem := check.ssh_key(line):
            yield invalid("sshKey", check.without_private_key(line), problem)
    own = AgentConfig(additional_ntp_sources=config.additional_ntp_sources)
    yield from rules.agent_config(own)
    yield from rules.hosts(own, config.hosts)
    names: dict[str, int] = {}
    for index, host in enumerate(config.hosts):
        if host.role == "arbiter":
            yield unsupported(f"hosts[{index}].role", host.role, ROLES)
        if host.hostname and (problem := check.domain(host.hostname.lower())):
            yield invalid(f"hosts[{index}].hostname", host.hostname, problem)
        if host.hostname and names.setdefault(host.hostname.lower(), index) != index:
            yield invalid(f"hosts[{index}].hostname", host.hostname, f"hosts[{names[host.hostname.lower()]}] has it")


@dataclass(frozen=True)
class Member:
    """A node of the cluster: its addresses, and the MAC addresses (canonical) that the cluster knows of it."""

    addresses: frozenset[str]
    macs: frozenset[str] = frozenset()


def present(hosts: tuple[Host, ...], members: Mapping[str, Member]) -> Iterator[FieldError]:
    """Yield a problem for each name, address and MAC address of a host that a node of the cluster has."""
    for index, host in enumerate(hosts):
        path = f"hosts[{index}]"
        if host.hostname.lower() in members:
            yield invalid(f"{path}.hostname", host.hostname, "a node of the cluster has this name")
        for name, member in members.items():
            for address in rules.static_addresses(host):
                if address in member.addresses:
                    yield invalid(f"{path}.networkConfig", address, f"node {name} of the cluster has this address")
            for number, nic in enumerate(host.interfaces):
                if check.canonical_mac(nic.mac_address) in member.macs:
                    where = f"{path}.interfaces[{number}].macAddress"
                    yield invalid(where, nic.mac_address, f"node {name} of the cluster has this MAC address")
