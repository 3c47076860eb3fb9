"""Per-host Ignition: the role's pointer config, the host's name and the user's overrides (cluster.md §3.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from installer.assisted.errors import PrepareError
from installer.common.formats import jsontext
from installer.common.ignition import merge
from installer.ignition import validation
from installer.ignition.rules import VERSIONS
from installer.rendezvous.store.model import Host

# Problems that an error names.
MOST = 20

# Of what an installer made: no more than what is read here, since it may be of a later version than is known here.
_VERSION = re.compile(r"3\.[0-9]{1,9}\.[0-9]{1,9}")


def data_url(text: str) -> str:
    """Return an RFC 2397 URL that carries ``text``."""
    return "data:," + quote(text)


def parse(text: bytes | str, source: str) -> dict[str, Any]:
    """Return an Ignition config of a version 3, which a program made. Raises PrepareError."""
    try:
        config: dict[str, Any] = jsontext.loads(text)
        if not _VERSION.fullmatch(config["ignition"]["version"]):
            raise ValueError("its version is none of Ignition 3")
    except ValueError as error:
        raise PrepareError(source, f"not an Ignition config: {error}") from None
    except (KeyError, TypeError):
        raise PrepareError(source, "not an Ignition config: it has no ignition.version") from None
    return config


def overrides(text: str, source: str) -> dict[str, Any]:
    """Return an Ignition config that a user gave. Raises PrepareError with all that Ignition itself would refuse."""
    try:
        config: dict[str, Any] = jsontext.parsed(text)
    except ValueError as error:
        raise PrepareError(source, f"not an Ignition config: {error}") from None
    check(config, source)
    return config


def check(config: dict[str, Any], source: str) -> None:
    """Raise PrepareError for a config that Ignition would refuse."""
    if problems := validation.problems(config):
        more = f"; and {len(problems) - MOST} more" if len(problems) > MOST else ""
        raise PrepareError(source, f"not an Ignition config: {'; '.join(problems[:MOST])}{more}")


def overridden(config: dict[str, Any], wanted: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a config with overrides merged in, of the later version of the two. Raises PrepareError where they
    conflict."""
    version = max((item["ignition"]["version"] for item in (config, wanted)), key=_numbers)
    merged: dict[str, Any] = merge(config, wanted)
    merged["ignition"]["version"] = version
    if version in VERSIONS:
        check(merged, source)
    return merged


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


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
        source_name = f"ignition overrides of host {host.id}"
        config = overridden(config, overrides(host.ignition_config_overrides, source_name), source_name)
    return json.dumps(config, separators=(",", ":")).encode()
