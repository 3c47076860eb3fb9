"""Differences between a user's files and the lab's copy of them, a line a field, without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from installer.common.redact import shown_registry, without_login

_NOTHING: tuple[object, ...] = (None, "", [], {})
_KEYS = ("sshkey", "sshpublickey", "sshauthorizedkey")
_PULL_SECRETS = ("pullsecret", "dockerconfigjson")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
#: Fields that are never shown: those below, and by parts of their names.
_SECRETS = ("data", "stringdata")
_SECRET = ("password", "secret", "token", "username")


def differences(file: str, before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield `FILE: FIELD: OLD → NEW` for each field that differs; lists are compared whole."""
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new or (old in _NOTHING and new in _NOTHING):
            continue
        where = f"{path}{name}"
        if isinstance(new, dict) or (isinstance(old, dict) and new is None):
            old_fields, new_fields = (value if isinstance(value, dict) else {} for value in (old, new))
            yield from differences(file, old_fields, new_fields, f"{where}.")
        else:
            line = f"{file}: {where}: {_shown(where, old)} → {_shown(where, new)}"
            # A terminal must not take a file's words for its own.
            yield "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def _shown(path: str, value: Any) -> str:
    *above, field = path.lower().split(".")
    if value in _NOTHING:
        return "none"
    if field in _PULL_SECRETS:
        return _registries(value)
    if field in _KEYS:
        return _count(sum(bool(line.strip()) for line in str(value).splitlines()), "key")
    if _CERTIFICATE in str(value):
        return _count(str(value).count(_CERTIFICATE), "certificate")
    if {*above} & {*_SECRETS} or any(word in field for word in _SECRET):
        return "(not shown)"
    if isinstance(value, list):
        return ", ".join(map(_entry, value))
    return without_login(str(value))


def _entry(value: Any) -> str:
    """Return an entry of a list: of a mapping, what it is known by."""
    if not isinstance(value, dict):
        return without_login(str(value))
    known = (str(value[name]) for name in ("source", "name", "hostName", "macAddress") if value.get(name))
    address = f" at {without_login(str(value['address']))}" if value.get("address") else ""
    return next(known, "(an entry)") + address


def _registries(text: Any) -> str:
    try:
        return "credentials for " + ", ".join(map(shown_registry, json.loads(text)["auths"]))
    except (ValueError, TypeError, KeyError):
        return "(not shown)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
