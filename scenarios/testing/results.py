"""Outcomes of tests, beside the evidence of the scenario that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.evidence.folder import mark_of
from lab.evidence.record import TESTS
from lab.evidence.report import write
from lab.evidence.summary import publish
from scenarios.catalogue.scheduling import unit_of

_MESSAGE_LINES = 5
#: The property of a test that has the outcomes of what it ran, as entries like those of tests.
WITHIN = "within"


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
        for property_name, value in report.user_properties:
            if property_name == WITHIN and isinstance(value, list):
                self._seen[unit] |= {f"{name} {within['name']}": within for within in value}
        if figures := {key: value for key, value in report.user_properties if isinstance(value, str)}:
            entry["figures"] = figures
        folder = self._artifacts / unit
        # Another run's evidence may lie there, if this one's lab was refused.
        if (mark := str(getattr(report, "mark", ""))) and mark_of(folder) == mark:
            (folder / TESTS).write_text(json.dumps(list(self._seen[unit].values()), indent=1))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the pages and the summary of the run, once all labs have left their evidence."""
        if not self._seen and (exitstatus != pytest.ExitCode.INTERRUPTED or session.config.option.collectonly):
            return
        for unit in self._seen:
            if mark_of(self._artifacts / unit):
                write(self._artifacts / unit)
        if write(self._artifacts):
            publish(self._artifacts)
