"""A run as its folder of evidence has it: phases, tests, outcome, and what was run. Nothing in it is believed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from installer.common.redact import redact

TESTS = "tests.json"
LAB_FAILED = "lab-failed.txt"
ABOUT = "about.json"
#: The fact by which a run can be made again.
COMMAND = "run it again"
# The worst first: a void run says nothing about what was tested, so void outranks everything else. A test that failed
# before the run was interrupted has failed.
_OUTCOMES = ("void", "failed", "interrupted", "running", "passed", "skipped")
_KNOWN = set(_OUTCOMES)
# Levels of phases that are shown, the longest duration in seconds that is believed, bytes that are read of a file.
_DEEPEST, _LONGEST, _MOST = 8, 366 * 86400.0, 8 << 20


@dataclass(frozen=True)
class Run:
    """One directory of artefacts; entries as in phases.json and tests.json."""

    name: str
    folder: Path
    phases: Sequence[dict[str, Any]]
    tests: Sequence[dict[str, Any]]
    _: KW_ONLY
    lab_failed: str = ""
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """void (the lab itself failed), failed, interrupted, running (or killed while it ran), passed, or skipped."""
        # A test that ends a daemon itself is the only one that passes in a lab that has failed.
        if self.lab_failed and {str(entry.get("outcome")) for entry in self.tests} != {"passed"}:
            return "void"
        phases = {str(entry.get("outcome")) for entry in self.phases}
        # Where tests were run, their outcome counts: they may have expected a phase to fail, but not to go on.
        tests = {str(entry.get("outcome")) for entry in self.tests}
        outcomes = tests | (phases & {"running", "interrupted"}) if tests else phases
        if outcomes - _KNOWN:
            return "failed"  # nobody knows what it means
        # Where there is nothing, it was killed before it began.
        return next((o for o in _OUTCOMES if o in outcomes), "running")

    @property
    def seconds(self) -> float:
        """The total duration of its phases, in seconds."""
        return sum(seconds_of(entry) for entry in self.phases if not depth_of(entry))


def word(outcome: str) -> str:
    """Return an outcome as pages say it."""
    return {"void": "invalid", "running": "not ended", "interrupted": "invalid (interrupted)"}.get(outcome, outcome)


def clock(seconds: float) -> str:
    """Return a duration: 45.2 s, or 12:05 in minutes."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}" if seconds >= 60 else f"{seconds:.1f} s"


def _number(value: object, most: float) -> float:
    """Return a number of another program's, from 0 to `most`; 0 for what is none."""
    try:
        number = float(value) if isinstance(value, (int, float)) else 0.0
    except OverflowError:
        return 0.0
    return min(most, max(0.0, number)) if math.isfinite(number) else 0.0


def seconds_of(entry: dict[str, Any]) -> float:
    """Return how long a phase or a test took, in seconds."""
    return _number(entry.get("seconds"), _LONGEST)


def figures_of(entry: dict[str, Any]) -> dict[str, str]:
    """Return what a test has measured, as text by name."""
    figures = entry.get("figures")
    return {str(name): str(value) for name, value in figures.items()} if isinstance(figures, dict) else {}


def depth_of(entry: dict[str, Any]) -> int:
    """Return how deeply a phase is nested."""
    return int(_number(entry.get("depth"), _DEEPEST))


def _entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file; an invalid one for what cannot be read as such."""
    if not os.path.lexists(path):
        return []
    try:
        entries = json.loads(text_in(path))
    except (ValueError, RecursionError):
        entries = None
    why = f"{path.name} is damaged: what it said is not known"
    unknown = {"name": path.name, "outcome": "void", "message": why, "error": why}
    return [entry if isinstance(entry, dict) else unknown for entry in (entries if isinstance(entries, list) else [0])]


def text_in(path: Path, most: int = _MOST) -> str:
    """Return the beginning of a regular file: a pipe would be waited for. Empty where it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""


def runs(root: Path) -> list[Run]:
    """Return the runs below a directory, or the run that it is itself; sorted by name."""
    folders = [root] if (root / "phases.json").exists() else sorted(p.parent for p in root.glob("*/phases.json"))
    return [
        Run(
            f.absolute().name,
            f,
            _entries(f / "phases.json"),
            _entries(f / TESTS),
            lab_failed=text_in(f / LAB_FAILED),
            about=_about(f / ABOUT),
        )
        for f in folders
    ]


def note(folder: Path, about: Mapping[str, str]) -> None:
    """Write what is run into a run's folder: names of facts, and their values without secrets."""
    (folder / ABOUT).write_text(json.dumps({name: redact(value) for name, value in about.items()}, indent=1) + "\n")


def _about(path: Path) -> dict[str, str]:
    try:
        facts = json.loads(text_in(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in facts.items()} if isinstance(facts, dict) else {}


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern that have anything in them, sorted; none where they cannot be listed: what a host
    sent may nest too deeply."""
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file() and path.stat().st_size)
    except (OSError, RecursionError):
        return []
