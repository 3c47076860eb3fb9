"""The agent ISO's Ignition config by both: which files and units it has, with which modes and contents."""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.bench.oracle.answers import Answer
from ci.bench.oracle.programs import RELEASE, Input, Oracle, node0_answers
from installer.testing.create.ignition_kit import live_ignition

#: The ISO's Ignition config without the ISO: an addition to the openshift-install that is built for this comparison.
IGNITION = ("agent", "create", "ignition-json")
_FILE = "agent.ign"


@dataclass(kw_only=True)
class Tally:
    """Counts of inputs, by path of a file or name of a unit: who has it, and in how many both have the same mode and
    content. `compared`: the number of inputs."""

    compared: int = 0
    only_theirs: Counter[str] = field(default_factory=Counter)
    only_ours: Counter[str] = field(default_factory=Counter)
    both: Counter[str] = field(default_factory=Counter)
    mode: Counter[str] = field(default_factory=Counter)
    content: Counter[str] = field(default_factory=Counter)


def content(file: Mapping[str, Any]) -> bytes:
    """The content of a file, decoded."""
    return b"".join(_source(part) for part in (file.get("append") or [file.get("contents") or {}]))


def _source(part: Mapping[str, Any]) -> bytes:
    head, _, data = (part.get("source") or "data:,").partition(",")
    raw = base64.b64decode(data) if head.endswith(";base64") else urllib.parse.unquote_to_bytes(data)
    return gzip.decompress(raw) if part.get("compression") == "gzip" else raw


def tally(files: Tally, units: Tally, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Add one input's two configs; a unit's mode is whether it is enabled."""
    for into, section, key, name in ((files, "storage", "files", "path"), (units, "systemd", "units", "name")):
        one, other = ({entry[name]: entry for entry in config[section].get(key, [])} for config in (theirs, ours))
        into.compared += 1
        into.only_theirs.update(one.keys() - other.keys())
        into.only_ours.update(other.keys() - one.keys())
        for shared in one.keys() & other.keys():
            into.both[shared] += 1
            into.mode[shared] += _mode(one[shared]) == _mode(other[shared])
            into.content[shared] += _held(one[shared]) == _held(other[shared])


def _mode(entry: Mapping[str, Any]) -> Any:
    return entry.get("mode") if "path" in entry else bool(entry.get("enabled"))


def differences(files: Tally, units: Tally) -> list[str]:
    """The differences between the two configs, one line each; contents do not count, which are each program's own."""
    return [
        f"ISO: {what}: {name}"
        for label, one in (("file", files), ("unit", units))
        for what, names in (
            (f"{label} of openshift-install only", one.only_theirs),
            (f"{label} of node0 only", one.only_ours),
            ("mode" if label == "file" else "enabled", one.both - one.mode),
        )
        for name in sorted(names)
    ]


def _held(entry: Mapping[str, Any]) -> Any:
    return content(entry) if "path" in entry else entry.get("contents")


def create_ignition(one: Input) -> Answer:
    """node0's config for an input, with images of a made-up release."""
    with tempfile.TemporaryDirectory() as name:
        one.put(Path(name))
        try:
            return Answer(0, "", {_FILE: live_ignition(Path(name), RELEASE).decode()})
        except Exception as error:  # the error is what the table shows
            return Answer(1, f"level=fatal msg={error}")


def run(oracle: Oracle, valid: Sequence[Input]) -> tuple[list[tuple[str, str]], list[str]]:
    """The two configs of every valid input, side by side: rows of a table, and what differs (`differences`)."""
    theirs, ours = oracle.answers(valid, IGNITION), node0_answers(valid, create_ignition)
    files, units = Tally(), Tally()
    missing = []
    for one, left, right in zip(valid, theirs, ours, strict=True):
        if _FILE in left.files and _FILE in right.files:
            tally(files, units, json.loads(left.files[_FILE]), json.loads(right.files[_FILE]))
        else:
            missing.append(("not compared", f"{one.name} {(left.stderr + right.stderr).strip()[-160:]}"))
    table = [*missing, *_rows("files", "modes", files), *_rows("units", "enabled or not", units)]
    return table, differences(files, units)


def _rows(what: str, mode: str, counts: Tally) -> list[tuple[str, str]]:
    shared = counts.both.total()
    result = [
        (f"{what} of both, in {counts.compared} inputs", f"{shared:5}"),
        (f"  {mode} equal", f"{counts.mode.total():5} of {shared:5}"),
        ("  contents equal", f"{counts.content.total():5} of {shared:5}"),
    ]
    for who, names in (("openshift-install", counts.only_theirs), ("node0", counts.only_ours)):
        result += [(f"{what} of {who} only", f"{count:5} {name}") for name, count in sorted(names.items())]
    result += [
        (f"{what}: {mode} differ", f"{count - counts.mode[name]:5} {name}")
        for name, count in sorted(counts.both.items())
        if counts.mode[name] != count
    ]
    return result
