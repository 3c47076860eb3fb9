"""Two answers to one input, side by side: where they agree, and what differs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import yaml

from ci.bench.oracle.answers import Answer, Error, crash, field_errors, message, stage, warnings

OVERRIDES = "agent-install.openshift.io/install-config-overrides"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The name of an image set ends with the version of the installer that made it.
_VERSION = re.compile(r"\bopenshift-\d[\w.\-]*")
# Fields that one of the programs writes with its default and the other leaves out, as both do with empty ones.
_NOT_GIVEN = (("installed", False), ("workerAgents", 0))


@dataclass(frozen=True)
class Comparison:
    """One input's agreement: which took it, and what differs, each by its shape: one line, without what only this input
    has. `comparable` is False where a stand-in answered in openshift-install's place.
    """

    name: str
    theirs_ok: bool
    ours_ok: bool
    differences: tuple[str, ...]
    _: KW_ONLY
    comparable: bool = True

    def agrees(self, *kinds: str) -> bool:
        """Tell whether both took or both refused the input, without differences whose lines begin so."""
        return self.theirs_ok == self.ours_ok and not any(line.startswith(kinds) for line in self.differences)


def shape(text: str) -> str:
    """Return a message without this input's values: what is quoted, numbers, addresses and indices."""
    text = re.sub(r'(?<!unknown field )"(?:[^"\\]|\\.)*"', '"…"', text)
    text = re.sub(r"'[^']*'", "'…'", text)
    text = re.sub(r"(?<=[\w>])\[[^\]\s]*\]", "[]", text)
    return re.sub(r"(?<![\w.:/\-])[0-9a-fA-F:.]*\d[0-9a-fA-F:./]*(?![\w])", "#", text)[:200].rstrip()


def compare(name: str, theirs: Answer, ours: Answer) -> Comparison:
    """Compare openshift-install's answer with node0's."""
    their_text, our_text = message(theirs), message(ours)
    taken, refused = theirs.code == 0 == ours.code, bool(their_text and our_text)
    # openshift-install has nmstatectl judge network documents; the stand-in for that accepts all of them.
    comparable = theirs.code != 0 or stage(our_text) != "network documents"
    differences: list[str] = []
    if not (taken or refused) and (where := crash(their_text)):
        differences.append(f"openshift-install crashes: {where}")
    elif not (taken or refused):
        who = "node0" if theirs.code == 0 else "openshift-install"
        differences += (f"only {who} refuses: {line}" for line in _reasons(our_text or their_text))
    if refused:
        differences += _error_differences(their_text, our_text)
        if theirs.code != ours.code and not crash(their_text):
            differences.append(f"exit code: {theirs.code}, node0 {ours.code}: {shape(their_text)}")
    # Where only one of them refuses an input, it does not get as far as to the other's warnings.
    if (taken or refused) and not crash(their_text):
        differences += _warning_differences(warnings(theirs), warnings(ours))
    if taken:
        differences += _output_differences(theirs.files, ours.files)
    unique = tuple(dict.fromkeys(differences))
    return Comparison(name, theirs.code == 0, ours.code == 0, unique, comparable=comparable)


def _reasons(text: str) -> list[str]:
    """Return the shapes of a refusal."""
    errors = field_errors(text)
    return [_line(error) for error in errors] or [f"{stage(text)}: {shape(_own_words(text))}"]


def _own_words(text: str) -> str:
    """Return a message without the assets that openshift-install names in front of it."""
    return re.sub(r'failed to (?:fetch|load|generate) (?:dependency of |asset )?"?[^":]*"?: ', "", text)


def _line(error: Error) -> str:
    return f"{shape(error.path)}: {error.kind}" + (f": {shape(error.detail)}" if error.detail else "")


def _error_differences(theirs: str, ours: str) -> Iterator[str]:
    if where := crash(theirs):
        yield f"openshift-install crashes: {where}"
        return
    their_errors, our_errors = field_errors(theirs), field_errors(ours)
    if stage(theirs) != stage(ours):
        reason = f": {_line(our_errors[0])}" if our_errors else ""
        yield f"refused at: {shape(stage(theirs))}, node0: {shape(stage(ours))}{reason}"
        return
    hidden = {(error.path, error.kind) for error in our_errors if error.hidden}
    places = [{(error.path, error.kind): error for error in errors} for errors in (their_errors, our_errors)]
    for who, mine, other in (("openshift-install", places[0], places[1]), ("node0", places[1], places[0])):
        yield from (f"error of {who} only: {_line(mine[place])}" for place in sorted(mine.keys() - other.keys()))
    for place in sorted(places[0].keys() & places[1].keys() - hidden):
        values = [{e.value for e in errors if (e.path, e.kind) == place} for errors in (their_errors, our_errors)]
        if values[0] != values[1]:
            yield f"value of: {_line(places[0][place])}"


def _warning_differences(theirs: frozenset[str], ours: frozenset[str]) -> Iterator[str]:
    yield from (f"warning of openshift-install only: {shape(text)}" for text in sorted(theirs - ours))
    yield from (f"warning of node0 only: {shape(text)}" for text in sorted(ours - theirs))


def _output_differences(theirs: dict[str, str], ours: dict[str, str]) -> Iterator[str]:
    for name in sorted(theirs.keys() | ours.keys()):
        if name not in theirs or name not in ours:
            yield f"output of {'node0' if name in ours else 'openshift-install'} only: {name}"
            continue
        if theirs[name] == ours[name]:  # equal texts need not be parsed (nor may it be possible)
            continue
        for path in _unequal(_meaning(name, theirs[name]), _meaning(name, ours[name])):
            yield f"output: {name}{re.sub(r'[0-9]+', '', path)}"


def _meaning(name: str, text: str) -> Any:
    """Return the data in a YAML or TOML file; the text of any other."""
    text = _VERSION.sub("openshift-VERSION", text)
    if name.endswith("registries.conf"):
        return _filled(tomllib.loads(text))
    if not name.endswith(".yaml"):
        return text
    documents = [document for document in yaml.load_all(text, _LOADER) if document is not None]
    for document in documents:
        annotations = document.get("metadata", {}).get("annotations") or {}
        if OVERRIDES in annotations:
            annotations[OVERRIDES] = json.loads(annotations[OVERRIDES])
        document.pop("status", None)
    return _filled(documents)


def _filled(value: Any) -> Any:
    """Return a document without empty fields and those of _NOT_GIVEN."""
    if isinstance(value, dict):
        pairs = ((key, _filled(item)) for key, item in value.items() if (key, item) not in _NOT_GIVEN)
        return {key: item for key, item in pairs if item not in (None, "", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def _unequal(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two documents differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys(), key=str):
            if key not in left or key not in right:
                yield f"{path}.{key}"
            else:
                yield from _unequal(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (item, counterpart) in enumerate(zip(left, right, strict=True)):
            yield from _unequal(item, counterpart, f"{path}[{index}]")
    elif type(left) is not type(right) or left != right:
        yield path
