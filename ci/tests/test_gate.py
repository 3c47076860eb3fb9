"""The gate: which stages a machine gets, what ends it, and what it says at the end."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci import gate
from ci.gate import (
    CONTAINERS,
    SIDE_BY_SIDE,
    VCPUS_PER_CPU,
    Outcome,
    Stage,
    first_stages,
    fitting,
    lab_stages,
    passed,
    run,
)
from ci.tests.pytest_kit import collected
from lab.host import budget
from lab.waiting import wait_until
from scenarios.catalogue.faulty import ROWS
from scenarios.catalogue.ids import topology_of

ROOT = Path(__file__).parents[2]
ALL = list(CONTAINERS)
SHAPES = {name: topology_of(name).with_machines("container") for name in CONTAINERS}
OLD = ["Linux 6.1.0 maps no owners of file systems in memory: container machines need 6.3"]


def _python(code, name="stage", limit=60.0, essential=False):
    return Stage(name, [sys.executable, "-S", "-c", code], limit, essential)


def _lines(capfd):
    return [line.removeprefix("[gate] ").strip() for line in capfd.readouterr().err.splitlines()]


def test_with_containers_all_sizes_are_installed_in_them_and_one_node_in_a_vm():
    chosen = [*first_stages(), *lab_stages([], ALL)]
    assert [stage.name for stage in chosen] == [
        "style, types, fast suite",
        "slow suite",
        "lab release",
        "conformance suite",
        "tests on real labs",
        "sno, compact, ha in containers, with losses",
        "one node in a VM",
    ]
    contained = [stage for stage in chosen if "--machines=container" in stage.argv]
    assert len(contained) == 1
    assert "--nightly" in contained[0].argv


def test_without_containers_compact_is_installed_in_vms():
    chosen = lab_stages(OLD, ALL)
    assert [stage.name for stage in chosen][1:] == ["one node in a VM", "compact in VMs"]
    assert not any("container" in word for stage in chosen for word in stage.argv)


def test_evidence_of_one_stage_is_not_anothers():
    for chosen in (lab_stages([], ALL), lab_stages(OLD, ALL)):
        folders = [word for stage in chosen for word in stage.argv if word.startswith("--artifacts")]
        assert len(folders) == len(set(folders)) == sum("ci/scenarios" in stage.argv for stage in chosen)


def test_all_sizes_run_side_by_side_on_two_cores_with_24_gb():
    """HA alone has one of the cores idle, and its losses nearly both."""
    needs = [budget.need_of(SHAPES[name]) for name in CONTAINERS]
    all_of_them = sum(needs, budget.Amount())
    assert len(needs) <= SIDE_BY_SIDE
    assert not all_of_them.short(budget.Amount(23_000, 2 * VCPUS_PER_CPU, 100))


def test_a_size_that_the_machine_has_no_memory_for_is_left_out_and_reported():
    compact = budget.need_of(SHAPES["compact-ipv4-static-uefi"])
    # Fewer processors than it wants: such a lab runs alone.
    fits, lines = fitting(budget.Amount(compact.mib, 1, 1000), SHAPES)
    assert fits == ["sno-ipv4-static-uefi", "compact-ipv4-static-uefi"]
    assert re.fullmatch(
        r"ha-ipv4-static-uefi is left out for want of memory: needs \d+ MiB .* there is \d+ MiB .*", lines[0]
    )
    assert lab_stages([], fits)[1].name == "sno, compact in containers, with losses"


def test_without_room_for_any_size_the_stages_are_those_without_containers():
    fits, lines = fitting(budget.Amount(1, 1, 1), SHAPES)
    assert (fits, len(lines)) == ([], 3)
    assert lab_stages([], fits) == lab_stages(OLD, ALL)


def _selected(stage):
    """Return the tests that pytest selects for a stage, as (test, scenario); nothing is run."""
    words = [word for word in stage.argv[1:] if not word.startswith("--artifacts") and word != "-v"]
    if "-n" in words:
        del words[words.index("-n") : words.index("-n") + 2]
    return {re.search(r"::(\w+)\[(.*)\]$", line).groups() for line in collected(*words)}


def test_containers_get_each_size_its_losses_and_nothing_else():
    tests = _selected(lab_stages([], ALL)[1])
    assert {scenario for _, scenario in tests} == {
        *ALL,
        "sno-ipv4-static-uefi-small_disk",
        "sno-ipv4-static-uefi-discovery_iso-hub",
        "compact-ipv4-static-uefi-power_cut",
        *(row.id for row in ROWS if row.gate),
    }
    for scenario in ("compact-ipv4-static-uefi", "ha-ipv4-static-uefi"):
        assert ("test_the_cluster_comes_back_when_all_nodes_lose_power_at_once", scenario) in tests
        assert ("test_the_master_that_holds_the_api_vip_may_be_lost", scenario) in tests


def test_the_node_in_a_vm_leaves_out_only_what_its_container_has_shown():
    contained, virtual = (_selected(stage) for stage in lab_stages([], ALL)[1:])
    assert {scenario for _, scenario in virtual} == {"sno-ipv4-static-uefi"}
    left_out = {test for test, scenario in contained - virtual if scenario == "sno-ipv4-static-uefi"}
    assert left_out == {
        "test_filled_maps_do_not_kill_the_api_server",
        "test_an_operator_reports_what_it_really_sees",
        "test_pods_run_where_they_belong_and_their_logs_can_be_read",
        "test_the_node_is_ready_in_its_last_boot",
    }
    assert virtual < contained


def test_without_containers_the_node_in_a_vm_is_examined_whole():
    node, compact = (_selected(stage) for stage in lab_stages(OLD, ALL)[1:])
    assert ("test_filled_maps_do_not_kill_the_api_server", "sno-ipv4-static-uefi") in node
    assert {scenario for _, scenario in compact} >= {"compact-ipv4-static-uefi"}


def test_a_stage_has_its_own_environment_and_what_the_user_set_comes_first(monkeypatch):
    monkeypatch.setenv("GATE_OURS", "users")
    code = "import os; raise SystemExit([os.environ['GATE_OURS'], os.environ['GATE_NEW']] != ['users', 'stage'])"
    stage = Stage("stage", [sys.executable, "-c", code], 60.0, env={"GATE_OURS": "stage", "GATE_NEW": "stage"})
    assert run(stage).code == 0


def test_all_pass_and_the_summary_has_each_with_its_time(capfd):
    assert passed([Stage("one", ["true"], 60.0), Stage("two", ["true"], 60.0)])
    output = _lines(capfd)
    summary = output[output.index("summary") + 1 :]
    assert [re.sub(r"\d+", "N", re.sub(r" {2,}(\d\.\d cores  )?", "  ", line)) for line in summary] == [
        "passed  N min N s  one",
        "passed  N min N s  two",
        "passed  N min N s  all",
    ]


def test_a_stage_that_fails_fails_the_gate_and_the_others_still_run(capfd):
    assert not passed([_python("raise SystemExit(3)", "one"), _python("pass", "two")])
    assert [line.split()[0] for line in _lines(capfd)[-3:]] == ["failed", "passed", "failed"]


def test_nothing_is_installed_when_the_fast_suite_fails(tmp_path, capfd):
    mark = tmp_path / "ran"
    chosen = [_python("raise SystemExit(1)", "suite", essential=True), _python(f"open({str(mark)!r}, 'w')", "install")]
    assert not passed(chosen)
    assert not mark.exists()
    assert [line.split("  ")[0] for line in _lines(capfd)[-3:]] == ["failed", "not run", "failed"]


def test_stages_with_machines_are_chosen_once_the_release_is_built(capfd):
    """The build takes disk: what there is room for is known after it."""
    seen = []

    def ended(stage):
        seen.append(stage.name)
        return Outcome(stage.name, 0)

    def rest():
        seen.append("chosen")
        return [_python("pass", "machines")]

    assert passed([_python("pass", "suite"), _python("pass", "release")], ended, rest)
    assert seen == ["suite", "release", "chosen", "machines"]
    assert not passed([_python("pass", "suite", essential=True)], lambda stage: Outcome(stage.name, 1), rest)
    assert seen.count("chosen") == 1
    capfd.readouterr()


def _suite(tmp_path, monkeypatch, body):
    """Return a stage that runs a module of tests with pytest, in a folder of its own."""
    (tmp_path / "test_it.py").write_text(body)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--rootdir", str(tmp_path), "test_it.py"]
    return Stage("suite", argv, 60.0, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, retried=2)


def test_what_passes_at_its_second_try_is_a_flake_that_is_named(tmp_path, monkeypatch, capfd):
    body = """
