"""The xdist scheduler of scenarios, with the real xdist and tests that only note who ran them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci.grouping import LABS, LONG, TOGETHER
from ci.tests.pytest_kit import collected, pytest_in
from scenarios.catalogue.scheduling import Durations, ScenarioScheduling, longest_first, unit_of

ROOT = Path(__file__).parents[3]
CONFTEST = """
import json, os
from scenarios.catalogue.scheduling import ScenarioScheduling, reorder

SECONDS = {"long": 300.0, "middle": 200.0, "short": 100.0}

def pytest_xdist_make_scheduler(config, log):
    return ScenarioScheduling(config, log)

def pytest_configure(config):
    config.addinivalue_line("markers", "disruptive: runs last")

def pytest_collection_modifyitems(items):
    reorder(items, SECONDS)
"""
TESTS = """
import os, pytest

pytestmark = pytest.mark.parametrize("unit", ["short", "middle", "long"], scope="session")

def note(unit, test):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{os.environ.get('PYTEST_XDIST_WORKER', 'alone')} {unit} {test}\\n")

@pytest.mark.disruptive
def test_breaks(unit):
    note(unit, "breaks")

def test_looks(unit):
    note(unit, __name__)
"""

# Only the plug-in under test: loading all of them takes 0.15 s of processor time in each process.
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider")
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run_tests(folder: Path, conftest: str, modules: Mapping[str, str], *options: str) -> list[list[str]]:
    """Run these test modules (text by path) in a pytest of their own; the words of each line of the file SEEN."""
    for name, text in {"conftest": conftest, **modules}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = {**os.environ, **ENVIRONMENT, "SEEN": str(folder / "seen")}
    argv = [*PYTEST, *options, str(folder)]
    completed = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return [line.split() for line in (folder / "seen").read_text().splitlines()]


def test_unit_is_the_scenario_id_whichever_file_it_is_in():
    assert unit_of("scenarios/test_a.py::test_x[sno-ipv4-static-uefi]") == "sno-ipv4-static-uefi"
    assert unit_of("scenarios/test_b.py::test_x[sno-ipv4-static-uefi]") == "sno-ipv4-static-uefi"
    assert unit_of("scenarios/test_a.py::test_x") == "scenarios/test_a.py"


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e6)), st.sets(st.text(min_size=1)))
def test_order_is_total_and_longest_first(seconds, units):
    order = longest_first(units, seconds)
    assert sorted(order) == sorted(units)
    assert order == longest_first(sorted(units), seconds)
    recorded = [seconds[u] for u in order if u in seconds]
    assert recorded == sorted(recorded, reverse=True)


def test_durations_survive_damage_and_merge(tmp_path):
    file = Durations(tmp_path / "durations.json")
    file.path.write_text("{half")
    assert file.read() == {}
    file.update({"a": 1.0})
    file.update({"b": 2.0})
    assert file.read() == {"a": 1.0, "b": 2.0}
    assert json.loads(file.path.read_text()) == {"a": 1.0, "b": 2.0}


def test_each_unit_runs_in_one_worker_and_the_longest_start_first(tmp_path):
    lines = run_tests(tmp_path, CONFTEST, {"test_x": TESTS, "test_y": TESTS}, "-n2")
    workers = {unit: {worker for worker, u, _ in lines if u == unit} for unit in ("long", "middle", "short")}
    assert all(len(who) == 1 for who in workers.values()), workers
    assert workers["long"] != workers["middle"], "the two longest did not start side by side"
    assert len(lines) == 12


def test_disruptive_tests_of_a_scenario_come_last_across_files(tmp_path):
    lines = run_tests(tmp_path, CONFTEST, {"test_x": TESTS, "test_y": TESTS})
    assert [unit for _, unit, _ in lines] == ["long"] * 4 + ["middle"] * 4 + ["short"] * 4
    for unit in ("long", "middle", "short"):
        assert [test for _, u, test in lines if u == unit] == ["test_x", "test_y", "breaks", "breaks"]


class Worker:
    """A stand-in for xdist's WorkerController, which keeps the tests that it was sent."""

    def __init__(self, name: str) -> None:
        self.gateway, self.shutting_down = SimpleNamespace(id=name), False
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_last_long_unit_does_not_wait_behind_a_unit_of_one_test():
    units = {"compact": 2, "ha": 2, "sno": 2, "registry_gone": 1, "service_killed": 1, "power_cut": 1, "small_disk": 1}
    tests = [f"test_x.py::test_{number}[{unit}]" for unit, count in units.items() for number in range(count)]
    config = SimpleNamespace(option=SimpleNamespace(), getvalue=lambda _name: ["popen"] * 3)
    scheduler, workers = ScenarioScheduling(config), [Worker(name) for name in ("a", "b", "c")]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    first, second, third = workers

    def passes(worker: Worker, count: int) -> list[str]:
        """Report so many tests of a worker as ended; returns the units that it has been sent by then."""
        scheduler.mark_test_complete(worker, worker.sent[count - 1])
        return list(dict.fromkeys(unit_of(tests[index]) for index in worker.sent))

    assert passes(third, 1) == ["sno", "registry_gone"]
    assert passes(third, 2) == ["sno", "registry_gone", "small_disk"]
    assert passes(first, 1) == ["compact", "service_killed"]
    assert passes(second, 1) == ["ha", "power_cut"]


