"""The data of a run in a history."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta

from ci.informer.arithmetic.flakes import Outcome, of_attempts

#: The longest duration in seconds that is believed of a run or a part of it.
LONGEST = 366 * 86400.0
#: The default time limit of a run, in seconds.
LIMIT = 7200.0
#: A scenario's id.
SCENARIO = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_BEGAN = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class Step:
    """A phase of a run, in the order in which they began; `at` and `seconds` count from the run's begin."""

    name: str
    at: float
    seconds: float
    outcome: Outcome
    _: KW_ONLY
    depth: int = 0
    error: str = ""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one test."""

    test: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Run:
    """One run of a job on a payload. `began` is UTC in ISO 8601 (2026-11-23T22:00:00Z); `key` is the same whenever the
    same run is loaded again; `evidence` has texts by their kind: console, journal, event, wait-for, lab, message."""

    job: str
    payload: str
    key: str
    began: str
    _: KW_ONLY
    seconds: float
    attempts: Sequence[Attempt] = ()
    steps: Sequence[Step] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    #: What its artefacts say makes it again, for a shell.
    command: str = ""
    #: The marks of its folder (lab.evidence.folder), which prove that it is this run's.
    mark: str = ""
    #: Why it says nothing about the product; empty when it does.
    void: str = ""
    #: The outcome where there are no attempts.
    ended: Outcome = Outcome.PASSED

    @property
    def tests(self) -> dict[str, list[Attempt]]:
        """Attempts by test."""
        by_test: dict[str, list[Attempt]] = {}
        for attempt in self.attempts:
            by_test.setdefault(attempt.test, []).append(attempt)
        return by_test

    @property
    def outcome(self) -> Outcome:
        """The worst of its tests' outcomes; a flake counts as a pass."""
        if self.void:
            return Outcome.VOID
        outcomes = {of_attempts([attempt.outcome for attempt in attempts]) for attempts in self.tests.values()}
        worst = (Outcome.VOID, Outcome.FAILED, Outcome.FLAKE, Outcome.PASSED, Outcome.SKIPPED)
        return next((finding for finding in worst if finding in outcomes), self.ended)

    @property
    def reason(self) -> str:
        """The first message of what failed; empty when nothing did."""
        messages = [self.void, *(attempt.message for attempt in self.attempts if attempt.outcome is Outcome.FAILED)]
        messages += [step.error for step in self.steps if step.outcome is Outcome.FAILED]
        return next((text for text in messages if text), "")


def seconds_of(value: object) -> float:
    """Return a duration as another program wrote it; 0 for what is not a duration."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LONGEST else 0.0


def text_of(value: object) -> str:
    """Return a text as another program wrote it. JSON may have halves of characters, which no file or page can hold."""
    return str(value).encode(errors="replace").decode()


def latest() -> str:
    """Return the latest possible begin of a run, as `Run.began` is written: a day from now, as clocks differ. A
    run with a later date had a wrong clock, so that nobody knows when it really began."""
    return f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def began_of(text: str) -> str:
    """Check a run's begin, as `Run.began` is written. Raises ValueError for another form, and another century: all that
    judges counts days back and forth from it."""
    if not _BEGAN.fullmatch(text):
        raise ValueError(f"{text!r}: must be like 2026-11-23T22:00:00Z")
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    return text
