"""Scheduling of scenarios under pytest-xdist: one at a time, the longest first by what earlier runs took.

All tests of one scenario id, in whichever file, share one installation, so they are one unit of work. xdist's own modes
give every worker two units at the start, so an hour-long install may queue behind another while other workers idle
(reference/lab.md §4).
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

# A unit that was never run: between a fast test and an install.
UNKNOWN_SECONDS = 600.0
_PARAMETER = re.compile(r"\[(?P<id>[a-z0-9_-]+)\]$")


def unit_of(nodeid: str) -> str:
    """Return the unit of work a test belongs to: its scenario id, or its file where it has none."""
    match = _PARAMETER.search(nodeid)
    return match["id"] if match else nodeid.split("::", 1)[0]


def longest_first(units: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """Units by recorded duration, the longest first, then by name; the same order in every worker."""
    return sorted(units, key=lambda unit: (-seconds.get(unit, UNKNOWN_SECONDS), unit))


class Durations:
    """Durations of each unit when it last passed, in seconds, in a JSON file that pytest processes share."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, float]:
        """Return the recorded durations; none when the file is absent or damaged."""
        try:
            recorded = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return {k: float(v) for k, v in recorded.items()} if isinstance(recorded, dict) else {}

    def update(self, seconds: dict[str, float]) -> None:
        """Merge what this process measured into the file."""
        if not seconds:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            merged = {**self.read(), **seconds}
            partial = self.path.with_suffix(".new")
            partial.write_text(json.dumps(merged, indent=1, sort_keys=True))
            partial.replace(self.path)


class ScenarioScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Assigns whole scenarios to workers, each one when the worker begins the last test of the previous one.

    A worker needs to know its next test before it runs one (pytest's ``nextitem``), so it cannot be any later.
    """

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        # Units come in the order in which tests were collected, which `reorder` has made longest first.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Assign the longest unit that is left. Behind a unit's only test the next one waits for all of that: at the
        end it is the shortest, so that who is free first has the longest."""
        assigned = [*self.assigned_work[node].values()]
        if assigned and len(assigned[-1]) == 1 and len(self.workqueue) <= len(self.nodes):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)


def reorder(items: list[pytest.Item], seconds: dict[str, float]) -> None:
    """Put the tests of the longest unit first, each unit's tests together, those that change the cluster last."""
    order = {unit: place for place, unit in enumerate(longest_first({unit_of(i.nodeid) for i in items}, seconds))}
    items.sort(key=lambda item: (order[unit_of(item.nodeid)], item.get_closest_marker("disruptive") is not None))
