"""One page for a run: what was tested, how it ended, how long each phase took, and where the evidence is.

`index.html` lies in the artefacts' directory and needs nothing but the files beside it. It is made from phases.json,
tests.json (outcomes of tests, if there were any), and the files that exist.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.errors import EvidenceError

PAGE = "index.html"
TESTS = "tests.json"
LAB_FAILED = "lab-failed.txt"
# The worst first: a void run says nothing about what was tested, so void outranks everything else.
_OUTCOMES = ("void", "failed", "running", "passed", "skipped")
_KNOWN = set(_OUTCOMES)
_BAR_EM = 24.0
_MANY = 12
# Levels of phases that are shown, the longest duration in seconds that is believed, bytes that are read of a file.
_DEEPEST, _LONGEST, _MOST = 8, 366 * 86400.0, 8 << 20
# Characters of a page before its style, at most.
_HEAD = 2000
# Title, and the patterns of its files below the run's directory; a file that an earlier title has listed is left out.
EVIDENCE = (
    ("the installer's commands", ("commands/*wait-for*.log", "commands/*create-image*.log")),
    ("other commands", ("commands/*.log",)),
    ("events and hosts, from the service", ("installer/logs/**/*", "installer/*.log")),
    ("consoles", ("console/*.timed.log", "console/*.txt", "console/*.log")),
    ("the lab's own failure", (LAB_FAILED,)),
    ("kernels' complaints", ("kernel-trouble.txt",)),
    ("nodes, from inside", ("nodes/*/*",)),
    ("the lab's services", ("services/*",)),
    ("machines", ("libvirt/*",)),
    ("could not be collected", ("missing.txt",)),
)
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0 1rem}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}
h2{margin:2rem 0 .3rem;border-top:1px solid #ccc;padding-top:1rem}.s{text-align:right;font-variant-numeric:tabular-nums}
.passed{color:#176b2c}.failed,.error{color:#b3261e;font-weight:600}.void{color:#6a1b9a;font-weight:600}
.lab{border-left:.3rem solid #6a1b9a;padding-left:1rem}.running,.skipped{color:#8a5a00}
.bar{display:inline-block;height:.7em;background:#8fb2d9}.bar.failed{background:#e0928c}pre{white-space:pre-wrap;margin:0}
img{max-height:9rem;border:1px solid #ccc;margin-right:.5rem}details{margin:.2rem 0}a{color:#0b57a4}
"""


@dataclass(frozen=True)
class Run:
    """One directory of artefacts; entries as in phases.json and tests.json."""

    name: str
    folder: Path
    phases: Sequence[dict[str, Any]]
    tests: Sequence[dict[str, Any]]
    _: KW_ONLY
    lab_failed: str = ""

    @property
    def outcome(self) -> str:
        """void (the lab itself failed), failed, running (or killed while it ran), passed, or skipped."""
        # A test that ends a daemon itself is the only one that passes in a lab that has failed.
        if self.lab_failed and {str(entry.get("outcome")) for entry in self.tests} != {"passed"}:
            return "void"
        phases = {str(entry.get("outcome")) for entry in self.phases}
        # Where tests were run, their outcome counts: they may have expected a phase to fail, but not to go on.
        tests = {str(entry.get("outcome")) for entry in self.tests}
        outcomes = tests | (phases & {"running"}) if tests else phases
        if outcomes - _KNOWN:
            return "failed"  # nobody knows what it means
        # Where there is nothing, it was killed before it began.
        return next((o for o in _OUTCOMES if o in outcomes), "running")

    @property
    def seconds(self) -> float:
        """The total duration of its phases, in seconds."""
        return sum(_seconds(entry) for entry in self.phases if not _depth(entry))


def _number(value: object, most: float) -> float:
    """Return a number of another program's, from 0 to `most`; 0 for what is none."""
    try:
        number = float(value) if isinstance(value, (int, float)) else 0.0
    except OverflowError:
        return 0.0
    return min(most, max(0.0, number)) if math.isfinite(number) else 0.0


def _seconds(entry: dict[str, Any]) -> float:
    return _number(entry.get("seconds"), _LONGEST)


def _depth(entry: dict[str, Any]) -> int:
    return int(_number(entry.get("depth"), _DEEPEST))


