"""`pytest -p ci.cputime`: processor time by test module, with that of the processes that tests have started.

The fast suite keeps both cores busy, so this is what its time is made of; `--durations` shows waiting too.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator

import pytest

SHOWN = 40  # modules in the summary
_NAME = "processor"


def _used() -> float:
    """Seconds of processor of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Processor:
    """Notes the time of each phase in its report, which xdist's workers send to this process, and adds it up."""

    def __init__(self) -> None:
        self._last = _used()
        self._modules: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the time of the phase that has ended."""
        report = yield
        now = _used()
        report.user_properties.append((_NAME, now - self._last))
        self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up a report's time, of this process's tests or a worker's."""
        seconds = sum(value for name, value in report.user_properties if name == _NAME and isinstance(value, float))
        self._modules[report.nodeid.partition("::")[0]] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the modules that cost most."""
        terminalreporter.section(f"processor time of tests: {sum(self._modules.values()):.1f} s")
        for name, seconds in sorted(self._modules.items(), key=lambda row: -row[1])[:SHOWN]:
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """In each worker as well: `-p` is handed on to them."""
    config.pluginmanager.register(Processor(), "processor time")
