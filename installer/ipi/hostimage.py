"""Live systems that make machines part of a cluster: of a host, which writes its disk, and of the bootstrap machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from installer.config.types.install import InstallConfig
from installer.config.types.platform import BareMetalHost, RootDeviceHints
from installer.create.stages.hosts import hints_fields
from installer.errors import ConfigError, NetworkConfigError
from installer.ignition.config import File, Unit, User, render
from installer.image.artifacts import LiveChanges, write_iso
from installer.network import keyfiles

FOLDER = "/etc/node0-install"
CONNECTIONS = "/etc/NetworkManager/system-connections"
_UNIT = f"""\
[Unit]
Description=Install this host as its root device hints say
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/bin/bash {FOLDER}/install-host.sh
StandardOutput=journal+console
StandardError=journal+console
Restart=on-failure
RestartSec=30

[Install]
WantedBy=multi-user.target
"""


def networks(host: BareMetalHost, place: str) -> dict[str, str]:
    """Return the keyfiles of a host's networkConfig. Raises ConfigError, which names the field."""
    try:
        return keyfiles(host.network_config) if host.network_config else {}
    except NetworkConfigError as error:
        raise ConfigError(f"{place}.networkConfig: {error}") from error


def host_config(
    pointer: bytes,
    name: str,
    hints: RootDeviceHints | None,
    *,
    connections: Mapping[str, str],
    ssh_key: str,
) -> bytes:
    """Return the live system's Ignition config of a host; `pointer` is its pool's, as the payload's program made it."""
    files = [
        File.text(f"{FOLDER}/hints.json", json.dumps(hints_fields(hints))),
        File(f"{FOLDER}/config.ign", named(pointer, name), 0o600),
        *(File(f"{FOLDER}/{script}", _data(script)) for script in ("install-host.sh", "choose-disk.jq")),
        *(File.text(f"{CONNECTIONS}/{file}", text, 0o600) for file, text in connections.items()),
    ]
    if connections:
        files.append(File(f"{FOLDER}/copy-network", b""))
    return render(files, [Unit("node0-install-host.service", _UNIT)], _logins(ssh_key))


def named(pointer: bytes, name: str) -> bytes:
    """Return a pool's Ignition config with the host's name, by which its node is known; empty leaves it to DHCP."""
    config: dict[str, Any] = json.loads(pointer)
    if name:
        entry = File.text("/etc/hostname", f"{name}\n").entry()
        config.setdefault("storage", {}).setdefault("files", []).append(entry)
    return json.dumps(config).encode()


def bootstrap_config(config: bytes, connections: Mapping[str, str]) -> bytes:
    """Return the bootstrap machine's Ignition config with its networks."""
    document: dict[str, Any] = json.loads(config)
    entries = [File.text(f"{CONNECTIONS}/{file}", text, 0o600).entry() for file, text in connections.items()]
    document.setdefault("storage", {}).setdefault("files", []).extend(entries)
    return json.dumps(document).encode()


def write(base: Path, target: Path, ignition: bytes, install: InstallConfig) -> None:
    """Write the ISO of a machine. Raises IsoError."""
    from installer.create.stages.render import kernel_arguments

    write_iso(base, target, LiveChanges(ignition, kernel_arguments(install)))


def _logins(ssh_key: str) -> list[User]:
    keys = tuple(line for line in ssh_key.splitlines() if line.strip())
    return [User("core", keys)] if keys else []


def _data(name: str) -> bytes:
    return resources.files("installer.ipi").joinpath("data", name).read_bytes()
