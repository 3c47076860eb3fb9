"""Per-host Ignition: the role's pointer config, the host's name and the user's overrides (cluster.md §3.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from installer.assisted.errors import PrepareError
from installer.formats import jsontext
from installer.ignition.merge import merge
from installer.rendezvous.store.model import Host


def data_url(text: str) -> str:
    """An RFC 2397 URL that carries ``text``."""
    return "data:," + quote(text)


def parse(text: bytes | str, source: str, read: Callable[[bytes | str], Any] = jsontext.loads) -> dict[str, Any]:
    """An Ignition config. Raises PrepareError unless it is an object with a version 3."""
    try:
        config = read(text)
        version = config["ignition"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PrepareError(source, f"not an Ignition config: {error!r}") from None
    if not isinstance(version, str) or not version.startswith("3."):
        raise PrepareError(source, f"Ignition version {version} is not 3.x")
    if not isinstance(config, dict):
        raise PrepareError(source, "not a JSON object")
    return config


def _file(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "mode": 0o644, "overwrite": True, "contents": {"source": data_url(text)}}


def chrony_conf(sources: Sequence[str]) -> str:
    """chrony.conf for the installed host, as the live host has it (installer.md §4.2)."""
    return "".join(f"server {source} iburst\n" for source in sources) + "makestep 1.0 3\nrtcsync\n"


def for_host(pointer: bytes, host: Host, source: str, ntp_sources: Sequence[str] = ()) -> bytes:
    """``<role>-<host id>.ign``: the pointer with /etc/hostname, time sources and the host's overrides merged in."""
    config = parse(pointer, source)
    files = [_file("/etc/hostname", host.user_hostname or host.requested_hostname)]
    if ntp_sources:
        files.append(_file("/etc/chrony.conf", chrony_conf(ntp_sources)))
    config = merge(config, {"storage": {"files": files}})
    if host.ignition_config_overrides:
        overrides = parse(host.ignition_config_overrides, f"ignition overrides of host {host.id}")
        version = max(config["ignition"]["version"], overrides["ignition"]["version"])
        config = merge(config, overrides)
        config["ignition"]["version"] = version
    return json.dumps(config, separators=(",", ":")).encode()
