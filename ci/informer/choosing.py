"""The jobs that a night with a limit should run: those that tell most for their time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ci.informer.arithmetic import durations
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.store import Row
from ci.informer.judging.review import watched

#: The worth of each reason to run a job. Each day since the last run adds one, up to a month. A job that never ran is
#: worth the more the more often it should run.
NEVER, SUSPICIOUS, CHANGED, TOUCHED, FAILED, FLAKY = 50.0, 30.0, 10.0, 15.0, 12.0, 8.0
#: The worth of a job that the verdict waits for: more than all of these.
DECIDES = 200.0
_MOST_DAYS = 30
#: Files whose change can change a run.
_ROOMS = ("drivers/", "installer/", "lab/", "scenarios/")


@dataclass(frozen=True)
class Candidate:
    """A job that may run, at least every so many days, and how long it is thought to take where nothing is known."""

    job: str
    days: int = 1
    seconds: float = 1800.0


@dataclass(frozen=True)
class Choice:
    """A job for tonight: how long it should take (seconds), and why it is worth its time."""

    job: str
    seconds: float
    worth: float
    why: str


def touched(job: str, files: Collection[str]) -> tuple[bool, bool]:
    """Tell whether any of these files can change a run of the job, and whether one is of its own subject by its name
    (`lab/machines/container/...` of `sno-ipv4-static-uefi@container`)."""
    telling = [file for file in files if file.startswith(_ROOMS) and "/tests/" not in file]
    words = {word for part in job.split("@") for word in part.replace("_", "-").split("-")}
    named = any(
        words & {piece for part in file.rsplit(".", 1)[0].split("/") for piece in part.split("_")} for file in telling
    )
    return bool(telling), named


def worth(
    candidate: Candidate,
    rows: Sequence[Row],
    today: date,
    changed: Callable[[str], Collection[str] | None],
    *,
    tested: Mapping[int, float],
) -> Choice:
    """Estimate the worth of a job's run. `changed` has the files that differ from a revision; None: it is not known.
    `tested` are the seconds that its runs' tests took: a row's are its installation's."""
    # A clock that was ahead dates runs into the future, until when the job would not be due.
    rows = [row for row in rows if row.day <= today]
    good = [row.seconds + tested.get(row.id, 0.0) for row in rows if row.outcome.good]
    took = durations.summary(good[-20:])
    # JUnit files without times give 0 s: the duration is not known then.
    seconds = took.p50 if took and took.p50 else candidate.seconds
    counted = [row for row in rows if row.outcome not in (Outcome.VOID, Outcome.SKIPPED)]
    if not counted:
        return Choice(candidate.job, seconds, NEVER + _MOST_DAYS / candidate.days, "never run")
    last, reasons = counted[-1], []
    watch = watched(rows)
    if watch.finding is not None or watch.wanted:
        reasons.append((SUSPICIOUS, "regressed" if watch.finding else "suspicious"))
    files = changed(last.revision)
    if files is None:
        reasons.append((CHANGED, "run on an unknown revision"))
    elif files:
        any_of_it, named = touched(candidate.job, files)
        if any_of_it:
            reasons.append((TOUCHED, "its subject changed") if named else (CHANGED, "code changed"))
    if last.outcome is Outcome.FAILED:
        reasons.append((FAILED, "failed last"))
    recent = counted[-10:]
    if flakes := sum(row.outcome is Outcome.FLAKE for row in recent):
        reasons.append((FLAKY * flakes / len(recent), f"{flakes} of {len(recent)} flaky"))
    age = (today - last.day).days
    if age >= candidate.days:
        reasons.append((float(min(age, _MOST_DAYS)), f"{age} days old"))
    return Choice(candidate.job, seconds, sum(value for value, _ in reasons), ", ".join(why for _, why in reasons))


def deciding(choice: Choice) -> Choice:
    """Return a choice that the verdict waits for: its job blocks, and has not run on the payload."""
    return replace(
        choice, worth=choice.worth + DECIDES, why=", ".join(filter(None, ("the verdict waits for it", choice.why)))
    )


def choose(choices: Sequence[Choice], seconds: float, side_by_side: int = 1) -> list[Choice]:
    """Return the jobs to run within so many seconds, in order: those worth most, then the shorter ones, then as given.

    So many run side by side, each where the first is done. What is worth nothing is left out, and what is too long is
    passed over for what comes next.
    """
    chosen, ends = [], [0.0] * side_by_side
    for choice in sorted(choices, key=lambda choice: (-choice.worth, choice.seconds)):
        first = min(ends)
        if choice.worth > 0 and choice.seconds <= seconds - first:
            chosen.append(choice)
            ends[ends.index(first)] = first + choice.seconds
    return chosen
