"""A test that has a daemon of its lab killed, to see what is said of that, is void by whatever else ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
from types import SimpleNamespace
import pytest
from lab.supervisor.plan import Ended
from scenarios.catalogue.scheduling import unit_of
from scenarios.conftest import LABS

@pytest.mark.ends_daemon("registry")
@pytest.mark.parametrize(("name", "asked"), [("registry", True), ("registry", False), ("http", True), ("http", False)])
def test_x(request, name, asked):
    lab = SimpleNamespace(ended=lambda: [Ended(name, -9, "01:02:03", asked=asked)])
    request.session.stash.setdefault(LABS, {})[unit_of(request.node.nodeid)] = lab
"""


def test_a_daemon_that_dies_by_itself_is_the_labs_failure_whoever_is_to_die(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from scenarios.conftest import pytest_report_teststatus, pytest_runtest_makereport\n"
    )
    (tmp_path / "test_x.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  ends_daemon(name): x\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NODE0_CACHE": str(tmp_path)}
    completed = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "PASSED test_x.py::test_x[registry-True]" in completed.stdout, completed.stdout
    assert "1 passed, 3 errors" in completed.stdout, completed.stdout
