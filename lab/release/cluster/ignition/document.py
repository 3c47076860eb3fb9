"""Ignition 3.2.0 configs as data: files, units, compressed contents."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import urllib.parse
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from installer.common.ignition import merge as merged_as_ignition_does

VERSION = "3.2.0"
Config = dict[str, Any]
#: A MachineConfig, of 1.5 MB at most in etcd, can unpack to a thousand times that: it would take the memory of whoever
#: reads it, the controller and each node's daemon.
MAX_UNPACKED = 16 << 20


def data_url(content: bytes) -> str:
    """Return a data URL, base64."""
    return "data:text/plain;charset=utf-8;base64," + base64.b64encode(content).decode()


def _unpacked(raw: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
        content = stream.read(MAX_UNPACKED + 1)
    if len(content) > MAX_UNPACKED:
        raise ValueError(f"is more than {MAX_UNPACKED >> 20} MiB when it is unpacked")
    return content


def read(source: str, compression: str | None) -> bytes:
    """Return what a data URL holds, unpacked, MAX_UNPACKED at most. Raises ValueError for more, for any other source,
    and for one that is broken."""
    if not source.startswith("data:"):
        raise ValueError("must be a data URL: a running node fetches nothing")
    head, comma, body = source.removeprefix("data:").partition(",")
    if not comma:
        raise ValueError("is not a data URL: it has no comma")
    raw = urllib.parse.unquote_to_bytes(body)
    try:
        if head.endswith(";base64"):
            raw = base64.b64decode(raw, validate=True)
        return _unpacked(raw) if compression == "gzip" else raw
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be decoded: {error}") from error


def file(path: str, content: str | bytes, mode: int = 0o644, *, compress: bool = False) -> Config:
    """Return a storage.files entry that replaces what is there; ``compress`` stores gzip, which Ignition unpacks."""
    raw = content.encode() if isinstance(content, str) else content
    contents: Config = {"source": data_url(raw)}
    if compress:
        # mtime 0: equal inputs give equal configs, and so equal hashes of the rendered MachineConfig
        contents = {"source": data_url(gzip.compress(raw, 6, mtime=0)), "compression": "gzip"}
    return {"path": path, "mode": mode, "overwrite": True, "contents": contents}


def unit(
    name: str, contents: str | None = None, *, enabled: bool | None = True, dropins: Mapping[str, str] | None = None
) -> Config:
    """Return a systemd.units entry; with ``contents`` None a unit that the OS has is enabled."""
    entry: Config = {"name": name}
    if dropins:
        entry["dropins"] = [{"name": key, "contents": text} for key, text in dropins.items()]
    if contents is not None:
        entry["contents"] = contents
    if enabled is not None:
        entry["enabled"] = enabled
    return entry


def tree(root: Path, target: str, *, compress: Iterable[str] = ()) -> list[Config]:
    """Entries for every regular file under ``root``, placed under ``target`` with their modes.

    Files whose name ends with one of ``compress`` are stored compressed.
    """
    endings = tuple(compress)
    return [
        file(
            f"{target}/{path.relative_to(root)}",
            path.read_bytes(),
            path.stat().st_mode & 0o777,
            compress=bool(endings) and path.name.endswith(endings),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]


def config(
    files: Iterable[Config] = (), units: Iterable[Config] = (), directories: Iterable[Config] = (), ssh_key: str = ""
) -> Config:
    """Return a whole config; empty sections are left out."""
    document: Config = {"ignition": {"version": VERSION}}
    storage = {"files": list(files), "directories": list(directories)}
    if any(storage.values()):
        document["storage"] = {key: value for key, value in storage.items() if value}
    if systemd := list(units):
        document["systemd"] = {"units": systemd}
    if ssh_key:
        keys = [line for line in ssh_key.splitlines() if line.strip()]
        document["passwd"] = {"users": [{"name": "core", "sshAuthorizedKeys": keys}]}
    return document


def pointer(url: str, ca: str) -> Config:
    """Return a config that fetches another one from the machine-config server (reference/cluster.md §3.1)."""
    return {
        "ignition": {
            "version": VERSION,
            "config": {"merge": [{"source": url}]},
            "security": {"tls": {"certificateAuthorities": [{"source": data_url(ca.encode())}]}},
        }
    }


def merge(parent: Mapping[str, Any], child: Mapping[str, Any]) -> Config:
    """Put ``child`` on top of ``parent``, whatever the versions of their specs."""
    merged: Config = merged_as_ignition_does(parent, child)
    return {**merged, "ignition": {**merged.get("ignition", {}), "version": VERSION}}
