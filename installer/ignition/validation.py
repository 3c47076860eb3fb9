"""Ignition configs held against Ignition's own validation (github.com/coreos/ignition, config/v3_3/types).

A host whose config Ignition refuses stays in its initramfs, so nothing that Ignition refuses passes here. Refused as
well is what could only fail later or be lost: negative sizes, empty names, a hash that is not hexadecimal, a known key
in other letters (Go reads it, our own merge does not). Ignition only warns of keys that it does not know: they pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from installer.common.formats import jsontext
from installer.ignition import rules

_WORDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
INT64 = 1 << 63


def _referenced(levels: int, item: rules.Object) -> Iterator[str]:
    """Judge configs that others are made of: where they come from, and those in data URLs as what they are."""
    yield from rules.sources("merge")(item)
    named = [(f"merge[{at}]", config) for at, config in enumerate(item.get("merge", ()))]
    for name, config in [*named, ("replace", item.get("replace", {}))]:
        # Packed ones are not looked into, nor those of many levels: each could hold another.
        if levels and not config.get("compression") and (text := rules.content(config)):
            try:
                yield from (f"{name}: {problem}" for problem in problems(jsontext.loads(text), levels - 1))
            except ValueError:
                yield f"{name} is no Ignition config"


# What an object may hold: a key's type, [type] for a list, another object; at "" the rule for the object as a whole.
Shape = Mapping[str, Any]
RESOURCE: Shape = {
    "": rules.resource,
    "compression": str,
    "source": str,
    "verification": {"hash": str},
    "httpHeaders": [{"name": str, "value": str}],
}
OWNER: Shape = {"": rules.owner, "id": int, "name": str}
NODE: Shape = {"": rules.node, "path": str, "overwrite": bool, "user": OWNER, "group": OWNER}
PARTITION: Shape = {
    "": rules.partition,
    "label": str,
    "number": int,
    "startMiB": int,
    "sizeMiB": int,
    "guid": str,
    "typeGuid": str,
    "shouldExist": bool,
    "resize": bool,
    "wipePartitionEntry": bool,
}
CLEVIS: Shape = {
    "": rules.clevis,
    "custom": {"pin": str, "config": str, "needsNetwork": bool},
    "tpm2": bool,
    "threshold": int,
    "tang": [{"url": str, "thumbprint": str}],
}
STORAGE: Shape = {
    "": rules.storage,
    "disks": [{"": rules.disk, "device": str, "partitions": [PARTITION], "wipeTable": bool}],
    "raid": [{"": rules.raid, "name": str, "level": str, "devices": [str], "spares": int, "options": [str]}],
    "filesystems": [
        {
            "": rules.filesystem,
            "device": str,
            "format": str,
            "path": str,
            "label": str,
            "uuid": str,
            "wipeFilesystem": bool,
            "options": [str],
            "mountOptions": [str],
        }
    ],
    "files": [{**NODE, "": rules.file, "mode": int, "contents": RESOURCE, "append": [RESOURCE]}],
    "directories": [{**NODE, "mode": int}],
    "links": [{**NODE, "target": str, "hard": bool}],
    "luks": [
        {
            "": rules.luks,
            "name": str,
            "device": str,
            "label": str,
            "uuid": str,
            "options": [str],
            "wipeVolume": bool,
            "keyFile": RESOURCE,
            "clevis": CLEVIS,
        }
    ],
}
USER: Shape = {
    "": rules.user,
    "name": str,
    "gecos": str,
    "groups": [str],
    "homeDir": str,
    "noCreateHome": bool,
    "noLogInit": bool,
    "noUserGroup": bool,
    "passwordHash": str,
    "primaryGroup": str,
    "sshAuthorizedKeys": [str],
    "shell": str,
    "shouldExist": bool,
    "system": bool,
    "uid": int,
}
CONFIG: Shape = {
    "": rules.config,
    "ignition": {
        "": rules.ignition,
        "version": str,
        "timeouts": {"httpResponseHeaders": int, "httpTotal": int},
        "config": {"merge": [RESOURCE], "replace": RESOURCE},
        "proxy": {"": rules.proxy, "httpProxy": str, "httpsProxy": str, "noProxy": [str]},
        "security": {"tls": {"": rules.authorities, "certificateAuthorities": [RESOURCE]}},
    },
    "kernelArguments": {"": rules.arguments, "shouldExist": [str], "shouldNotExist": [str]},
    "passwd": {
        "": rules.passwd,
        "users": [USER],
        "groups": [{"name": str, "gid": int, "passwordHash": str, "shouldExist": bool, "system": bool}],
    },
    "storage": STORAGE,
    "systemd": {
        "": rules.systemd,
        "units": [
            {
                "": rules.unit,
                "name": str,
                "contents": str,
                "enabled": bool,
                "mask": bool,
                "dropins": [{"": rules.unit_text, "name": str, "contents": str}],
            }
        ],
    },
}


def problems(config: Any, levels: int = 2) -> list[str]:
    """List what Ignition would refuse, each with the field's path; values that may be secret are not among it.

    `levels`: of configs within configs that are looked into.
    """
    types: list[str] = []
    broken: list[str] = []
    section = CONFIG["ignition"]
    references = {**section["config"], "": partial(_referenced, levels)}
    _read(config, {**CONFIG, "ignition": {**section, "config": references}}, "", (types, broken))
    return types or broken


def _read(value: Any, shape: Any, path: str, found: tuple[list[str], list[str]]) -> Any:
    """Return the value as far as it has its shape, without nulls, which Go takes for absent.

    `found`: where problems of types go, and those of rules, which count only when there are none of the former.
    """
    types, broken = found
    kind: Any = shape if isinstance(shape, type) else dict if isinstance(shape, Mapping) else list
    if type(value) is not kind or (kind is int and not -INT64 <= value < INT64):
        types.append(f"{path or 'it'} must be {_WORDS[kind]}, not {_WORDS.get(type(value), 'another number or null')}")
        return kind()
    if kind is str and "\0" in value:
        broken.append(f"{path} must have no NUL")
    if kind is list:
        return [_read(item, shape[0], f"{path}[{at}]", found) for at, item in enumerate(value)]
    if kind is not dict:
        return value
    start = f"{path}." if path else ""
    spelt = {key.casefold(): key for key in shape}
    types += [f"{start}{spelt[low]} is not spelt so" for key in value if spelt.get(low := key.casefold(), key) != key]
    filled = [key for key in shape if key and value.get(key) is not None]
    known = {key: _read(value[key], shape[key], start + key, found) for key in filled}
    if "" in shape:
        broken += [start + problem for problem in shape[""](known)]
    return known
