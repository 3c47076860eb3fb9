"""Files on the live host for every host of the inputs: keyfiles, hints, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from installer.common.formats.yamltext import dump
from installer.config.decode import camel
from installer.config.types.agent import Host
from installer.config.types.platform import RootDeviceHints
from installer.config.values.check import canonical_mac
from installer.errors import ConfigError, NetworkConfigError
from installer.ignition.live import HostFiles


def hints_fields(hints: RootDeviceHints | None) -> dict[str, Any]:
    """Return the hints that are set, under their own names."""
    values = {camel(field.name): getattr(hints, field.name) for field in fields(hints)} if hints else {}
    return {name: value for name, value in values.items() if value not in ("", None)}


def network_files(host: Host) -> dict[str, str]:
    """Keyfiles of a host with the map from its MAC addresses to the names in them (reference/installer.md §4.2)."""
    if host.network_config is None:
        return {}
    from installer.network import host_network_files

    nics = [{"name": nic.name, "macAddress": nic.mac_address} for nic in host.interfaces]
    return host_network_files(nics, host.network_config)


def host_files(hosts: Sequence[Host], target: str, *, required: int) -> list[HostFiles]:
    """Make the files for every host; `target` is for messages. The first `required` of them are those of the configs,
    the others those that only NMStateConfigs name. Raises ConfigError with the faulty network configs of all hosts."""
    files, errors = [], []
    for index, host in enumerate(hosts):
        network: dict[str, str] = {}
        try:
            network = network_files(host)
        except NetworkConfigError as error:
            errors += _of_host(f"hosts[{index}]", error)
        files.append(
            HostFiles(
                hostname=host.hostname,
                role=host.role,
                macs=tuple(canonical_mac(nic.mac_address) for nic in host.interfaces),
                root_device_hints=dump(hints) if (hints := hints_fields(host.root_device_hints)) else "",
                network=network,
                required=index < required,
            )
        )
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ConfigError(
            f'failed to fetch {target}: failed to generate asset "NMState Config": '
            f"staticNetwork configuration is not valid: {text}",
            file="agent-config.yaml",
        )
    return files


def _of_host(path: str, error: NetworkConfigError) -> list[str]:
    """Return the problems of one host, each with its path: those of its interfaces, and those of its document."""
    from installer.network import HOST, InvalidNetworkConfig

    if not isinstance(error, InvalidNetworkConfig):
        return [f"{path}.networkConfig: {error}"]
    texts = [str(problem) for problem in error.problems]
    own = [text for text in texts if text.startswith(f"{HOST}.")]
    document = "; ".join(text for text in texts if text not in own)
    return [
        *(f"{path}{text.removeprefix(HOST)}" for text in own),
        *([f"{path}.networkConfig: {document}"] if document else []),
    ]
