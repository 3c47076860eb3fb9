"""The xdist scheduler of scenarios, with the real xdist and tests that only note who ran them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scenarios.scheduling import Durations, longest_first, unit_of

ROOT = Path(__file__).parents[2]
CONFTEST = """
import json, os
from scenarios.scheduling import ScenarioScheduling, reorder

SECONDS = {"test_x.py[long]": 300.0, "test_x.py[middle]": 200.0, "test_x.py[short]": 100.0}

def pytest_xdist_make_scheduler(config, log):
    return ScenarioScheduling(config, log)

def pytest_collection_modifyitems(items):
    reorder(items, SECONDS)
"""
TESTS = """
import os, pytest

pytestmark = pytest.mark.parametrize("unit", ["short", "middle", "long"], scope="module")

def note(unit):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{os.environ['PYTEST_XDIST_WORKER']} {unit}\\n")

def test_one(unit):
    note(unit)

def test_two(unit):
    note(unit)

def test_three(unit):
    note(unit)
"""


def test_unit_is_file_and_scenario_id():
    assert unit_of("scenarios/test_a.py::test_x[sno-ipv4-static-uefi]") == "scenarios/test_a.py[sno-ipv4-static-uefi]"
    assert unit_of("scenarios/test_a.py::test_x") == "scenarios/test_a.py"


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e6)), st.sets(st.text(min_size=1)))
def test_order_is_total_and_longest_first(seconds, units):
    order = longest_first(units, seconds)
    assert sorted(order) == sorted(units)
    assert order == longest_first(sorted(units), seconds)
    known = [seconds[u] for u in order if u in seconds]
    assert known == sorted(known, reverse=True)


def test_durations_survive_damage_and_merge(tmp_path):
    file = Durations(tmp_path / "durations.json")
    file.path.write_text("{half")
    assert file.read() == {}
    file.update({"a": 1.0})
    file.update({"b": 2.0})
    assert file.read() == {"a": 1.0, "b": 2.0}
    assert json.loads(file.path.read_text()) == {"a": 1.0, "b": 2.0}


def test_each_unit_runs_in_one_worker_and_the_longest_start_first(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_x.py").write_text(TESTS)
    seen = tmp_path / "seen"
    env = {**os.environ, "SEEN": str(seen), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in seen.read_text().splitlines()]
    workers = {unit: {worker for worker, u in lines if u == unit} for unit in ("long", "middle", "short")}
    assert all(len(who) == 1 for who in workers.values()), workers
    assert workers["long"] != workers["middle"], "the two longest did not start side by side"
    assert len(lines) == 9