import pathlib
def test_flaky():
    seen = pathlib.Path("seen")
    before = seen.exists()
    seen.touch()
    assert before
def test_fine():
    with open("count", "a") as file: file.write("x")
"""
    assert passed([_suite(tmp_path, monkeypatch, body)])
    assert (tmp_path / "count").read_text() == "x", "only what failed is run again"
    output = _lines(capfd)
    assert output[-3].endswith("suite (1 at the second try)")
    assert output[-2] == "flake: test_it.py::test_flaky"


def _failing(tmp_path, monkeypatch, tests, before=""):
    """Return a stage whose command notes failed tests where pytest would, and fails."""
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    noted = '"${2#cache_dir=}/v/cache"'
    script = f"{before}\nmkdir -p {noted}; echo '{json.dumps(tests)}' > {noted}/lastfailed; exit 1"
    return Stage("suite", ["sh", "-c", script, "pytest"], 60.0, retried=2)


def test_what_fails_twice_has_failed(tmp_path, monkeypatch, capfd):
    outcome = run(_failing(tmp_path, monkeypatch, ["a::b"]))
    assert (outcome.code, outcome.flakes) == (1, [])
    assert "1 failed, a second try of a::b" in capfd.readouterr().err


def test_many_failures_are_no_flakes(tmp_path, monkeypatch, capfd):
    passes_then = "[ -e seen ] && exit; touch seen"
    assert run(_failing(tmp_path, monkeypatch, ["a::b", "a::c", "a::d"], passes_then)).code == 1
    assert "second try" not in capfd.readouterr().err


def test_a_failure_before_any_test_is_no_flake(tmp_path, monkeypatch):
    """Style and types come first in the suite's command: an older run's failed tests do not stand for theirs."""
    stage = _suite(tmp_path, monkeypatch, "def test_fine():\n    pass\n")
    lastfailed = stage.cache / "v/cache/lastfailed"
    lastfailed.parent.mkdir(parents=True)
    lastfailed.write_text('{"test_it.py::test_old": true}')
    outcome = run(Stage("suite", [sys.executable, "-c", "raise SystemExit(1)"], 60.0, retried=2))
    assert (outcome.code, outcome.flakes) == (1, [])


def test_evidence_of_the_first_try_is_kept(tmp_path, monkeypatch):
    """A second try writes its evidence beside the first one's."""
    commands = []
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "run_stage", lambda stage, argv: commands.append(argv) or len(commands) % 2)
    monkeypatch.setattr(gate, "failed_tests", lambda cache: ["a::b"])
    run(Stage("labs", ["x", "--artifacts=artifacts/c"], 60.0, retried=1))
    folders = [[word for word in argv if word.startswith("--artifacts")][-1] for argv in commands]
    assert folders == ["--artifacts=artifacts/c", "--artifacts=artifacts/c-second-try"]


