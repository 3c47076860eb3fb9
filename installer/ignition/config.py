"""Ignition 3.2.0 configs as data: files, units, users (reference/installer.md §4)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

VERSION = "3.2.0"


@dataclass(frozen=True)
class File:
    """A file of the host: absolute `path`, `content`, permission bits `mode`."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644

    @classmethod
    def text(cls, path: str, content: str, mode: int = 0o644) -> File:
        """Return a file with UTF-8 text."""
        return cls(path, content.encode(), mode)

    def entry(self) -> dict[str, Any]:
        """Return the file's entry in storage.files, which replaces what the OS has at that path."""
        source = "data:text/plain;charset=utf-8;base64," + base64.b64encode(self.content).decode()
        return {"path": self.path, "mode": self.mode, "overwrite": True, "contents": {"source": source}}


@dataclass(frozen=True)
class Unit:
    """A systemd unit of the host; only what is enabled starts at boot."""

    name: str
    content: str = field(repr=False)
    enabled: bool = True

    def entry(self) -> dict[str, Any]:
        """Return the unit's entry in systemd.units."""
        return {"name": self.name, "enabled": self.enabled, "contents": self.content}


@dataclass(frozen=True)
class User:
    """A login: public keys, and the hash of a password when there is one."""

    name: str
    ssh_keys: tuple[str, ...] = ()
    password_hash: str = field(default="", repr=False)

    def entry(self) -> dict[str, Any]:
        """Return the user's entry in passwd.users."""
        entry: dict[str, Any] = {"name": self.name}
        if self.ssh_keys:
            # Ignition refuses a key that is there twice.
            entry["sshAuthorizedKeys"] = list(dict.fromkeys(self.ssh_keys))
        if self.password_hash:
            entry["passwordHash"] = self.password_hash
        return entry


def render(files: Iterable[File], units: Iterable[Unit], users: Iterable[User]) -> bytes:
    """Return the config as compact JSON; of files with one path the last one counts."""
    by_path = {file.path: file for file in files}
    config = {
        "ignition": {"version": VERSION},
        "passwd": {"users": [user.entry() for user in users]},
        "storage": {"files": [by_path[path].entry() for path in sorted(by_path)]},
        "systemd": {"units": [unit.entry() for unit in units]},
    }
    return json.dumps(config, separators=(",", ":")).encode()
