"""The results of a swarm's run, as data and for a person."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from installer.agent.swarm.run import Step, Swarm, rank

PERCENTILES = (50, 90, 99, 100)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds by percentile (nearest rank); ``p100`` is the longest."""
    return {f"p{percent}": _ms(rank(seconds, percent)) for percent in PERCENTILES}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def cpu_of(pid: int) -> tuple[float, float]:
    """(seconds of processor time so far, resident MiB) of a process. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _step(step: Step, limit: float | None) -> dict[str, Any]:
    return {
        "hosts": step.hosts,
        "registered": step.registered,
        "arriving_seconds": round(step.arriving, 1),
        "holding_seconds": round(step.holding, 1),
        "requests_per_second": round(step.requests / max(step.arriving + step.holding, 0.001), 1),
        "p99_arriving_ms": _ms(step.p99_arriving),
        "p99_ms": _ms(step.p99),
        "failures": step.failures,
        "swarm_late_ms": _ms(step.late),
        "good": step.good(limit),
    }


def report(
    swarm: Swarm, took: float, before: tuple[float, float] | None = None, after: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return the results of a run, ready for JSON; latencies in ms, ``before`` and ``after`` as of cpu_of.

    ``held``: hosts of the last step that was good.
    """
    limit = swarm.plan.limit
    by_kind = swarm.tally.seconds()
    tally = swarm.tally
    requests = sum(len(times) for times in by_kind.values())
    with tally.lock:
        outcome: dict[str, Any] = {
            "hosts": swarm.steps[-1].hosts if swarm.steps else 0,
            "infra_envs": len(swarm.plan.infra_envs),
            "registered": len(tally.registered),
            "held": max((step.hosts for step in swarm.steps if step.good(limit)), default=0),
            "limit_ms": None if limit is None else _ms(limit),
            "seconds": round(took, 1),
            "requests": requests,
            "requests_per_second": round(requests / took, 1),
            "p99_ms": _ms(rank([each for times in by_kind.values() for each in times], 99)),
            "latency_ms": {
                kind: {"count": len(times), **percentiles(times)} for kind, times in sorted(by_kind.items())
            },
            "steps": [_step(step, limit) for step in swarm.steps],
            "swarm_cpu_percent": round(100 * swarm.cpu / took, 1),
            "errors": dict(tally.errors),
            "refused": dict(tally.refused),
        }
    if before is not None and after is not None:
        cpu, grown = after[0] - before[0], after[1] - before[1]
        outcome["service"] = {
            "cpu_percent": round(100 * cpu / took, 1),
            "cpu_ms_per_request": round(1000 * cpu / max(1, requests), 2),
            "memory_mib": round(after[1], 1),
            "memory_kib_per_host": round(1024 * grown / max(1, outcome["registered"]), 1),
        }
    return outcome


def summary(outcome: dict[str, Any]) -> str:
    """Return a run's outcome (``report``) in lines for a person."""
    lines = [
        f"{outcome['registered']} of {outcome['hosts']} hosts registered in {outcome['infra_envs']} infra-envs",
        f"{outcome['requests']} requests in {outcome['seconds']} s: {outcome['requests_per_second']} a second, "
        f"99 % within {outcome['p99_ms']} ms; the swarm itself takes {outcome['swarm_cpu_percent']} % of one processor",
        f"{'latency in ms':<20} {'count':>7}" + "".join(f"{f'p{p}':>9}" for p in PERCENTILES),
    ]
    for kind, row in outcome["latency_ms"].items():
        lines.append(f"{kind:<20} {row['count']:>7}" + "".join(f"{row[f'p{p}']:>9}" for p in PERCENTILES))
    lines += [
        f"{row['hosts']} hosts: arriving {row['arriving_seconds']} s, p99 {row['p99_arriving_ms']} ms; "
        f"then {row['holding_seconds']} s, p99 {row['p99_ms']} ms; {row['requests_per_second']} requests a second; "
        f"the swarm itself up to {row['swarm_late_ms']} ms late"
        + (f"; {row['failures']} failed" if row["failures"] else "")
        for row in outcome["steps"]
    ]
    if outcome["limit_ms"] is not None:
        more = "" if outcome["held"] == outcome["hosts"] else f", {outcome['hosts']} are too many"
        lines.append(f"held with p99 under {outcome['limit_ms']:.0f} ms: {outcome['held']} hosts{more}")
    if "service" in outcome:
        used = outcome["service"]
        lines.append(
            f"service: {used['cpu_percent']} % of one processor, {used['cpu_ms_per_request']} ms a request, "
            f"{used['memory_mib']} MiB, {used['memory_kib_per_host']} KiB a host"
        )
    lines += [f"error: {text} ({count} times)" for text, count in sorted(outcome["errors"].items())]
    lines += [f"refused: {text} ({count} hosts)" for text, count in sorted(outcome["refused"].items())]
    return "\n".join(lines)
