"""Plans: invalid runs are repeated, suspicious jobs run more often, and killed plans go on."""

import argparse
import html
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from ci.informer import running
from ci.informer.cli import main
from ci.informer.commands import runs
from ci.informer.engine.engine import Engine
from ci.informer.engine.unit import Unit, needs_of
from ci.informer.errors import InformerError
from ci.informer.history import work
from ci.informer.history.again import command
from ci.informer.history.model import Run
from ci.informer.history.store import History
from ci.informer.judging.verdict import judge
from ci.informer.pages import build
from ci.informer.tests.kit import PROGRAM
from lab.subject.hardware import OPENSHIFT


@dataclass
class Script:
    """A plan whose runs end as a script says, and what runs it."""

    folder: Path
    history: History

    def plan(self, script: str, **other) -> running.Plan:
        (self.folder / "program.py").write_text(PROGRAM)
        (self.folder / "script").write_text(script)
        program = (sys.executable, str(self.folder / "program.py"), str(self.folder / "script"))
        return running.Plan(**{"payload": "p", "jobs": ("sno@vm",), "program": program, "limit": 60, **other})

    def run(self, plan: running.Plan, say=print):
        with Engine(say) as engine:
            return running.run(self.history, plan, self.folder / "artifacts", engine, say=say)

    @property
    def left(self) -> list[str]:
        """Outcomes that no run has taken."""
        return (self.folder / "script").read_text().split()


@pytest.fixture
def script(history, tmp_path):
    return Script(tmp_path, history)


@pytest.mark.parametrize(
    ("outcomes", "rounds", "expected"),
    [
        ("passed passed", 2, ["passed", "passed"]),
        ("void passed", 1, ["void", "passed"]),
        ("nothing passed", 1, ["void", "passed"]),
        ("killed passed", 1, ["void", "passed"]),
        ("void void void passed", 1, ["void", "void", "void"]),
    ],
)
def test_invalid_runs_are_repeated_and_all_are_remembered(history, script, outcomes, rounds, expected):
    script.run(script.plan(outcomes, rounds=rounds))
    rows = history.runs()
    assert [row.outcome.value for row in rows] == expected
    assert all(row.label in ("lab", "host") for row in rows if row.outcome.value == "void")
    assert {row.job for row in rows} == {"sno@vm"}
    assert work.open_plans(history) == []
    assert {row.host for row in rows} == {"here"}
    assert all(Path(row.folder).is_dir() for row in rows)


def test_a_failure_asks_for_more_runs(history, script):
    lines: list[str] = []
    script.run(script.plan("failed " + "passed " * 20, more=3), lines.append)
    assert [row.outcome.value for row in history.runs()] == ["failed", "passed", "passed", "passed"]
    assert "sno: a failure more than usual, 3 more runs" in lines


@pytest.mark.parametrize("name", ["sno or ha", "", "../x", "sno]"])
def test_a_scenario_without_an_id_is_reported(script, name):
    with pytest.raises(InformerError, match="must be an id like sno-ipv4-static-uefi"):
        script.run(script.plan("", jobs=(f"{name}@vm",)))
    assert work.open_plans(script.history) == []


def test_an_unknown_kind_of_machines_is_refused(script):
    with pytest.raises(InformerError, match="scenario: 'sno@zebra': the kind of machines must be vm or container"):
        script.run(script.plan("", jobs=("sno@zebra",)))


def test_an_unknown_scenario_is_an_error_and_leaves_no_plan(script):
    """A command that ran nothing leaves no plan: it would end in the same error each time."""
    with pytest.raises(InformerError, match="scenario: 'sno': no test has this id"):
        script.run(script.plan("none", rounds=2))
    assert work.open_plans(script.history) == []


def test_a_plan_with_an_unknown_scenario_can_be_resumed_for_the_others(script):
    with pytest.raises(InformerError, match="no test has this id"):
        script.run(script.plan("passed none", jobs=("sno@vm", "zebra@vm")))
    assert [done for *_, done in work.open_plans(script.history)] == [1]


def test_a_run_is_of_one_scenario(tmp_path):
    """And not of all whose ids end so, as `static-uefi`'s would be."""
    argv = Unit(key="p/j/0.0", payload="p", scenario="sno-ipv4-static-uefi").argv(tmp_path)
    assert argv[argv.index("-k") + 1] == "[sno-ipv4-static-uefi]"


