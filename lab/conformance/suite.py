"""The specs: all that e2e.test calls conformance, which of them are left out and why, and the part for the gate."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import msgspec

from installer.common.formats import YamlError, yamltext
from lab.conformance import images
from lab.conformance.errors import ConformanceError
from lab.release import components
from lab.release.image.debian import package_layers
from lab.release.kubernetes import UPSTREAM, build_tests
from lab.release.stage.store import Store

CONFORMANCE = r"\[Conformance\]"
SERIAL = "[Serial]"
LEFT_OUT, PART = "left_out.yaml", "part.yaml"
LIST_SECONDS = 120
T = TypeVar("T")


@dataclass(frozen=True)
class Programs:
    """The programs of a run, on this machine: the suite, what runs it in parallel, and the kubectl of its version."""

    e2e: Path
    ginkgo: Path
    kubectl: Path
    version: str = UPSTREAM

    @classmethod
    def built(cls, store: Store) -> Programs:
        """Return them, built when they were not. Raises ReleaseError."""
        tests = build_tests(store.cache)
        client = package_layers(store, {"kubectl": components.PACKAGES["kubectl"]})["kubectl"]
        return cls(tests / "e2e.test", tests / "ginkgo", images.program(store, client, "kubectl"))

    def specs(self) -> tuple[str, ...]:
        """Return the names of all conformance specs, as the suite's own dry run lists them, sorted."""
        argv = [str(self.e2e), "--ginkgo.dryRun", "--ginkgo.noColor", f"--ginkgo.focus={CONFORMANCE}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIST_SECONDS, check=False)
        found = tuple(sorted(event[0] for event in map(event_of, done.stdout.splitlines()) if event))
        if done.returncode or not found:
            raise ConformanceError(f"{self.e2e}: lists no specs: {done.stdout[-500:]}{done.stderr[-500:]}")
        return found


def event_of(line: str) -> tuple[str, bool] | None:
    """Read a line of the suite's progress reporter: the spec that it says the end of, and whether it passed.

    Another reporter's dots may stand before it.
    """
    _, found, rest = line.partition('{"msg":')
    try:
        message = str(json.loads(found + rest)["msg"]) if found else ""
    except (ValueError, KeyError, TypeError):
        return None
    word, _, name = message.partition(" ")
    return (name, word == "PASSED") if word in ("PASSED", "FAILED") else None


class LeftOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table of specs that are not run."""

    spec: str
    reason: str


def left_out(text: str, specs: Sequence[str]) -> dict[str, str]:
    """Return the reasons by spec of a table's text. Raises ConformanceError with all that is wrong."""
    rows = _table(text, LEFT_OUT, list[LeftOut])
    problems = _problems([row.spec for row in rows], LEFT_OUT, specs)
    problems += [f"{LEFT_OUT}: {row.spec}: reason: is empty" for row in rows if not row.reason.strip()]
    if problems:
        raise ConformanceError("\n".join(problems))
    return {row.spec: row.reason for row in rows}


def part(text: str, specs: Sequence[str]) -> tuple[str, ...]:
    """Return the specs of the gate's part. Raises ConformanceError with all that is wrong."""
    names = _table(text, PART, list[str])
    if problems := _problems(names, PART, specs):
        raise ConformanceError("\n".join(problems))
    return tuple(names)


def _problems(names: Sequence[str], table: str, specs: Sequence[str]) -> list[str]:
    known = set(specs)
    unknown = [f"{table}: {name!r}: e2e.test has no such spec" for name in names if name not in known]
    return unknown + [f"{table}: {name!r}: is there twice" for name, count in Counter(names).items() if count > 1]


def _table(text: str, table: str, kind: type[T]) -> T:
    try:
        return msgspec.convert(yamltext.load(text, alone=True), kind)
    except (YamlError, msgspec.ValidationError) as error:
        raise ConformanceError(f"{table}: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class Plan:
    """Specs to run, and those that are left out, with reasons."""

    specs: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def parallel(self) -> tuple[str, ...]:
        """Those that may run beside others."""
        return tuple(name for name in self.specs if SERIAL not in name)

    @property
    def serial(self) -> tuple[str, ...]:
        """Those that want the cluster for themselves."""
        return tuple(name for name in self.specs if SERIAL in name)


def plan(specs: Sequence[str], *, focus: str = "", only_part: bool = False) -> Plan:
    """Choose by a regular expression (Python's, found anywhere in the name) from all specs or from the gate's part.

    Raises ConformanceError: the expression is none or fits nothing, or a table is wrong.
    """
    tables = files("lab.conformance").joinpath("data")
    reasons = left_out(tables.joinpath(LEFT_OUT).read_text(), specs)
    chosen = part(tables.joinpath(PART).read_text(), specs) if only_part else tuple(specs)
    try:
        fits = re.compile(focus).search
    except re.error as error:
        raise ConformanceError(f"--focus {focus!r}: is no regular expression: {error}") from error
    chosen = tuple(name for name in chosen if fits(name))
    if not chosen:
        raise ConformanceError(f"--focus {focus!r}: fits none of {len(specs)} specs")
    return Plan(
        tuple(name for name in chosen if name not in reasons),
        {name: reasons[name] for name in chosen if name in reasons},
    )
