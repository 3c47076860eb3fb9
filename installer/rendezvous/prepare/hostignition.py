"""Per-host Ignition: the role's pointer config, the host's name and the user's overrides (cluster.md §3.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from installer.assisted import plainjson
from installer.assisted.errors import PrepareError
from installer.formats import jsontext
from installer.ignition.merge import merge
from installer.rendezvous.store.model import Host, Private

Objects = list[dict[str, Any]] | None


class _Ignition(Private, frozen=True, gc=False):
    version: Annotated[str, msgspec.Meta(pattern=r"^3\.[0-9]{1,9}\.[0-9]{1,9}\Z")]


class _Storage(Private, frozen=True, gc=False, kw_only=True):
    disks: Objects = None
    raid: Objects = None
    filesystems: Objects = None
    files: Objects = None
    directories: Objects = None
    links: Objects = None
    luks: Objects = None


class _Systemd(Private, frozen=True, gc=False):
    units: Objects = None


class _Passwd(Private, frozen=True, gc=False):
    users: Objects = None
    groups: Objects = None


class _Config(Private, frozen=True, gc=False):
    """A config as far as every version 3 of Ignition has it; what else is there Ignition itself judges."""

    ignition: _Ignition
    storage: _Storage | None = None
    systemd: _Systemd | None = None
    passwd: _Passwd | None = None


def data_url(text: str) -> str:
    """An RFC 2397 URL that carries ``text``."""
    return "data:," + quote(text)


def parse(text: bytes | str, source: str, read: Callable[[bytes | str], Any] = jsontext.loads) -> dict[str, Any]:
    """An Ignition config of a version 3. Raises PrepareError for what Ignition would not read."""
    try:
        config: dict[str, Any] = read(text)
        msgspec.convert(config, _Config)
    except msgspec.ValidationError as error:
        raise PrepareError(source, f"not an Ignition config: {plainjson.in_words(error, 'it')}") from None
    except (ValueError, RecursionError) as error:
        raise PrepareError(source, f"not an Ignition config: {error}") from None
    return config


def overridden(config: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """A config with overrides merged in, of the later version of the two."""
    version = max((item["ignition"]["version"] for item in (config, overrides)), key=_numbers)
    merged: dict[str, Any] = merge(config, overrides)
    merged["ignition"]["version"] = version
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
        overrides = parse(host.ignition_config_overrides, f"ignition overrides of host {host.id}")
        config = overridden(config, overrides)
    return json.dumps(config, separators=(",", ":")).encode()