GROUPED = """
import os, pytest

@pytest.mark.parametrize("number", range({count}))
def test_one(request, number):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{{os.environ['PYTEST_XDIST_WORKER']}} {{request.path.stem}}\\n")
"""
LONGEST = """
from ci import grouping
from ci.grouping import pytest_xdist_make_scheduler
grouping.LONG = {'test_long.py': 90.0, 'test_longer.py': 99.0, 'test_gone.py': 999.0}
"""


def test_modules_stay_in_one_worker_and_the_longest_of_either_kind_come_first(tmp_path):
    labs = [f"lab/tests/{name}" for name in ("test_live_a", "host/test_live_b", "host/test_live_c")]
    house = [f"ci/tests/house/{name}" for name in ("test_arrows", "test_rooms", "checks/test_can_fail")]
    long = ["test_long", "test_longer"]
    # xdist itself would begin with the modules that have most tests.
    counts = dict.fromkeys([*labs, *house, "test_a", "test_b"], 6) | dict.fromkeys(long, 3)
    modules = {name: GROUPED.format(count=count) for name, count in counts.items()}
    lines = run_tests(tmp_path, LONGEST, modules, "-n2", "--dist", "loadfile")
    assert len(lines) == sum(counts.values())
    workers = {name: {worker for worker, module in lines if module == name} for _, name in lines}
    assert all(len(who) == 1 for who in workers.values()), workers

    def workers_of(paths: list[str]) -> set[str]:
        return set.union(*(workers[path.rpartition("/")[2]] for path in paths))

    assert len(workers_of(house)) == 1, workers
    assert len(workers_of(labs)) == 2, workers
    # One worker begins with the longest of LONG, the other with the longest of those that are not in it.
    begun = [dict(reversed(lines))[worker] for worker in ("gw0", "gw1")]
    assert begun[0] == "test_longer"
    assert begun[1].startswith("test_live_")


def test_all_paths_of_the_tables_exist():
    assert [name for name in LONG if not (ROOT / name).is_file() and name not in TOGETHER] == []
    assert [name for name in TOGETHER if not (ROOT / name).is_dir()] == []


def test_modules_of_real_labs_have_names_that_say_so():
    marked = {
        str(path.relative_to(ROOT)) for path in (ROOT / "lab/tests").rglob("*.py") if "mark.lab" in path.read_text()
    }
    assert marked
    assert {name for name in marked if not LABS.match(name)} == set()


@pytest.mark.parametrize("topology", ["sno", "compact", "ha"])
def test_a_topology_is_selected_by_its_name_alone(topology):
    units = {unit_of(line) for line in collected("-n0", "-k", f"not small_disk and {topology}")}
    assert units
    assert all(unit.startswith(f"{topology}-") for unit in units), units
    assert not any("small_disk" in unit for unit in units), units


KERNEL_BUG = """
import pytest
from types import SimpleNamespace

CONSOLE = []

@pytest.fixture
def deployment():
    return SimpleNamespace(lab=SimpleNamespace(id="x", kernel_trouble=lambda: {"master-0": list(CONSOLE)}))

def test_before(deployment):
    pass

def test_during(deployment):
    CONSOLE.append("kernel BUG at mm/slub.c:1")

def test_after(deployment):
    pass
"""


