"""Outcomes of tests, beside the evidence of the scenario that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.evidence.folder import mark_of
from lab.evidence.report import TESTS, write
from scenarios.catalogue.scheduling import unit_of

_MESSAGE_LINES = 5


class Results:
    """Outcomes of tests by scenario, stored with the evidence; only in the process that receives all reports."""

    def __init__(self, artifacts: Path) -> None:
        self._artifacts = artifacts
        self._seen: dict[str, dict[str, dict[str, object]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test's call, and any failure of its set-up or teardown."""
        if report.when != "call" and report.passed:
            return
        unit, name = unit_of(report.nodeid), report.nodeid.rpartition("::")[2].partition("[")[0]
        void = str(getattr(report, "void", ""))
        entry = {"name": name, "outcome": "void" if void else report.outcome, "seconds": round(report.duration, 3)}
        if report.failed:
            entry["message"] = void or "\n".join(str(report.longrepr).strip().splitlines()[-_MESSAGE_LINES:])
        self._seen.setdefault(unit, {})[f"{name} {report.when}" if report.when != "call" else name] = entry
        folder = self._artifacts / unit
        # Another run's evidence may lie there, if this one's lab was refused.
        if (mark := str(getattr(report, "mark", ""))) and mark_of(folder) == mark:
            (folder / TESTS).write_text(json.dumps(list(self._seen[unit].values()), indent=1))

    def pytest_sessionfinish(self) -> None:
        """Write the page of the whole run."""
        if self._seen:
            write(self._artifacts)