def test_a_scenario_that_is_named_twice_is_reported_before_there_is_a_plan(script):
    with pytest.raises(InformerError, match="scenario: 'sno': is named twice; -n 2 runs it twice"):
        script.run(script.plan("passed passed", jobs=("sno@vm", "ha@vm", "sno@vm")))
    assert work.open_plans(script.history) == []


def test_a_plan_goes_on_where_it_was_left(history, script):
    """An ended run is not run again, not even an invalid one that had its repetitions."""
    name = running.begin(history, script.plan("void passed passed passed", rounds=3), script.folder / "artifacts")
    with Engine(print) as engine:
        rows = running.carry_out(history, name, engine, print)
        assert next(rows).outcome.value == "void"
        rows.close()
    assert [(plan, done) for plan, _, _, done in work.open_plans(history)] == [(name, 1)]
    with Engine(print) as engine:
        assert [row.outcome.value for row in running.carry_out(history, name, engine, print)] == ["passed"] * 3
    assert script.left == []
    assert work.open_plans(history) == []


def test_a_plan_is_run_by_one_at_a_time(history, script):
    name = running.begin(history, script.plan("passed passed", rounds=2), script.folder / "artifacts")
    with Engine(print) as engine:
        rows = running.carry_out(history, name, engine, print)
        next(rows)
        with pytest.raises(InformerError, match="another node0-ci runs it"):
            list(running.carry_out(history, name, engine, print))
        rows.close()


def test_a_scenario_too_large_for_all_hosts_is_refused_before_it_starts(script, monkeypatch):
    monkeypatch.setenv("NODE0_BUDGET_MIB", "4096")
    plan = script.plan("passed", jobs=("ha-ipv4-static-uefi@vm",))
    with pytest.raises(InformerError, match="no host can run it: here: too little memory"):
        script.run(plan)
    assert script.left == ["passed"]


def test_a_plan_is_read_from_the_history_as_it_was_written(history, script):
    name = running.begin(history, script.plan("", rounds=2, more=7), script.folder)
    text, folder = work.plan(history, name)
    assert msgspec.json.decode(text, type=running.Plan).more == 7
    assert folder == script.folder


def test_bisect_on_the_command_line_finds_the_release(node0_ci, tmp_path, capsys):
    """Releases are directories here; the program fails on all from the third one on."""
    program = PROGRAM.replace(
        'word, *rest = script.read_text().split()\nscript.write_text(" ".join(rest))',
        'release = next(w for w in sys.argv if w.startswith("--release-dir=")).rpartition("/")[2]\n'
        'word = "failed" if release >= "r2" else "passed"',
    )
    (tmp_path / "program.py").write_text(program)
    words, releases = bisecting(tmp_path)
    assert node0_ci(*words) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"first bad: {releases[2]} (9")


def test_releases_that_cannot_be_run_are_no_answer(node0_ci, tmp_path, capsys):
    (tmp_path / "program.py").write_text("import sys; sys.exit(4)")
    words, releases = bisecting(tmp_path)
    assert node0_ci(*words) == 3
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"first bad: {releases[1]} (25% sure, 0 runs; runs of {releases[2]} were invalid)"


def bisecting(tmp_path):
    """Return the command that bisects five releases by the program, and the releases."""
    releases = []
    for number in range(5):
        (tmp_path / f"r{number}").mkdir()
        releases.append(str(tmp_path / f"r{number}"))
    words = ["bisect", "sno", *releases, "--machines", "container", "--artifacts", str(tmp_path / "artifacts")]
    words += ["--program", sys.executable, str(tmp_path / "program.py"), "unused"]
    return words, releases


@pytest.mark.parametrize(
    ("releases", "rule"),
    [
        (["quay.io/a/b:1", "nosuch", "quay.io/a/b:3"], "releases: 'nosuch' is no image"),
        (["quay.io/a/b:1", "quay.io/a/b:1"], "occurs twice"),
        (["quay.io/a/b:1"], "1 is less than two"),
    ],
)
def test_releases_that_cannot_be_bisected_are_reported_at_once(node0_ci, capsys, releases, rule):
    assert node0_ci("bisect", "sno", *releases) == 2
    assert rule in capsys.readouterr().err


