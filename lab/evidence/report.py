"""One page for a run: what was tested, how it ended, how long each phase took, and where the evidence is.

`index.html` lies in the artefacts' directory and needs nothing but the files beside it. It is made from phases.json,
tests.json (outcomes of tests, if there were any), and the files that exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

PAGE = "index.html"
TESTS = "tests.json"
LAB_FAILED = "lab-failed.txt"
# The worst first: a void run says nothing about what was tested, so void outranks everything else.
_OUTCOMES = ("void", "failed", "running")
_BAR_EM = 24.0
_MANY = 12
# Title, and the patterns of its files below the run's directory; a file that an earlier title has listed is left out.
_EVIDENCE = (
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
        """void (the lab itself failed), failed, running (or killed while it ran), or passed."""
        # A test that ends a daemon itself is the only one that passes in a lab that has failed.
        if self.lab_failed and {str(entry.get("outcome")) for entry in self.tests} != {"passed"}:
            return "void"
        outcomes = {str(entry.get("outcome")) for entry in (*self.phases, *self.tests)}
        # Where tests were run, their outcome counts: they may have expected a phase to fail.
        if self.tests:
            outcomes = {str(entry.get("outcome")) for entry in self.tests}
        return next((o for o in _OUTCOMES if o in outcomes), "passed")

    @property
    def seconds(self) -> float:
        """The total duration of its phases, in seconds."""
        return sum(float(entry.get("seconds") or 0) for entry in self.phases if not entry.get("depth"))


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def runs(root: Path) -> list[Run]:
    """The runs below a directory, or the run that it is itself; sorted by name."""
    folders = [root] if (root / "phases.json").exists() else sorted(p.parent for p in root.glob("*/phases.json"))
    return [
        Run(f.absolute().name, f, _entries(f / "phases.json"), _entries(f / TESTS), lab_failed=_text(f / LAB_FAILED))
        for f in folders
    ]


def _link(path: Path, root: Path, text: str) -> str:
    return f'<a href="{quote(str(path.relative_to(root)))}">{escape(text)}</a>'


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}" if seconds >= 60 else f"{seconds:.1f} s"


def _pre(text: Any) -> str:
    return f"<pre>{escape(str(text))}</pre>" if text else ""


def _phases(run: Run) -> Iterable[str]:
    scale = _BAR_EM / max([run.seconds, *(float(entry.get("seconds") or 0) for entry in run.phases), 0.001])
    yield "<table><tr><th>phase<th class=s>took<th><th>"
    for entry in run.phases:
        seconds, outcome = float(entry.get("seconds") or 0), escape(str(entry.get("outcome")))
        indent = "&nbsp;" * 4 * int(entry.get("depth") or 0)
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
        yield f"<tr><td>{escape(str(entry.get('name')))}<td class=s>{_clock(float(entry.get('seconds') or 0))}"
        yield f'<td class="{outcome}">{outcome}{_pre(entry.get("message"))}'
    yield "</table>"


def _evidence(run: Run, root: Path) -> Iterable[str]:
    for picture in sorted(run.folder.glob("screens/*.png")):
        source = quote(str(picture.relative_to(root)))
        yield f'<a href="{source}"><img src="{source}" alt="screen of {escape(picture.stem)}"></a>'
    listed: set[Path] = set()
    for title, patterns in _EVIDENCE:
        matching = dict.fromkeys(p for pattern in patterns for p in sorted(run.folder.glob(pattern)) if p.is_file())
        files = [path for path in matching if path.stat().st_size and path not in listed]
        listed.update(files)
        if files:
            links = " · ".join(_link(path, root, str(path.relative_to(run.folder))) for path in files)
            is_open = " open" if len(files) <= _MANY else ""
            yield f"<details{is_open}><summary>{escape(title)}</summary>{links}</details>"


def page(root: Path, all_runs: Sequence[Run]) -> str:
    """The page for these runs, with links relative to `root`."""
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
            lines.append(f'<tr><td><a href="#{quote(run.name)}">{escape(run.name)}</a>')
            lines.append(f'<td class="{run.outcome}">{run.outcome}<td class=s>{_clock(run.seconds)}')
        lines.append("</table>")
    for run in all_runs:
        lines.append(
            f'<h2 id="{escape(run.name)}">{escape(run.name)}: <span class="{run.outcome}">{run.outcome}</span></h2>'
        )
        lines += [*_tests(run), *_phases(run), *_evidence(run, root)]
    return "\n".join(lines) + "\n"


def write(root: Path) -> Path | None:
    """Write ROOT/index.html; returns its path, or None when there are no runs."""
    all_runs = runs(root)
    if not all_runs:
        return None
    temporary = root / f".{PAGE}.new"
    temporary.write_text(page(root, all_runs))
    return temporary.replace(root / PAGE)
