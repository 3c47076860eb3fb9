"""A night: what is chosen, what is left behind; and the examples that start one."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ci.informer import cli
from ci.informer.commands import nightly
from ci.informer.engine.unit import needs_of
from ci.informer.history.store import History
from ci.informer.tests.kit import PROGRAM
from lab.host.budget import Amount
from scenarios.catalogue import faulty
from scenarios.catalogue.matrix import table

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs/examples"


@pytest.fixture
def night(tmp_path, capsys):
    """`node0-ci nightly` with these words, on a program whose runs end as a script says; exit code and output."""
    (tmp_path / "program.py").write_text(PROGRAM)
    program = ("--program", sys.executable, str(tmp_path / "program.py"), str(tmp_path / "script"))

    def run(script, *words):
        (tmp_path / "script").write_text(script)
        options = ["--history", str(tmp_path / "history.db"), "nightly", "--machines", "container"]
        code = cli.main([*options, "--artifacts", str(tmp_path / "out"), *words, *program])
        return code, capsys.readouterr().out

    return run


def test_a_night_without_history_begins_with_what_is_short(night, tmp_path):
    code, out = night("", "--hours", "0.5", "--plan")
    assert code == 0
    rows = [line for line in out.splitlines() if "never run" in line]
    assert rows[0].startswith("sno-")
    assert 60 * sum(int(line.split("about ")[1].split()[0]) for line in rows) <= 1800
    assert not (tmp_path / "out").exists()


def test_a_night_leaves_verdict_pages_junit_and_traces(night, tmp_path):
    code, out = night("passed " * 40, "--hours", "0.2", "--blocking", "sno-*", "--payload", "4.20.1")
    assert code == 0, out
    assert out.splitlines()[-1].startswith("4.20.1: accepted (all ")
    folder = tmp_path / "out"
    assert "accepted" in (folder / "pages/index.html").read_text()
    assert "<testsuite" in (folder / "junit.xml").read_text()
    with History(tmp_path / "history.db") as history:
        rows = history.runs()
    assert len([json.loads(line) for line in (folder / "traces.jsonl").read_text().splitlines()]) == len(rows) >= 2
    assert all(row.revision for row in rows)


def test_what_ran_tonight_is_not_chosen_again(night):
    _, first = night("passed " * 40, "--hours", "0.2")
    _, second = night("", "--hours", "0.2", "--plan")
    chosen = {line.partition(":")[0] for line in first.splitlines() if "never run" in line}
    assert chosen
    assert not chosen & {line.partition(":")[0] for line in second.splitlines() if " min; " in line}


def test_what_decides_is_run_first_and_again_on_each_payload(night):
    words = ["--hours", "0.2", "--blocking", "compact-ipv6-static-uefi@*", "--plan"]
    _, plan = night("", *words)
    assert plan.startswith("compact-ipv6-static-uefi@container: about 6 min; the verdict waits for it, never run\n")
    night("passed " * 40, *words[:-1], "--payload", "p")
    for payload, waits in (("p", False), ("q", True)):
        _, plan = night("", *words, "--payload", payload)
        assert plan.startswith("compact-ipv6-static-uefi@container: ") == waits


def test_a_red_night_says_so(night):
    code, out = night("failed " * 40, "--hours", "0.15", "--blocking", "*", "--payload", "p", "--more", "3")
    assert code == 1
    assert "p: rejected (" in out.splitlines()[-1]


def test_rows_that_need_a_machine_of_their_own_are_virtual_ones():
    jobs = {
        candidate.job.partition("@")[0]: candidate.job.partition("@")[2]
        for candidate in nightly.candidates("container")
    }
    faults = [row for row in faulty.ROWS if row.lanes != ("swarm",)]
    assert jobs == {row.id: "vm" if row.vm else "container" for row in (*table().rows, *faults)}


def test_faults_go_round_within_a_week_and_need_what_their_scenario_needs():
    by_job = {candidate.job: candidate for candidate in nightly.candidates("container")}
    gone, killed = (by_job[f"sno-ipv4-static-uefi-{name}@container"] for name in ("registry_gone", "agent_killed"))
    assert (gone.days, gone.seconds, killed.seconds) == (7, 240, 240)
    scenario = "sno-ipv4-static-uefi"
    assert needs_of(f"{scenario}-registry_gone", "container") == needs_of(scenario, "container") != Amount()
    assert needs_of("no-such-scenario", "container") == Amount()


def commands(text):
    """Return the words of each `ci/nightly` in a script."""
    return [shlex.split(line.split(";")[0].split(">>")[0]) for line in text.splitlines() if "ci/nightly" in line]


def options_of(words):
    """Return the options that follow ci/nightly."""
    return words[words.index("ci/nightly") + 1 :]


def test_the_example_for_cron_starts_a_night(night):
    [line] = [line for line in (EXAMPLES / "nightly.cron").read_text().splitlines() if line[:1].isdigit()]
    minute, hour, *rest, user, command = line.split(maxsplit=6)
    assert (int(minute), int(hour), rest, user) == (0, 22, ["*"] * 3, "root")
    [words] = commands(command)
    assert night("", *options_of(words), "--plan")[0] == 0
    # Cron's own has no sbin, without which dpkg installs nothing.
    assert "\nPATH=/usr/local/sbin:" in (EXAMPLES / "nightly.cron").read_text()


def test_the_example_for_github_starts_a_night(night):
    document = yaml.safe_load((EXAMPLES / "nightly.github.yaml").read_text())
    assert document[True]["schedule"] == [{"cron": "0 22 * * *"}]  # YAML 1.1 reads `on` as true
    [job] = document["jobs"].values()
    hours = next(words for step in job["steps"] for words in commands(step.get("run", "")))
    assert night("", *options_of(hours[: hours.index("--hours") + 2]), "--plan")[0] == 0
    assert job["timeout-minutes"] > 60 * float(hours[hours.index("--hours") + 1])
    [upload] = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert upload["if"] == "always()"


def test_the_example_for_prow_starts_a_night(night):
    [job] = yaml.safe_load((EXAMPLES / "nightly.prow.yaml").read_text())["periodics"]
    [container] = job["spec"]["containers"]
    [words] = commands(container["args"][0])
    assert night("", *options_of(words), "--plan")[0] == 0
    assert "exit $code" in container["args"][0]
    # A pod's own files go with it, and its history.
    env = {variable["name"]: Path(variable["value"]) for variable in container["env"]}
    [volume], [mount] = job["spec"]["volumes"], container["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert "hostPath" in volume
    assert {Path(mount["mountPath"])} == {path.parent for path in env.values()}
    assert set(env) == {"NODE0_HISTORY", "NODE0_CACHE"}
    assert subprocess.run(["bash", "-n", "-c", container["args"][0]], check=False).returncode == 0


def test_the_script_has_help_without_set_up():
    done = subprocess.run(["ci/nightly", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "3 undecided" in done.stdout


def test_the_command_starts_without_scenarios_scipy_and_dask():
    """With libvirt and the lab's faults, which they import, a command took twice as long to start."""
    code = "import sys, ci.informer.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"scenarios.catalogue", "scipy", "distributed"} & set(done.stdout.split())
