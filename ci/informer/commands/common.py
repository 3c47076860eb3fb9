"""The common parts of commands: exit codes, arguments, where the history is."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Protocol

from ci.informer import triage
from ci.informer.errors import InformerError
from ci.informer.history.store import History
from ci.informer.judging import clusters
from lab.evidence import symptoms
from lab.host.paths import state_dir

ACCEPTED, REJECTED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3


class Adder(Protocol):
    """Adds a command: its name, what it does, and what --help says of it."""

    def __call__(self, name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        """Return the command's parser, for its options."""


def history_path(arguments: argparse.Namespace) -> Path:
    """Return the history's path: --history, else $NODE0_HISTORY, else the default."""
    chosen = arguments.history or os.environ.get("NODE0_HISTORY")
    return Path(chosen) if chosen else state_dir() / "history.db"


def opened(arguments: argparse.Namespace, *, make: bool = True) -> History:
    """Open the history, created if it does not exist and `make` is set, and print its warnings."""
    history = History(history_path(arguments), make=make)
    for line in history.warnings():
        print(f"node0-ci: {shown(line)}", file=sys.stderr)
    return history


def existing_history(arguments: argparse.Namespace) -> History:
    """Open the history for a command that only reads: a mistyped path must not create a new one."""
    return opened(arguments, make=False)


def check_chosen(history: History, arguments: argparse.Namespace) -> None:
    """Raise InformerError for a --job or a --payload that the history does not know."""
    if arguments.job and arguments.job not in (jobs := history.jobs()):
        known = f"; known are {', '.join(jobs)}" if jobs else ""
        raise InformerError(f"{history.path}: job: {arguments.job!r} has no runs{known}")
    if arguments.payload and not history.runs(payload=arguments.payload, ahead=True):
        raise InformerError(f"{history.path}: payload: {arguments.payload!r} has no runs")


def shown(line: str) -> str:
    """Return a line that is safe to print: control characters, which tested programs may have written, are escaped."""
    return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, each made safe for terminals."""
    for line in lines:
        print(shown(line))


def say(line: str) -> None:
    """Print a line at once: others wait for it."""
    print(shown(line), flush=True)


def day(value: str) -> date:
    """Return an argument that is a day of this century: verdicts count weeks back and forth from it."""
    try:
        chosen = date.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a day like 2026-11-23, not {value!r}") from None
    if not 2000 <= chosen.year < 2100:
        raise argparse.ArgumentTypeError(f"must be a day of this century, not {value!r}")
    return chosen


def name(value: str) -> str:
    """Return an argument that is a name."""
    if not value.strip() or not value.isprintable():
        raise argparse.ArgumentTypeError(f"must be a name, not {value!r}")
    return value


def number(value: str) -> int | None:
    """Return the number of a run, if a text is one."""
    return int(value) if re.fullmatch("[0-9]{1,18}", value) else None


def labelled(history: History) -> None:
    """Label and cluster what has come in."""
    triage.label(history, symptoms.read())
    clusters.assign(history)


def add_output(sub: argparse.ArgumentParser) -> None:
    """Add the option by which programs read what a command says."""
    sub.add_argument(
        "--output", choices=("text", "json"), default="text", help="what to print: text, or JSON for programs"
    )


def add_blocking(sub: argparse.ArgumentParser) -> None:
    """Add the options that make jobs block, or only inform."""
    sub.add_argument(
        "--blocking", action="append", default=[], metavar="PATTERN",
        help="let jobs of this name block a payload, whatever their history, and accept none before one has run on it; "
        "with * and ?, may be given again",
    )  # fmt: skip
    sub.add_argument(
        "--informing", action="append", default=[], metavar="PATTERN",
        help="let jobs of this name only inform, whatever their history or --blocking says; a payload that they have "
        "not run on may be accepted; may be given again",
    )  # fmt: skip