def test_of_two_releases_nothing_needs_to_be_run(node0_ci, capsys):
    assert node0_ci("bisect", "sno", "quay.io/a/b:1", "quay.io/a/b:2") == 1
    assert "first bad: quay.io/a/b:2 (nothing was run" in capsys.readouterr().out


def test_a_plan_that_is_forgotten_is_not_gone_on_with(history, node0_ci, script, tmp_path, capsys):
    """One whose scenario was misspelt, for example: it would end in the same error each time."""
    name = running.begin(history, script.plan("passed"), tmp_path / "artifacts")
    assert node0_ci("resume", "--forget", "nosuch") == 2
    assert node0_ci("resume", "--forget", name) == 0
    assert node0_ci("resume") == 2
    assert "all have been run to their end" in capsys.readouterr().err


def test_a_plan_is_listed_until_it_is_done(history, node0_ci, script, tmp_path, capsys):
    name = running.begin(history, script.plan("passed"), tmp_path / "artifacts")
    assert node0_ci("resume", "--list") == 0
    assert capsys.readouterr().out.startswith(f"{name}  made ")
    assert node0_ci("resume") == 0
    assert node0_ci("resume") == 2
    assert "all have been run to their end" in capsys.readouterr().err


def test_a_run_that_is_late_says_so(history, script):
    """Its tests had passed, but it was not done."""
    script.run(script.plan("late", limit=2, more=0))
    [row] = history.runs()
    assert row.outcome.value == "failed"
    assert row.reason == "not done after 2 s: the last phase was 'install'"
    assert (row.label, row.advice.partition(";")[0]) == ("product", "Something did not happen in time")


def test_a_run_that_is_ended_in_a_phase_says_what_was_waited_for(history, script):
    script.run(script.plan("stuck", limit=2, more=0))
    [row] = history.runs()
    assert row.outcome.value == "failed"
    assert row.reason == (
        "not done after 2 s: the last phase was 'install'; wait-for said last: Still waiting for the cluster to"
        " initialize: Working towards 4.18.0: 56 of 57 done, waiting on console"
    )
    assert (row.label, row.component) == ("product", "console")


@pytest.mark.parametrize(("outcomes", "code"), [("void passed", 0), ("void void void", 3), ("nothing failed", 1)])
def test_exit_codes_say_whether_anything_was_tested(node0_ci, script, outcomes, code):
    words = script.plan(outcomes).program
    where = ("--artifacts", script.folder / "artifacts")
    assert node0_ci("run", "sno", *where, "--more", "0", "--program", *words) == code


def test_a_plan_of_another_version_is_reported(history, node0_ci, tmp_path, capsys):
    work.begin(history, "0123abcd", "2026-01-01T00:00:00Z", b'{"what": 1}', folder=tmp_path)
    assert node0_ci("resume") == 2
    assert "plan: '0123abcd': of another version of node0-ci" in capsys.readouterr().err


def test_keys_without_a_scheduler_are_reported(node0_ci, tmp_path, capsys):
    assert node0_ci("run", "sno", "--tls", str(tmp_path)) == 2
    assert "--tls: has no use without --scheduler" in capsys.readouterr().err


def test_what_failed_before_a_plan_went_on_is_red(history, node0_ci, script, capsys):
    name = running.begin(history, script.plan("failed passed", rounds=2, more=0), script.folder / "artifacts")
    with Engine(print) as engine:
        rows = running.carry_out(history, name, engine, print)
        assert next(rows).outcome.value == "failed"
        rows.close()
    assert node0_ci("resume") == 1


@pytest.mark.parametrize("forget", [True, False])
def test_a_plan_that_is_done_or_given_up_is_not_run(history, node0_ci, script, tmp_path, capsys, forget):
    name = running.begin(history, script.plan("passed passed"), tmp_path / "artifacts")
    assert node0_ci("resume", *(["--forget"] if forget else []), name) == 0
    assert node0_ci("resume", name) == 2
    assert f"plan: {name!r}: was run to its end, or given up, at 20" in capsys.readouterr().err
    assert len(script.left) == (2 if forget else 1)


