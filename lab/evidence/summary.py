"""A run's or several runs' summary in Markdown: beside the page, and where GitHub shows it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from installer.common.redact import redact
from lab.evidence import reason as reasons
from lab.evidence.record import Run, clock, figures_of, runs, word

log = logging.getLogger(__name__)

#: The file, and how it begins.
SUMMARY, HEAD = "summary.md", "| run | outcome | took | error |"
#: The variable by which GitHub's runners name a file, and how much they take of a step.
GITHUB = "GITHUB_STEP_SUMMARY"
_MOST = 900_000
_ICONS = {"passed": "✅", "skipped": "⏭️", "failed": "❌"}


def summary(all_runs: Sequence[Run]) -> str:
    """Return the summary of these runs: a table, what their tests measured, then each red run's reason."""
    lines = [HEAD, "| --- | --- | --- | --- |"]
    found = [(run, reasons.of(run)) for run in all_runs]
    for run, why in found:
        error = _cell(why.error) if why else ""
        outcome = f"{_ICONS.get(run.outcome, '⚪')} {word(run.outcome)}"
        lines.append(f"| {_cell(run.name)} | {outcome} | {clock(run.seconds)} | {error} |")
    figures = [
        f"- {_plain(run.name)}, {_plain(str(entry.get('name')))}: {_plain(name)}: {_plain(redact(value))}"
        for run, _ in found for entry in run.tests for name, value in figures_of(entry).items()
    ]  # fmt: skip
    lines += ["", *figures] if figures else []
    for run, why in found:
        if why is not None:
            lines += _reason(run, why)
    return "\n".join(lines) + "\n"


def _reason(run: Run, why: reasons.Reason) -> Iterable[str]:
    yield from ("", f"### {_plain(run.name)}: {word(run.outcome)}", "", *_fenced(why.error))
    yield from ("", f"**Cause**: {_plain(why.cause)}. {_plain(why.diagnosis.advice)}", "")
    yield from (f"- {name}: {_code(value)}" for name, value in run.about.items())
    for machine, tail in why.consoles.items():
        yield from ("", f"<details><summary>console of {_plain(machine)}</summary>", "", *_fenced(tail), "")
        yield "</details>"


def _plain(text: str) -> str:
    """Return a text of one line in which nothing is Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", " ".join(text.split()))


def _cell(text: str) -> str:
    return _plain(text.strip().partition("\n")[0][:200])


def _code(text: str) -> str:
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}"


def _fenced(text: str) -> Iterable[str]:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield from (fence, text, fence)


def write(root: Path) -> Path:
    """Write ROOT/summary.md of the runs below a folder; returns its path."""
    path = root / SUMMARY
    path.write_text(summary(runs(root)), errors="replace")
    return path


def publish(root: Path) -> None:
    """Append the summary to the file that GitHub shows, where there is one; warn where it cannot be written, as in a
    container to which the runner's variables are handed on without its files."""
    if (place := os.environ.get(GITHUB)) and (root / SUMMARY).is_file():
        text = (root / SUMMARY).read_text()
        try:
            with Path(place).open("a") as file:
                file.write(text[: max(0, _MOST - file.tell())])
        except OSError as error:
            log.warning("%s: %s: %s", GITHUB, place, error.strerror)