def _entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file; an invalid one for what cannot be read as such."""
    if not os.path.lexists(path):
        return []
    try:
        entries = json.loads(_text(path))
    except (ValueError, RecursionError):
        entries = None
    why = f"{path.name} is damaged: what it said is not known"
    unknown = {"name": path.name, "outcome": "void", "message": why, "error": why}
    return [entry if isinstance(entry, dict) else unknown for entry in (entries if isinstance(entries, list) else [0])]


def _text(path: Path, most: int = _MOST) -> str:
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
        Run(f.absolute().name, f, _entries(f / "phases.json"), _entries(f / TESTS), lab_failed=_text(f / LAB_FAILED))
        for f in folders
    ]


def _link(path: Path, root: Path, text: str) -> str:
    return f'<a href="{_address(path, root)}">{escape(text)}</a>'


def _address(path: Path, root: Path) -> str:
    return quote(os.fsencode(path.relative_to(root)))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}" if seconds >= 60 else f"{seconds:.1f} s"


def _pre(text: Any) -> str:
    return f"<pre>{escape(str(text))}</pre>" if text else ""


def _phases(run: Run) -> Iterable[str]:
    scale = _BAR_EM / max([run.seconds, *map(_seconds, run.phases), 0.001])
    yield "<table><tr><th>phase<th class=s>took<th><th>"
    for entry in run.phases:
        seconds, outcome = _seconds(entry), escape(str(entry.get("outcome")))
        indent = "&nbsp;" * 4 * _depth(entry)
        bar = f'<span class="bar {outcome}" style="width:{seconds * scale:.2f}em"></span>'
        yield f"<tr><td>{indent}{escape(str(entry.get('name')))}<td class=s>{_clock(seconds)}<td>{bar}"
        yield f'<td class="{outcome}">{"" if outcome == "passed" else outcome}{_pre(entry.get("error"))}'
    yield "</table>"


def _tests(run: Run) -> Iterable[str]:
    if not run.tests:
        return
    yield "<table><tr><th>test<th class=s>took<th>"
    for entry in run.tests:
        outcome = escape(str(entry.get("outcome")))
        yield f"<tr><td>{escape(str(entry.get('name')))}<td class=s>{_clock(_seconds(entry))}"
        yield f'<td class="{outcome}">{outcome}{_pre(entry.get("message"))}'
    yield "</table>"


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a pattern that have anything in them, sorted; none where they cannot be listed: what a host
    sent may nest too deeply."""
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file() and path.stat().st_size)
    except (OSError, RecursionError):
        return []


def _evidence(run: Run, root: Path) -> Iterable[str]:
    for picture in sorted(run.folder.glob("screens/*.png")):
        source = _address(picture, root)
        yield f'<a href="{source}"><img src="{source}" alt="screen of {escape(picture.stem)}"></a>'
    listed: set[Path] = set()
    for title, patterns in EVIDENCE:
        matching = dict.fromkeys(path for pattern in patterns for path in files_in(run.folder, pattern))
        files = [path for path in matching if path not in listed]
        listed.update(files)
        if files:
            links = " · ".join(_link(path, root, str(path.relative_to(run.folder))) for path in files)
            is_open = " open" if len(files) <= _MANY else ""
            yield f"<details{is_open}><summary>{escape(title)}</summary>{links}</details>"


def page(root: Path, all_runs: Sequence[Run]) -> str:
    """Return the page for these runs, with links relative to `root`."""
    lines = ["<!doctype html><html lang=en><meta charset=utf-8>", f"<title>{escape(root.absolute().name)}</title>"]
    lines += [f"<style>{_STYLE}</style><h1>{escape(root.absolute().name)}</h1>"]
    for run in (run for run in all_runs if run.outcome == "void"):
        lines.append(f"<section class=lab><h2 class=void>The lab itself failed: {escape(run.name)} is void</h2>")
        lines.append("<p>This says nothing about what was tested in it. Run it again.")
        failure = run.lab_failed or "\n".join(
            str(t.get("message", "")) for t in run.tests if t.get("outcome") == "void"
        )
        lines.append(f"{_pre(failure)}</section>")
    if len(all_runs) > 1:
        lines.append("<table><tr><th>scenario<th>outcome<th class=s>took")
        for run in all_runs:
            lines.append(f'<tr><td><a href="#{quote(os.fsencode(run.name))}">{escape(run.name)}</a>')
            lines.append(f'<td class="{run.outcome}">{run.outcome}<td class=s>{_clock(run.seconds)}')
        lines.append("</table>")
    for run in all_runs:
        lines.append(
            f'<h2 id="{escape(run.name)}">{escape(run.name)}: <span class="{run.outcome}">{run.outcome}</span></h2>'
        )
        lines += [*_tests(run), *_phases(run), *_evidence(run, root)]
    return "\n".join(lines) + "\n"


def check(root: Path) -> None:
    """Raise EvidenceError where another file is called as our page would be."""
    path = root / PAGE
    if path.is_symlink() or (path.exists() and not (path.is_file() and _STYLE in _text(path, len(_STYLE) + _HEAD))):
        raise EvidenceError(f"{path}: is no page of a run, and would be replaced: name another folder")


def write(root: Path) -> Path | None:
    """Write ROOT/index.html; returns its path, or None when there are no runs. Raises EvidenceError."""
    all_runs = runs(root)
    if not all_runs:
        return None
    check(root)
    temporary = root / f".{PAGE}.new"
    temporary.unlink(missing_ok=True)  # it may be a link
    # Names of files may be no UTF-8, and JSON may have halves of characters.
    temporary.write_bytes(page(root, all_runs).encode(errors="replace"))
    return temporary.replace(root / PAGE)
