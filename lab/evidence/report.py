"""One page for a run: what was tested, how it ended, how long each phase took, and where the evidence is.

`index.html` lies in the artefacts' directory and needs nothing but the files beside it. It is made from phases.json,
tests.json (outcomes of tests, if there were any), and the files that exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from installer.common.redact import redact
from lab.errors import EvidenceError
from lab.evidence import reason, summary
from lab.evidence.reason import Reason
from lab.evidence.record import (
    COMMAND,
    LAB_FAILED,
    Run,
    clock,
    depth_of,
    figures_of,
    files_in,
    runs,
    seconds_of,
    text_in,
    word,
)

PAGE = "index.html"
_BAR_EM = 24.0
_MANY = 12
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
# By which a page of ours is known, of this version and earlier ones.
_MARK = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222"
_STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:.5rem 0 1rem}.scroll{overflow-x:auto}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}h1,dd,li,td,a{overflow-wrap:anywhere}
h2{margin:2rem 0 .3rem;border-top:1px solid #ccc;padding-top:1rem}.s{text-align:right;font-variant-numeric:tabular-nums}
.passed{color:#176b2c}.failed,.error{color:#b3261e;font-weight:600}.void,.interrupted{color:#6a1b9a;font-weight:600}
.reason{border-left:.3rem solid #b3261e;padding:.1rem 0 .1rem 1rem;background:#fdf6f5}
.lab{border-color:#6a1b9a;background:#faf5fc}.running,.skipped{color:#8a5a00}
.bar{display:inline-block;height:.7em;background:#8fb2d9;max-width:40vw}.bar.failed{background:#e0928c}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}
.console{font-size:12px;background:#222;color:#eee;padding:.5rem;max-height:20rem;overflow:auto}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:#57606a}dd{margin:0}
img{max-width:100%;max-height:9rem;border:1px solid #ccc;margin-right:.5rem}details{margin:.2rem 0}a{color:#0b57a4}
"""


_SCROLL = '<div class=scroll tabindex=0 role=region aria-label="{}">'


def _link(path: Path, root: Path, text: str) -> str:
    return f'<a href="{_address(path, root)}">{escape(text)}</a>'


def _address(path: Path, root: Path) -> str:
    return quote(os.fsencode(path.relative_to(root)))


def _pre(text: Any) -> str:
    return f"<pre>{escape(redact(str(text)))}</pre>" if text else ""


def _phases(run: Run) -> Iterable[str]:
    scale = _BAR_EM / max([run.seconds, *map(seconds_of, run.phases), 0.001])
    yield f"{_SCROLL.format(f'phases of {escape(run.name)}')}<table><tr><th>phase<th class=s>took<th>share<th>outcome"
    for entry in run.phases:
        seconds, outcome = seconds_of(entry), escape(str(entry.get("outcome")))
        indent = "&nbsp;" * 4 * depth_of(entry)
        bar = f'<span class="bar {outcome}" style="width:{seconds * scale:.2f}em"></span>'
        yield f"<tr><td>{indent}{escape(str(entry.get('name')))}<td class=s>{clock(seconds)}<td>{bar}"
        yield f'<td class="{outcome}">{"" if outcome == "passed" else word(outcome)}{_pre(entry.get("error"))}'
    yield "</table></div>"


def _tests(run: Run) -> Iterable[str]:
    if not run.tests:
        return
    yield f"{_SCROLL.format(f'tests of {escape(run.name)}')}<table><tr><th>test<th class=s>took<th>outcome"
    for entry in run.tests:
        outcome = escape(str(entry.get("outcome")))
        figures = _pre("\n".join(f"{name}: {value}" for name, value in figures_of(entry).items()))
        yield f"<tr><td>{escape(str(entry.get('name')))}{figures}<td class=s>{clock(seconds_of(entry))}"
        yield f'<td class="{outcome}">{word(outcome)}{_pre(entry.get("message"))}'
    yield "</table></div>"


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


def _reason(run: Run, why: Reason, root: Path) -> Iterable[str]:
    """Yield a red run's reason: the last error, its cause, the consoles' ends."""
    invalid = run.outcome in reason.INVALID
    yield f'<section class="reason{" lab" if invalid else ""}">{_pre(why.error)}'
    if invalid:
        who = "The lab itself failed: this" if run.outcome == "void" else "This"
        yield f"<p>{who} run is invalid, and says nothing about what was tested in it. Run it again."
    yield f"<p>Cause: <strong>{escape(why.cause)}</strong>. {escape(why.diagnosis.advice)}"
    for place, (machine, tail) in enumerate(why.consoles.items()):
        log = _link(run.folder / "console" / f"{machine}.txt", root, "all of it")
        yield f"<details{'' if place else ' open'}><summary>Last lines of {escape(machine)}'s console</summary>"
        label = f"console of {escape(machine)} in {escape(run.name)}"
        yield f'<pre class=console tabindex=0 role=region aria-label="{label}">'
        yield f"{escape(tail)}</pre>"
        yield f"<p>{log}</details>"
    yield "</section>"


def _about(run: Run) -> Iterable[str]:
    if run.about:
        yield "<dl>"
        yield from (f"<dt>{escape(name)}<dd>{_fact(name, value)}" for name, value in run.about.items())
        yield "</dl>"


def _fact(name: str, value: str) -> str:
    return f"<code>{escape(value)}</code>" if name == COMMAND else escape(value)


def page(root: Path, all_runs: Sequence[Run]) -> str:
    """Return the page for these runs, with links relative to `root`."""
    title = escape(root.absolute().name)
    lines = ["<!doctype html><html lang=en><meta charset=utf-8>"]
    lines += [f'<meta name=viewport content="width=device-width,initial-scale=1"><title>{title}</title>']
    lines += [f"<style>{_STYLE}</style><main>"]
    whys = [reason.of(run) for run in all_runs]
    if len(all_runs) != 1:
        lines += [f"<h1>{title}</h1>", _SCROLL.format("runs")]
        lines += ["<table><tr><th>run<th>outcome<th class=s>took<th>error"]
        for run, why in zip(all_runs, whys, strict=True):
            lines.append(f'<tr><td><a href="#{quote(os.fsencode(run.name))}">{escape(run.name)}</a>')
            lines.append(f'<td class="{run.outcome}">{escape(word(run.outcome))}<td class=s>{clock(run.seconds)}')
            lines.append(f"<td>{escape(why.error.partition(chr(10))[0][:200]) if why else ''}")
        lines.append("</table></div>")
    head = "h2" if len(all_runs) != 1 else "h1"
    for run, why in zip(all_runs, whys, strict=True):
        state = f'<span class="{run.outcome}">{escape(word(run.outcome))}</span>'
        lines.append(f'<{head} id="{escape(run.name)}">{escape(run.name)}: {state}</{head}>')
        lines += [
            *(_reason(run, why, root) if why else ()),
            *_about(run),
            *_tests(run),
            *_phases(run),
            *_evidence(run, root),
        ]
    return "\n".join([*lines, "</main>"]) + "\n"


def check(root: Path) -> None:
    """Raise EvidenceError where another file is called as our page or its summary would be."""
    for path, mark in ((root / PAGE, _MARK), (root / summary.SUMMARY, summary.HEAD)):
        is_ours = path.is_file() and not path.is_symlink() and mark in text_in(path, len(mark) + _HEAD)
        if os.path.lexists(path) and not is_ours:
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
    summary.write(root)
    return temporary.replace(root / PAGE)
