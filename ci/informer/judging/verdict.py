"""A payload's verdict: accepted or rejected, with the figures that made it so."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date, timedelta
from enum import Enum
from fnmatch import fnmatchcase

from ci.informer.arithmetic.aggregate import GRACE_FROM, accepted, baseline, percentage_of, required_passes
from ci.informer.arithmetic.flakes import Outcome, attempts_wanted
from ci.informer.arithmetic.promotion import INFORMING_RUNS, Kind
from ci.informer.arithmetic.proportions import Counts, fisher_worse, wilson
from ci.informer.errors import InformerError
from ci.informer.history import again, work
from ci.informer.history.store import History, Row
from ci.informer.judging import slowness
from ci.informer.judging.clusters import first_seen
from ci.informer.judging.review import (
    KIND_DAYS,
    TestChange,
    counts_of,
    kind_of,
    record,
    regressed_tests,
    rejected,
    watched,
    within,
)
from ci.informer.judging.slowness import Slower
from ci.informer.judging.watching import Finding

#: The key of a plan's run in the history: PLAN/JOB/NUMBER.TRY.
_RUN = re.compile(r"run (?P<plan>[^/]+)/[^/]+/(?P<number>\d+)\.\d+")


#: Jobs whose lack is told where none blocks.
_NAMED = 2


def named(job: str, patterns: Iterable[str]) -> bool:
    """Tell whether a job is named by one of these patterns; one with [ in its name is named by that as well."""
    return any(job == pattern or fnmatchcase(job, pattern) for pattern in patterns)


class Decision(Enum):
    """The decision on a payload, or a job's word on it."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class JobVerdict:
    """One job's word on a payload."""

    job: str
    kind: Kind
    decision: Decision
    counts: Counts
    base: Counts
    why: str
    voids: int = 0
    more: int = 0  # runs that would decide, or settle a suspicion
    finding: Finding | None = None
    failures: Sequence[Row] = ()
    flaky: int = 0
    #: Clusters of its failures that were there before the payload, and since when.
    known: Mapping[str, date] = field(default_factory=dict)
    slower: Slower | None = None
    again: str = ""  # what makes its last failure again, or its last run
    wants: str = ""  # what it lacks for the next higher kind

    @property
    def components(self) -> list[str]:
        """The thing at fault, where that is known."""
        named = {row.component for row in self.failures} | ({self.slower.component} if self.slower else set())
        return sorted(named - {""})


@dataclass(frozen=True)
class Verdict:
    """Collect what all jobs say of a payload, the worst first."""

    payload: str
    decision: Decision
    why: str
    jobs: Sequence[JobVerdict]
    _: KW_ONLY
    tests: Sequence[TestChange] = field(default_factory=tuple)


def by_counts(counts: Counts, base: Counts) -> tuple[Decision, str, int]:
    """Judge a job's runs on a payload, with the reasons, and how many more would decide where these do not."""
    if not counts.runs:
        return Decision.UNDECIDED, "nothing but invalid runs", 1
    if counts.runs >= GRACE_FROM:
        wanted = max(1, required_passes(counts.runs, percentage_of(base)))
        why = f"{counts.passes} of {counts.runs} passed, {wanted} must at {percentage_of(base)} % of history"
        if base.runs and counts.failures:
            why += f" (p {fisher_worse(counts, base):.3f})"
        return (Decision.ACCEPTED if accepted(counts, base) else Decision.REJECTED), why, 0
    if counts.passes:
        return Decision.ACCEPTED, f"{counts.passes} of {counts.runs} passed", 0
    wanted = attempts_wanted(base)
    why = f"{counts.failures} failed in a row; believed after {wanted} (Beta-binomial of {base})"
    if counts.runs >= wanted:
        return Decision.REJECTED, why, 0
    # From three runs on the table decides.
    return Decision.UNDECIDED, why, min(wanted, GRACE_FROM) - counts.runs


def planned_runs(rows: Iterable[Row]) -> int:
    """Count the runs of a job in the largest of its plans; an invalid run and its repetitions count once."""
    by_plan: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if match := _RUN.fullmatch(row.key):
            by_plan[match["plan"]].add(match["number"])
    return max(map(len, by_plan.values()), default=0)


def settled(decision: Decision, counts: Counts, base: Counts, pending: int) -> bool:
    """Tell whether the decision stays the same however so many pending runs end."""
    ends = (Counts(pending), Counts(pending, pending))
    return all(by_counts(counts + end, base)[0] is decision for end in ends)


@dataclass(frozen=True, kw_only=True)
class _Context:
    """The material that jobs are judged by: the payload, payloads that are no history (`bad`: rejected, or the same
    release by another name), the patterns for kinds that users gave, and when each cluster was first seen."""

    payload: str
    bad: Collection[str]
    blocking: Sequence[str]
    informing: Sequence[str]
    seen: Mapping[str, date]
    #: Plans of runs that are still to come, by job.
    pending: Mapping[str, Sequence[str]]

    def kind(self, rows: Sequence[Row], day: date) -> tuple[Kind, str]:
        """Return the kind of a job of which there are rows, on a day, and what it lacks for the next higher one."""
        job = rows[0].job
        if named(job, self.informing):
            return Kind.INFORMING, ""
        return (Kind.BLOCKING, "") if named(job, self.blocking) else kind_of(rows, day, self.bad)


def _judged(history: History, rows: Sequence[Row], context: _Context) -> JobVerdict:
    job, seen = rows[0].job, context.seen
    ours = [row for row in rows if row.payload == context.payload]
    first, day = ours[0].day, ours[-1].day
    others = [row for row in rows if row.payload != context.payload and row.payload not in context.bad]
    kind, wants = context.kind(others or rows[:1], first)
    counts, base = counts_of(ours), counts_of(within(others, *baseline(day)))
    decision, why, more = by_counts(counts, base)
    if decision is Decision.ACCEPTED and counts.runs < GRACE_FROM <= (runs := planned_runs(ours)):
        # One or two passes are no aggregated job, which was asked for.
        decision, more = Decision.UNDECIDED, GRACE_FROM - counts.runs
        why += f"; of {runs} runs that were asked for, {runs - counts.runs} came to nothing"
    # Runs of other payloads since this one came say nothing about it.
    watch = watched([*(row for row in others if row.day < first), *ours])
    finding = watch.finding
    if finding is not None:
        low, high = wilson(finding.sample)
        why += f"; regressed since {finding.since}: {finding.sample} ({low:.0%} to {high:.0%}), before {finding.base}"
        if decision is Decision.ACCEPTED and finding.since >= first:
            decision = Decision.REJECTED
    elif watch.wanted and decision is not Decision.REJECTED:
        more = max(more, watch.wanted)
    oldest = first - timedelta(days=KIND_DAYS)
    slow = slowness.slowest(history, ours, [row for row in others if oldest <= row.day and row.began < ours[0].began])
    if slow is not None:
        why += f"; {slow}"
        decision = Decision.REJECTED if decision is Decision.ACCEPTED else decision
    if (pending := context.pending.get(job)) and not settled(decision, counts, base, len(pending)):
        plans = ", ".join(dict.fromkeys(pending))
        why += f"; {len(pending)} of its runs are still to come (node0-ci resume {plans}, or --forget)"
        decision, more = Decision.UNDECIDED, 0
    failures = [row for row in ours if row.outcome is Outcome.FAILED]
    return JobVerdict(
        job=job,
        kind=kind,
        decision=decision,
        counts=counts,
        base=base,
        why=why,
        voids=sum(row.outcome is Outcome.VOID for row in ours),
        more=more,
        finding=finding,
        failures=failures,
        flaky=sum(row.outcome is Outcome.FLAKE for row in ours),
        slower=slow,
        again=again.command(history, (failures or ours)[-1]),
        wants=wants,
        known={row.cluster: seen[row.cluster] for row in failures if row.cluster and seen[row.cluster] < first},
    )


def _missing_blocking(history: History, names: Collection[str], day: date, context: _Context) -> list[str]:
    """Jobs that have earned to block by a day, and have not run on the payload (`names` have)."""
    busy = history.busy(day - timedelta(days=KIND_DAYS), day, INFORMING_RUNS)
    return [job for job in busy if job not in names and context.kind(history.runs(job=job), day)[0] is Kind.BLOCKING]


def _decided(jobs: Sequence[JobVerdict], patterns: Sequence[str], missing: Sequence[str]) -> tuple[Decision, str]:
    """Decide on the payload; `patterns` are of jobs that were said to block, `missing` are blocking jobs
    that have not run on it."""
    blocking = [job for job in jobs if job.kind is Kind.BLOCKING]
    absent = [pattern for pattern in patterns if not any(named(job.job, [pattern]) for job in jobs)]
    if not any(verdict.decision is Decision.REJECTED for verdict in blocking):
        if absent:
            # The pattern is misspelt, or its jobs have not run yet.
            return Decision.UNDECIDED, f"--blocking {' '.join(map(repr, absent))}: no such job has run on it"
        if missing:
            which = ", ".join(missing)
            count = f"{len(missing)} blocking job{'s have' if len(missing) > 1 else ' has'}"
            return Decision.UNDECIDED, f"{count} not run on it: {which}; --informing PATTERN goes without"
    if not blocking:
        lacks = [f"{job.job} has {job.wants}" for job in jobs if job.wants][:_NAMED]
        why = "no job blocks: name some with --blocking"
        return Decision.UNDECIDED, f"{why}, or mend what they lack: {'; '.join(lacks)}" if lacks else why
    for decision in (Decision.REJECTED, Decision.UNDECIDED):
        if deciding := [verdict for verdict in blocking if verdict.decision is decision]:
            at_fault = sorted({component for verdict in deciding for component in verdict.components})
            whose = f"; {'components' if len(at_fault) > 1 else 'component'} {', '.join(at_fault)}" if at_fault else ""
            jobs_of_it = ", ".join(verdict.job for verdict in deciding)
            return decision, f"{len(deciding)} of {len(blocking)} blocking jobs: {jobs_of_it}{whose}"
    return Decision.ACCEPTED, f"all {len(blocking)} blocking jobs"


def judge(
    history: History,
    payload: str,
    blocking: Sequence[str] = (),
    informing: Sequence[str] = (),
    *,
    remember: bool = True,
) -> Verdict:
    """Judge a payload by its runs, and remember whether it was accepted, if `remember`. `blocking` are patterns of jobs
    that block whatever they have earned, `informing` of those that do not, also where both name them. Raises
    InformerError where nothing has run on it."""
    rows = history.runs(payload=payload)
    if not rows:
        payloads = ", ".join(history.payloads()[-3:]) or "none"
        raise InformerError(f"{history.path}: payload: {payload!r} has no runs (the last that have: {payloads})")
    context = _Context(
        payload=payload,
        bad={*rejected(history), *history.aliases(payload)} - {payload},
        blocking=blocking,
        informing=informing,
        seen=first_seen(history),
        pending=work.pending(history, payload),
    )
    names = sorted({row.job for row in rows})
    verdicts = []
    for job in names:
        of_job = history.runs(job=job)
        record(history, of_job)
        verdicts.append(_judged(history, of_job, context))
    order = (Decision.REJECTED, Decision.UNDECIDED, Decision.ACCEPTED)
    kinds = (Kind.BLOCKING, Kind.INFORMING, Kind.NEW)
    verdicts.sort(key=lambda job: (kinds.index(job.kind), order.index(job.decision), job.job))
    decision, why = _decided(verdicts, blocking, _missing_blocking(history, names, rows[0].day, context))
    if remember:
        good = None if decision is Decision.UNDECIDED else decision is Decision.ACCEPTED
        history.judge(payload, good=good)
    return Verdict(payload, decision, why, verdicts, tests=regressed_tests(history, rows[-1].day))