def test_the_summary_tells_how_many_processors_a_stage_kept_busy():
    outcome = run(_python("import time\nwhile time.process_time() < 0.3: pass", "spin"))
    assert outcome.work >= 0.25  # counted in hundredths
    assert outcome.line.endswith(f" {outcome.work / outcome.seconds:.1f} cores  spin")


def test_no_stage_begins_once_all_of_the_time_is_gone(monkeypatch):
    monkeypatch.setattr(gate, "LONGEST", 0.0)
    assert not passed([_python("pass")], lambda stage: pytest.fail(f"{stage.name} was run"))


def test_a_stage_gets_no_more_than_what_is_left(monkeypatch):
    monkeypatch.setattr(gate, "LONGEST", 5.0)
    limits = []
    passed([_python("pass", limit=1000.0)], lambda stage: limits.append(stage.limit) or Outcome(stage.name, 0))
    assert limits[0] <= 5.0


def test_a_stage_that_is_late_may_tidy_up_and_ends_with_all_that_it_started(tmp_path):
    """It is asked to end as a terminal would, and what does not listen is killed."""
    tidy, child = tmp_path / "tidy", tmp_path / "child"
    code = (
        "import pathlib, subprocess, sys, time\n"
        "deaf = 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True);"
        " time.sleep(300)'\n"
        "one = subprocess.Popen([sys.executable, '-c', deaf], stdout=subprocess.PIPE)\n"
        "one.stdout.readline()\n"
        f"pathlib.Path({str(child)!r}).write_text(str(one.pid))\n"
        "try:\n    time.sleep(300)\n"
        f"except KeyboardInterrupt:\n    pathlib.Path({str(tidy)!r}).touch()\n"
    )
    outcome = run(_python(code, limit=3.0))
    assert (outcome.code, outcome.line.split()[0]) == (124, "late")
    assert tidy.exists()
    stat = Path("/proc") / child.read_text() / "stat"
    wait_until(
        lambda: not stat.exists() or " Z " in stat.read_text().rpartition(")")[2], 10, "its child's end", poll=0.05
    )