def test_a_run_is_made_again_with_all_that_it_was_given(history, script):
    """The command is whole, and a shell takes it as it is; the pull secret is its path."""
    options = ("--release=quay.example/ocp/release:4.20.1", "--pull-secret=/root/my secrets/pull-secret.json")
    script.run(script.plan("failed", payload="4.20.1 (rc)", arguments=options, limit=720, more=0))
    [row] = history.runs()
    words = ["node0-ci", "run", "sno", "--machines", "vm", "--payload=4.20.1 (rc)", *options, "--minutes", "12"]
    assert shlex.split(command(history, row)) == words
    shown = html.escape(command(history, row))
    assert shown in build.run(history, row.id)
    assert shown in build.job(history, "sno@vm")
    assert judge(history, "4.20.1 (rc)").jobs[0].again == command(history, row)
    plan = row.key.removeprefix("run ").partition("/")[0]
    unit = Unit(key=f"{plan}/sno@vm/1.0", payload="p", scenario="sno", kvm=True)
    work.add(history, plan, [(unit.key, msgspec.json.encode(unit))])
    assert command(history, replace(row, key=f"run {unit.key}")).split() == [*words[:5], "--payload=p", "--kvm"]


def test_runs_are_given_absolute_paths(history, tmp_path, monkeypatch):
    """They run in the repository's folder, whatever directory somebody was in."""
    monkeypatch.chdir(tmp_path)
    subject = SimpleNamespace(version="1", digest="sha256:1", components={"cli": "r.test/x@sha256:2"})
    monkeypatch.setattr(runs, "choose", lambda get: SimpleNamespace(subject=subject, limits=OPENSHIFT))
    for name in ("installer", "secret", "ca.pem"):
        (tmp_path / name).touch()
    options_given = {"release": "r.example/r:1", "release_dir": None, "pull_secret": "secret", "ca": "./ca.pem"}
    for installer, wanted in (("installer", f"{tmp_path}/installer"), ("docker://r.example/i:1",) * 2):
        asked = runs.subject(history, argparse.Namespace(**options_given, installer=installer, payload=None))
        paths = (f"--pull-secret={tmp_path}/secret", f"--ca={tmp_path}/ca.pem", f"--installer={wanted}")
        assert asked.options == ("--release=r.example/r:1", *paths)
        assert (asked.payload, asked.digest, asked.limits) == ("1", "sha256:1", OPENSHIFT)
    assert history.images("1") == {"cli": "sha256:2"}


def test_a_release_that_wants_larger_machines_than_a_host_has_is_reported_before_a_run(history, script, monkeypatch):
    """Of its own release the lab's one node takes 4 GiB, of a real one 16."""
    scenario = "sno-ipv4-static-uefi"
    assert needs_of(scenario, "vm").mib < 6000 < 16384 < needs_of(scenario, "vm", OPENSHIFT).mib
    monkeypatch.setenv("NODE0_BUDGET_MIB", "6000")
    plan = script.plan("passed", jobs=(f"{scenario}@vm",), digest="sha256:1", limits=dict(OPENSHIFT))
    with pytest.raises(InformerError, match=f"scenario: '{scenario}': no host can run it: here: too little memory"):
        script.run(plan)
    assert script.left == ["passed"]


@pytest.mark.parametrize("option", ["--installer=/bin/ls", "--ca=/etc/passwd", "--pull-secret=/etc/passwd"])
def test_what_is_no_installer_ca_or_pull_secret_is_reported_before_a_run(node0_ci, capsys, option):
    assert node0_ci("run", "sno", option) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"node0-ci: {option.replace('=', ' ')}: ")
    assert err.count("\n") == 1


def test_an_option_without_a_value_is_not_the_lab_release(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", "sno-ipv4-static-uefi", "--release", ""])
    assert caught.value.code == 2
    assert "argument --release: must not be empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("sno-ipv4-static-uefi@container", "node0-ci run sno-ipv4-static-uefi --machines container"),
        ("job-00@simulated", "(run job-00@simulated again where it ran)"),
        ("first@container", "(run first@container again where it ran)"),
        ("e2e", "(run e2e again where it ran)"),
        ("x; reboot@vm", "(run x; reboot@vm again where it ran)"),
        ("-h@vm", "(run -h@vm again where it ran)"),
    ],
)
def test_the_command_that_runs_a_job_again_exists(history, job, expected):
    history.add([Run(job, "p", "k", "2026-02-10T00:00:00Z", seconds=5.0)])
    assert command(history, history.runs()[0]) == expected
    history.add([Run(job, "p", "k", "2026-02-10T00:00:00Z", seconds=5.0, command="node0-lab deploy DIR")])
    assert command(history, history.runs()[0]) == "node0-lab deploy DIR", "its artefacts say it"