@pytest.fixture
def scenarios_wiring(tmp_path, monkeypatch):
    """run_tests(tests, parts, *markers): pytest's output for tests with these hooks and fixtures of the scenarios."""

    def run_tests(tests: str, parts: str, *markers: str) -> str:
        from scenarios import conftest

        monkeypatch.setattr(conftest, "DURATIONS", Durations(tmp_path / "durations.json"))
        (tmp_path / "conftest.py").write_text(f"from scenarios.conftest import {parts}\n")
        (tmp_path / "test_x.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text("\n  ".join(["[pytest]\nmarkers =", *(f"{name}: x" for name in markers)]))
        return pytest_in(tmp_path, "-rA")[1]

    return run_tests


def test_a_kernel_bug_on_a_console_fails_the_test_that_otherwise_passed(scenarios_wiring):
    output = scenarios_wiring(KERNEL_BUG, "pytest_runtest_makereport")
    assert "1 failed, 2 passed" in output, output
    assert "FAILED test_x.py::test_during" in output
    assert "master-0: kernel BUG at mm/slub.c:1" in output


LIVES_OF_LABS = """
import pytest
from types import SimpleNamespace
from scenarios import conftest as wiring
from scenarios.testing.cluster import Installation, Stopped

SEEN = []

def of(kind, lab):
    return type("Fake", (kind,), {"__init__": lambda self: None, "lab": lab})()

@pytest.fixture
def chosen():
    return None

@pytest.fixture(autouse=True, scope="session")
def labs(request):
    from contextlib import contextmanager

    @contextmanager
    def deployed(request, chosen):
        SEEN.append(f"up {request.param}")
        lab = SimpleNamespace(id=request.param, kernel_trouble=dict)
        yield SimpleNamespace(lab=lab)
        SEEN.append(f"down {request.param}")

    def install(deployment, seconds):
        assert "bad" not in deployment.lab.id, "no cluster"
        return of(Installation, deployment.lab)

    wiring._deployed = deployed
    wiring.install, wiring.stop = install, lambda deployment: of(Stopped, deployment.lab)
    yield

every = pytest.mark.parametrize("installation", ["sno-bad", "sno-good"], indirect=True)

@every
def test_one(installation):
    SEEN.append(f"test {installation.lab.id}")

@every
@pytest.mark.disruptive
def test_two(installation):
    SEEN.append(f"test {installation.lab.id}")

halted = pytest.mark.parametrize("stopped", ["sno-halted"], indirect=True)

@halted
def test_three(stopped):
    SEEN.append(f"test {stopped.lab.id}")

@halted
def test_four(stopped):
    SEEN.append(f"test {stopped.lab.id}")

@pytest.mark.parametrize("scenario", ["sno-other"])
def test_five(scenario):
    ids = ("bad", "good", "halted")
    expected = [f"{word} sno-{name}" for name in ids for word in ("up", "test", "test", "down")]
    assert SEEN == [entry for entry in expected if entry != "test sno-bad"]
"""


def test_a_scenarios_lab_ends_before_the_next_one_begins_and_a_failed_one_is_not_tried_again(scenarios_wiring):
    hooks = "addoption, collection_modifyitems, runtest_makereport, runtest_teardown, sessionfinish"
    parts = ", ".join(["installation", "stopped", *(f"pytest_{name}" for name in hooks.split(", "))])
    output = scenarios_wiring(LIVES_OF_LABS, parts, "nightly", "weekly", "disruptive")
    assert "5 passed, 2 errors" in output, output
    assert output.count("AssertionError: no cluster") >= 2


# A test whose fault kills one daemon is void when another one ends, or the same one by itself.
DAEMON_ENDS = """
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


def test_a_daemon_that_ends_by_itself_makes_a_test_void_even_where_the_test_ends_daemons(scenarios_wiring):
    output = scenarios_wiring(DAEMON_ENDS, "pytest_report_teststatus, pytest_runtest_makereport", "ends_daemon(name)")
    assert "PASSED test_x.py::test_x[registry-True]" in output, output
    assert "1 passed, 3 errors" in output, output


# A panic that the test has caused (`panics`) is no failure; other messages and other machines' panics are.
PANICKING = """
from types import SimpleNamespace
import pytest

ASKED = "[ 9.1] Kernel panic - not syncing: sysrq triggered crash"

@pytest.fixture
def deployment(request):
    name, line = request.param
    return SimpleNamespace(lab=SimpleNamespace(id=line + name, kernel_trouble=lambda: {name: [line]}, ended=list))

@pytest.mark.panics("master-2")
@pytest.mark.parametrize(
    "deployment",
    [
        pytest.param(("master-2", ASKED), id="own"),
        pytest.param(("master-1", ASKED), id="others"),
        pytest.param(("master-2", "[ 9.1] Kernel panic - not syncing: Fatal exception"), id="another"),
    ],
    indirect=True,
)
def test_x(deployment):
    pass
"""


def test_only_a_panic_that_the_test_causes_is_no_failure(scenarios_wiring):
    output = scenarios_wiring(PANICKING, "pytest_runtest_makereport", "panics(name, ...)")
    assert "PASSED test_x.py::test_x[own]" in output, output
    assert "2 failed, 1 passed" in output, output
