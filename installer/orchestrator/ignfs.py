"""Writing an Ignition config's files and units into a running system (installer.md §7.1, row 2).

Only what a bootstrap config carries: files, directories, links, units with drop-ins, SSH keys of existing users.
Remote sources are refused: a bootstrap config is self-contained.
"""

from __future__ import annotations

import base64
import gzip
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from installer.files import write_whole
from installer.orchestrator.errors import StageError

UNITS = "/etc/systemd/system"


def decode_source(source: str, compression: str = "") -> bytes:
    """Bytes of a data URL, decompressed. Raises StageError for anything else."""
    if not source:
        return b""
    if not source.startswith("data:") or "," not in source:
        raise StageError("ignition", f"source {source[:60]!r} is not a data URL")
    head, _, body = source[5:].partition(",")
    data = unquote_to_bytes(body)
    try:
        if head.endswith(";base64"):
            data = base64.b64decode(data, validate=True)
        return gzip.decompress(data) if compression == "gzip" else data
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise StageError("ignition", f"data URL cannot be decoded: {error}") from None


def content_of(resource: Mapping[str, Any] | None) -> bytes:
    """Bytes of a ``contents`` object."""
    if not resource:
        return b""
    return decode_source(str(resource.get("source") or ""), str(resource.get("compression") or ""))


def text_of(config: Mapping[str, Any], path: str) -> str:
    """Content of a file that a config brings, empty when it brings none. Raises StageError."""
    files = (config.get("storage") or {}).get("files") or []
    contents = next((node.get("contents") for node in files if node.get("path") == path), None)
    return content_of(contents).decode(errors="replace")


@dataclass
class Extraction:
    """An extraction's outcome: units to enable and mask, in the config's order."""

    enable: list[str] = field(default_factory=list)
    mask: list[str] = field(default_factory=list)
    files: int = 0


def _inside(root: Path, name: str) -> Path:
    """``name`` below ``root``; the parent's links are followed within root, nothing leads out of it."""
    if not name.startswith("/") or ".." in Path(name).parts:
        raise StageError("ignition", f"path {name!r} is not absolute and plain")
    path = root
    parts = list(Path(name).parts[1:])
    for depth, part in enumerate(parts[:-1]):
        path = path / part
        hops = 0
        while path.is_symlink():
            hops += 1
            if hops > 40:
                raise StageError("ignition", f"path {name!r} leads in circles")
            target = str(path.readlink())
            path = root / target.lstrip("/") if target.startswith("/") else path.parent / target
        if path.exists() and not path.is_dir():
            raise StageError("ignition", f"/{'/'.join(parts[: depth + 1])} is not a directory")
    return path / parts[-1]


def _owner(node: Mapping[str, Any], key: str, lookup: Mapping[str, int]) -> int:
    who = node.get(key) or {}
    if "id" in who:
        return int(who["id"])
    return lookup.get(str(who.get("name", "")), 0)


def _ids(root: Path, name: str) -> dict[str, int]:
    ids = {}
    with suppress(OSError):
        for line in (root / "etc" / name).read_text().splitlines():
            fields = line.split(":")
            if len(fields) > 2 and fields[2].isdigit():
                ids[fields[0]] = int(fields[2])
    return ids


class Writer:
    """Writes below ``root``; ``chown`` can be turned off where the process may not (tests)."""

    def __init__(self, root: Path, chown: bool = True) -> None:
        self._root = root
        self._chown = chown and os.geteuid() == 0
        self._users, self._groups = _ids(root, "passwd"), _ids(root, "group")

    def extract(self, config: Mapping[str, Any]) -> Extraction:
        """Write everything. Raises StageError."""
        result = Extraction()
        storage = config.get("storage") or {}
        try:
            for node in storage.get("directories") or []:
                self._directory(node)
            for node in storage.get("files") or []:
                self._file(node)
                result.files += 1
            for node in storage.get("links") or []:
                self._link(node)
            for unit in (config.get("systemd") or {}).get("units") or []:
                self._unit(unit, result)
            for user in (config.get("passwd") or {}).get("users") or []:
                self._keys(str(user.get("name", "")), user.get("sshAuthorizedKeys") or [])
        except OSError as error:
            raise StageError("ignition", str(error)) from None
        return result

    def _own(self, path: Path, node: Mapping[str, Any]) -> None:
        if self._chown:
            user, group = _owner(node, "user", self._users), _owner(node, "group", self._groups)
            os.chown(path, user, group, follow_symlinks=False)

    def _directory(self, node: Mapping[str, Any]) -> None:
        path = _inside(self._root, str(node["path"]))
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(int(node.get("mode") or 0o755))
        self._own(path, node)

    def _file(self, node: Mapping[str, Any]) -> None:
        path = _inside(self._root, str(node["path"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        if node.get("contents") is not None or not path.exists():
            write_whole(path, content_of(node.get("contents")))
        for extra in node.get("append") or []:
            data = content_of(extra)
            before = path.read_bytes()
            # The same config may be extracted again after a restart.
            if data not in before:
                # Replaced in one step: a script may be running from the old file.
                write_whole(path, before + data)
        mode = node.get("mode")
        path.chmod(0o644 if mode is None else int(mode))
        self._own(path, node)

    def _link(self, node: Mapping[str, Any]) -> None:
        path = _inside(self._root, str(node["path"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir() and node.get("overwrite"):
            shutil.rmtree(path)
        elif path.is_dir():
            raise StageError("ignition", f"{node['path']} is a directory, and overwrite is false")
        if node.get("hard"):
            path.hardlink_to(_inside(self._root, str(node["target"])))
        else:
            path.symlink_to(str(node["target"]))
            self._own(path, node)

    def _unit(self, unit: Mapping[str, Any], result: Extraction) -> None:
        name = str(unit["name"])
        if "/" in name:
            raise StageError("ignition", f"unit name {name!r} has a slash")
        if unit.get("contents"):
            self._file({"path": f"{UNITS}/{name}", "contents": {"source": _plain(str(unit["contents"]))}})
        for dropin in unit.get("dropins") or []:
            if dropin.get("contents"):
                path = f"{UNITS}/{name}.d/{dropin['name']}"
                self._file({"path": path, "contents": {"source": _plain(str(dropin["contents"]))}})
        if unit.get("mask"):
            result.mask.append(name)
        elif unit.get("enabled"):
            result.enable.append(name)

    def _keys(self, user: str, keys: Sequence[str]) -> None:
        uid = self._users.get(user)
        home = self._root / ("root" if user == "root" else f"home/{user}")
        if uid is None or not keys or not home.is_dir():
            return
        directory = home / ".ssh"
        directory.mkdir(mode=0o700, exist_ok=True)
        file = directory / "authorized_keys"
        present = file.read_text().splitlines() if file.is_file() else []
        file.write_text("\n".join([*present, *(key for key in keys if key not in present)]) + "\n")
        file.chmod(0o600)
        if self._chown:
            group = self._groups.get(user, uid)
            os.chown(directory, uid, group)
            os.chown(file, uid, group)


def _plain(text: str) -> str:
    return "data:;base64," + base64.b64encode(text.encode()).decode()
