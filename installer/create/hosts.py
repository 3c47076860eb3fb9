"""What is written to the live host for every host of the inputs (reference/installer.md §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml

from installer.config.agent_types import Host
from installer.config.decode import camel
from installer.config.types import RootDeviceHints
from installer.errors import ConfigError, NetworkConfigError
from installer.ignition.live import HostFiles


def hints_yaml(hints: RootDeviceHints | None) -> str:
    """root-device-hints.yaml: the hints that are set, under the names that they have in agent-config."""
    if hints is None:
        return ""
    given: dict[str, Any] = {camel(name): value for name, value in asdict(hints).items() if value not in ("", None)}
    return yaml.safe_dump(given, sort_keys=False) if given else ""


def host_files(hosts: Sequence[Host]) -> list[HostFiles]:
    """The files of every host. Raises ConfigError that names all faulty network configs."""
    from installer.network import host_network_files

    files, errors = [], []
    for index, host in enumerate(hosts):
        network: dict[str, str] = {}
        if host.network_config:
            nics = [{"name": nic.name, "macAddress": nic.mac_address} for nic in host.interfaces]
            try:
                network = host_network_files(nics, host.network_config)
            except NetworkConfigError as error:
                errors.append(f"hosts[{index}].networkConfig: {error}")
        files.append(
            HostFiles(
                hostname=host.hostname,
                role=host.role,
                macs=tuple(nic.mac_address for nic in host.interfaces),
                root_device_hints=hints_yaml(host.root_device_hints),
                network=network,
            )
        )
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ConfigError(f"staticNetwork configuration is not valid: {text}", file="agent-config.yaml")
    return files