def test_the_gate_itself_can_be_reported_to_end(tmp_path):
    """SIGTERM ends the stage that runs, and the exit code is not 0."""
    mark = tmp_path / "pid"
    code = (
        "import signal, sys\nfrom ci import gate\n"
        "signal.signal(signal.SIGTERM, gate.ending)\n"
        f"script = 'echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 300'\n"
        "gate.passed([gate.Stage('long', ['sh', '-c', script], 300)])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_until(mark.exists, 30, "the stage to start", poll=0.05)
    process.terminate()
    assert process.wait(30) == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_signal_that_comes_while_a_stage_starts_ends_the_gate_afterwards():
    ending = gate.Ending()
    seen = []

    def start():
        with ending.deferred():
            ending(15, None)
            seen.append("started")

    with pytest.raises(SystemExit) as error:
        start()
    assert (seen, error.value.code) == (["started"], 128 + 15)
    with pytest.raises(SystemExit):
        gate.Ending()(15, None)


@pytest.fixture
def _signals():
    """Give SIGTERM back, which main() takes for itself."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 1)])
def test_why_there_are_no_containers_is_one_line_and_no_failure(monkeypatch, capfd, good, code):
    asked = []
    monkeypatch.setattr(gate, "container_problems", lambda: [*OLD, "this kernel has no squashfs"])
    monkeypatch.setattr(gate, "passed", lambda _first, rest: asked.extend(rest()) or good)
    assert gate.main() == code
    output = _lines(capfd)
    assert output == [
        f"no container machines here, so compact is installed in VMs: {OLD[0]}; this kernel has no squashfs"
    ]
    assert [stage.name for stage in asked][1:] == ["one node in a VM", "compact in VMs"]


@pytest.mark.usefixtures("_signals")
def test_a_machine_that_can_run_containers_gets_them(monkeypatch, capfd):
    asked = []
    monkeypatch.setattr(gate, "container_problems", list)
    monkeypatch.setattr(gate.budget, "capacity", lambda _labs: budget.Amount(64 << 10, 8, 500))
    monkeypatch.setattr(gate, "passed", lambda _first, rest: asked.extend(rest()) or True)
    assert gate.main() == 0
    assert _lines(capfd) == []
    assert asked[1].name == "sno, compact, ha in containers, with losses"
