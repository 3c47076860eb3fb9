"""Ignition configs as MachineConfigs may have them: the types of spec 3.2, and what a running node can be given
(https://coreos.github.io/ignition/configuration-v3_2/; reference/machine-configs.md §3)."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

import msgspec

from lab.release.cluster.ignition import document

MAX_MODE = 0o777
#: The kernel reads the number above as "unchanged".
MAX_ID = 2**32 - 2
#: systemd.unit(5).
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,250}\.[a-z]+")
_SUFFIXES = ("service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope")


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        """Show nothing: files and users have secrets."""
        return type(self).__name__


class _Ignition(_Part):
    version: str
    proxy: dict[str, Any] | None = None
    security: dict[str, Any] | None = None
    timeouts: dict[str, Any] | None = None


class _Resource(_Part):
    source: str | None = None
    compression: str | None = None
    verification: dict[str, str | None] | None = None
    http_headers: list[dict[str, Any]] | None = msgspec.field(name="httpHeaders", default=None)


class _Owner(_Part):
    id: int | None = None
    name: str | None = None


class _Node(_Part):
    path: str
    overwrite: bool | None = None
    user: _Owner | None = None
    group: _Owner | None = None


class _Directory(_Node):
    mode: int | None = None


class _File(_Node):
    contents: _Resource | None = None
    append: list[_Resource] | None = None
    mode: int | None = None


class _Link(_Node, kw_only=True):
    target: str
    hard: bool | None = None


class _Storage(_Part):
    files: list[_File] | None = None
    directories: list[_Directory] | None = None
    links: list[_Link] | None = None
    # What is on disks is changed by no running node, so here Ignition's own check at the first boot is enough.
    disks: list[dict[str, Any]] | None = None
    raid: list[dict[str, Any]] | None = None
    filesystems: list[dict[str, Any]] | None = None
    luks: list[dict[str, Any]] | None = None


class _Dropin(_Part):
    name: str
    contents: str | None = None


class _Unit(_Part):
    name: str
    enabled: bool | None = None
    mask: bool | None = None
    contents: str | None = None
    dropins: list[_Dropin] | None = None


class _Systemd(_Part):
    units: list[_Unit] | None = None


class _User(_Part, forbid_unknown_fields=False):
    """The fields of a user that are read here; the others are Ignition's."""

    name: str
    keys: list[str] | None = msgspec.field(name="sshAuthorizedKeys", default=None)
    password_hash: str | None = msgspec.field(name="passwordHash", default=None)


class _Passwd(_Part):
    users: list[_User] | None = None
    groups: list[dict[str, Any]] | None = None


class _Config(_Part):
    ignition: _Ignition
    storage: _Storage | None = None
    systemd: _Systemd | None = None
    passwd: _Passwd | None = None


def problems(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong with a config, (field, rule) each; an unknown field or a wrong type hides what else is."""
    head = config.get("ignition") if isinstance(config, dict) else None
    version = head.get("version") if isinstance(head, dict) else None
    if not str(version).startswith("3."):
        return [("ignition.version", f"{version!r}: must be one of spec 3")]
    try:
        parsed = msgspec.convert(config, _Config)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        return [(where.strip("`.") or "config", text.replace("Object contains u", "u"))]
    storage, found = parsed.storage or _Storage(), list[tuple[str, str]]()
    nodes: list[_Node] = [*(storage.files or []), *(storage.directories or []), *(storage.links or [])]
    for path, count in Counter(node.path for node in nodes).items():
        if not path.startswith("/") or path.startswith("//") or path != posixpath.normpath(path) or "\0" in path:
            found.append(("storage", f"{path!r}: must be an absolute path without empty, '.' and '..' parts"))
        if count > 1:
            found.append(("storage", f"{path}: is there {count} times, as a file, directory or link"))
    for file in storage.files or []:
        field = f"storage.files {file.path}"
        if file.mode is not None and not 0 <= file.mode <= MAX_MODE:
            found.append((field, f"invalid mode {file.mode:#o}, cannot exceed {MAX_MODE:#o}"))
        contents = file.contents or _Resource()
        if contents.compression not in (None, "", "gzip"):
            found.append((f"{field}: contents.compression", f"{contents.compression!r}: only gzip"))
        elif contents.source:
            try:
                document.read(contents.source, contents.compression)
            except ValueError as error:
                found.append((f"{field}: contents.source", str(error)))
    units = (parsed.systemd or _Systemd()).units or []
    leaves = {node.path for node in [*(storage.files or []), *(storage.links or [])]}
    for node in nodes:
        found += [
            ("storage", f"{node.path}: is below {parent}, which is a file or a link")
            for parent in map(str, PurePosixPath(node.path).parents)
            if parent in leaves
        ]
        for field, owner in (("user", node.user), ("group", node.group)):
            if owner and owner.id is not None and not 0 <= owner.id <= MAX_ID:
                found.append((f"storage {node.path}: {field}.id", f"{owner.id}: must be from 0 to {MAX_ID}"))
    for unit in units:
        if unit.mask and any(file.path == f"/etc/systemd/system/{unit.name}" for file in storage.files or []):
            found.append(("systemd.units", f"{unit.name}: is masked, and among storage's files"))
    for user in (parsed.passwd or _Passwd()).users or []:
        if any(not text.isprintable() for text in [*(user.keys or []), user.password_hash or ""]):
            found.append((f"passwd.users {user.name}", "SSH keys and password hash must be a line each"))
    for name, count in Counter(unit.name for unit in units).items():
        if name.rpartition(".")[2] not in _SUFFIXES or not _UNIT_NAME.fullmatch(name):
            found.append(("systemd.units", f"{name!r}: is no name of a unit"))
        if count > 1:
            found.append(("systemd.units", f"{name}: is there {count} times"))
    for unit in units:
        names = [
            dropin.name
            for dropin in unit.dropins or []
            if not dropin.name.endswith(".conf") or "/" in dropin.name or "\0" in dropin.name
        ]
        found += [(f"systemd.units {unit.name}", f"drop-in {name!r}: must end in .conf") for name in names]
    return found
