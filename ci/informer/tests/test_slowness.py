"""Releases that take longer: which step, by how much, and whose it is, on hosts that are busy or not."""

import json
import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ci.informer.arithmetic.durations import slower
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history import artifacts, stages
from ci.informer.history.model import Run, Step
from ci.informer.history.store import History
from ci.informer.judging import slowness
from ci.informer.judging.slowness import judged
from ci.informer.judging.verdict import Decision, judge
from ci.informer.text import verdict_lines
from lab.release.variants import SLOW_BOOTSTRAP_SECONDS, SLOWER_SECONDS, VARIANTS

#: Seconds of one node's steps as a container, on a machine that has little else to do.
USUAL = {
    "lab up": 6.0,
    "create image": 2.0,
    "stage discovery": 8.0,
    "stage preparing": 4.0,
    "stage handing over to the hosts": 2.0,
    "stage Starting installation": 0.5,
    "stage Installing": 2.0,
    "stage Waiting for bootkube": 21.0,
    "stage Writing image to disk": 9.0,
    "wait-for install-complete": 72.0,
}
HANDING_OVER = "stage handing over to the hosts"


def taken(chance, speed=1.0, **more):
    """Seconds of a run's steps: each a tenth off its usual ones or less, all of them by the host's speed."""
    seconds = {name: value * chance.uniform(0.9, 1.1) for name, value in USUAL.items()}
    for name, value in more.items():
        seconds[name.replace("_", " ")] += value
    return {name: value * speed for name, value in seconds.items()}


def ours(chance, count, *, speeds=(1.0, 1.0), **more):
    return [taken(chance, chance.uniform(*speeds), **more) for _ in range(count)]


def test_the_step_that_grew_is_found_and_whose_it_is():
    chance = random.Random(1)
    slower_step = judged(ours(chance, 3, stage_handing_over_to_the_hosts=40), ours(chance, 20))
    assert (slower_step.step, slower_step.component) == (HANDING_OVER, "agent-installer-orchestrator")
    assert 38 < slower_step.now < 46
    assert 1.8 < slower_step.before < 2.2
    assert "takes 4" in str(slower_step)
    assert "component agent-installer-orchestrator" in str(slower_step)


@pytest.mark.parametrize("seed", range(20))
def test_a_host_that_is_busy_is_no_slower_release(seed):
    chance = random.Random(seed)
    assert judged(ours(chance, 5, speeds=(2.0, 6.0)), ours(chance, 20, speeds=(0.8, 1.5))) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_busy_host_hides_no_slower_step(seed):
    """The host's load slows the step that grew as well."""
    chance = random.Random(seed)
    busy = ours(chance, 5, speeds=(2.0, 6.0), stage_handing_over_to_the_hosts=40)
    assert judged(busy, ours(chance, 20)).step == HANDING_OVER


def test_too_few_runs_and_small_rises_say_nothing():
    chance = random.Random(2)
    before = ours(chance, 20)
    assert judged(ours(chance, 2, stage_handing_over_to_the_hosts=40), before) is None
    assert judged(ours(chance, 5, stage_handing_over_to_the_hosts=40), before[:4]) is None
    assert judged(ours(chance, 9, stage_handing_over_to_the_hosts=12), before) is None  # 10 % of a run


@pytest.mark.parametrize(("now", "before"), [(5, 20), (3, 5), (3, 14)])
def test_chance_seldom_makes_a_step_look_slower(now, before):
    """A thousand releases that are as those before, with steps that vary by a half."""
    chance = random.Random(3)

    def runs(count):
        return [{name: value * chance.uniform(0.5, 1.5) for name, value in USUAL.items()} for _ in range(count)]

    assert sum(judged(runs(now), runs(before)) is not None for _ in range(1000)) < 10


def test_what_was_usual_long_ago_is_not_usual_any_more():
    """Fifty runs with the slower step, and nine hundred without it before these."""
    chance = random.Random(5)
    runs = [*ours(chance, 900), *ours(chance, 53, stage_handing_over_to_the_hosts=40)]
    steps = [[Step(name, 0.0, value, Outcome.PASSED) for name, value in run.items()] for run in runs]
    history = SimpleNamespace(steps=steps.__getitem__)
    rows = [SimpleNamespace(id=number, outcome=Outcome.PASSED) for number in range(len(runs))]
    assert slowness.slowest(history, rows[950:], rows[:950]) is None
    assert slowness.slowest(history, rows[950:], rows[:900]).step == HANDING_OVER


def test_the_lab_s_own_phases_are_not_the_release_s():
    chance = random.Random(4)
    assert judged(ours(chance, 5, lab_up=100), ours(chance, 20)) is None


@pytest.mark.parametrize(
    ("recent", "before", "p"),
    [([4, 5, 6], [1, 2, 3], 1 / 20), ([1, 2, 3], [4, 5, 6], 1.0), ([8, 9], [1, 2, 3, 4, 5, 6], 1 / 28), ([], [1], 1.0)],
)
def test_mann_whitney_has_the_exact_distribution(recent, before, p):
    """Ranks are equally likely: of C(6, 3) = 20 ways to choose three of six, one has the three largest."""
    assert slower(recent, before) == pytest.approx(p)


def events(began, *milestones):
    """Return a file of events: seconds after `began`, name, message."""
    return [
        {"name": name, "message": message, "event_time": f"{(began + timedelta(seconds=at)).isoformat()[:23]}Z"}
        for at, name, message in milestones
    ]


BEGAN = datetime(2026, 1, 1, 12, 0, 0, 500000, tzinfo=UTC)


def test_stages_are_read_from_events_and_the_slowest_host_s_counts(tmp_path):
    file = tmp_path / "events.json"
    events_text = events(
        BEGAN,
        (10, "cluster_registration_succeeded", "Successfully registered cluster ostest"),
        (20, "cluster_prepare_installation_started", "Cluster starting to prepare for installation"),
        (30, "cluster_status_updated", "Updated status of the cluster to installing"),
        (32, "host_install_progress_updated", "Host: a, reached installation stage Installing: bootstrap"),
        (35, "host_install_progress_updated", "Host: b, reached installation stage Installing: master"),
        (40, "host_install_progress_updated", "Host: a, reached installation stage Writing image to disk: 6%"),
        (45, "host_install_progress_updated", "Host: a, reached installation stage Writing image to disk: 100%"),
        (50, "host_install_progress_updated", "Host: a, reached installation stage Rebooting"),
    )
    file.write_text(json.dumps([*events_text, "noise", {"name": "host_install_progress_updated"}]))
    by_name = {step.name: (step.at, step.seconds, step.depth) for step in stages.steps(file, "2026-01-01T12:00:00Z")}
    assert by_name == {
        "stage discovery": (10.5, 10.0, 1),
        "stage preparing": (20.5, 10.0, 1),
        "stage handing over to the hosts": (30.5, 5.0, 1),
        "stage Installing": (32.5, 8.0, 1),
        "stage Writing image to disk": (40.5, 10.0, 1),
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '[{"event_time": 3}]', '{"a": 1}'])
def test_invalid_events_have_no_stages(tmp_path, text):
    (tmp_path / "events.json").write_text(text)
    assert stages.steps(tmp_path / "events.json", "2026-01-01T12:00:00Z") == []
    assert stages.steps(tmp_path / "none.json", "2026-01-01T12:00:00Z") == []


def test_stages_are_below_their_phase_and_not_counted_twice(tmp_path):
    folder = tmp_path / "sno-ipv4-static-uefi"
    (folder / "installer/logs").mkdir(parents=True)
    phases = [
        {"name": artifacts.QUEUE, "began": "2026-01-01T12:00:00Z", "at": 0, "seconds": 80, "outcome": "passed"},
        {"name": "create image", "at": 0, "seconds": 5, "outcome": "passed"},
        {"name": "wait-for bootstrap-complete", "at": 5, "seconds": 60, "outcome": "passed"},
        {"name": "wait-for install-complete", "at": 65, "seconds": 30, "outcome": "passed"},
    ]
    (folder / "phases.json").write_text(json.dumps(phases))
    events_text = events(
        BEGAN, (10, "cluster_registration_succeeded", ""), (20, "cluster_prepare_installation_started", "")
    )
    (folder / "missing.txt").touch()
    (folder / artifacts.EVENTS).write_text(json.dumps(events_text))
    [run] = artifacts.load(tmp_path, "p")
    assert [(step.name, step.depth) for step in run.steps] == [
        (artifacts.QUEUE, 0),
        ("create image", 0),
        ("wait-for bootstrap-complete", 0),
        ("stage discovery", 1),
        ("wait-for install-complete", 0),
    ]
    assert run.seconds == 95


def test_a_slower_release_is_rejected_and_the_component_named(tmp_path):
    chance = random.Random(5)

    def run(payload, day, place, seconds):
        steps, at = [], 0.0
        for name, value in seconds.items():
            steps.append(Step(name, at, value, Outcome.PASSED))
            at += value
        return Run(
            "sno@container",
            payload,
            f"{payload} {day} {place}",
            f"2026-01-{day:02}T0{place}:00:00Z",
            seconds=at,
            steps=steps,
        )

    with History(tmp_path / "history.db") as history:
        history.add(run("old", day, place, taken(chance)) for day in range(1, 6) for place in range(4))
        history.add(run("same", 7, place, taken(chance)) for place in range(4))
        slow = [taken(chance, stage_handing_over_to_the_hosts=40) for _ in range(4)]
        history.add(run("slow", 8, place, seconds) for place, seconds in enumerate(slow))
        assert judge(history, "same", ("sno@*",)).decision is Decision.ACCEPTED
        verdict = judge(history, "slow", ("sno@*",))
    assert verdict.decision is Decision.REJECTED
    *_, last = verdict_lines(verdict)
    assert last == "slow: rejected (1 of 1 blocking jobs: sno@container; component agent-installer-orchestrator)"


#: What ends each stage of one node, in their order; the last one has no end.
MILESTONES = (
    ("stage discovery", "cluster_registration_succeeded", "Successfully registered cluster ostest"),
    ("stage preparing", "cluster_prepare_installation_started", "Cluster starting to prepare for installation"),
    (HANDING_OVER, "cluster_status_updated", "Updated status of the cluster to installing"),
    *(
        (f"stage {stage}", "host_install_progress_updated", f"Host: master-0, reached installation stage {stage}")
        for stage in (
            "Starting installation",
            "Installing",
            "Waiting for bootkube",
            "Writing image to disk",
            "Rebooting",
        )
    ),
)


def recorded(folder, seconds, began):
    """Artefacts as a scenario and its lab leave them, of a run whose steps took that long."""
    folder.mkdir(parents=True)
    (folder / "machines").mkdir()
    (folder / "installer/logs").mkdir(parents=True)
    at, milestones = seconds["lab up"] + seconds["create image"], []
    for stage, name, message in MILESTONES:
        milestones.append((at, name, message))
        at += seconds.get(stage, 0)
    phases, begin = [], 0.0
    for name, took in (
        ("lab up", seconds["lab up"]),
        ("create image", seconds["create image"]),
        ("wait-for bootstrap-complete", at - seconds["lab up"] - seconds["create image"]),
        ("wait-for install-complete", seconds["wait-for install-complete"]),
    ):
        phases.append({"name": name, "began": f"{began:%Y-%m-%dT%H:%M:%SZ}", "at": begin, "seconds": took})
        phases[-1]["outcome"] = "passed"
        begin += took
    (folder / "phases.json").write_text(json.dumps(phases))
    (folder / "tests.json").write_text('[{"name": "t", "outcome": "passed", "seconds": 1}]')
    (folder / "missing.txt").touch()
    (folder / artifacts.EVENTS).write_text(json.dumps(events(began, *milestones)))


@pytest.mark.parametrize(
    ("variant", "seconds"), [("slower", SLOWER_SECONDS), ("slow-bootstrap", SLOW_BOOTSTRAP_SECONDS), (None, 0)]
)
def test_variants_that_are_slower_are_rejected_by_what_was_recorded(node0_ci, tmp_path, capsys, variant, seconds):
    """From five green runs of history and three of the variant on, on hosts that are up to twice as busy."""
    chance = random.Random(6)

    def load(payload, day, *, late=0.0):
        folder = tmp_path / payload / str(day)
        taking = taken(chance, chance.uniform(1, 2), stage_handing_over_to_the_hosts=late)
        recorded(folder / "sno-ipv4-static-uefi", taking, datetime(2026, 1, day, 12, tzinfo=UTC))
        assert node0_ci("load", folder, "--payload", payload) == 0

    for day in range(1, 6):
        load("as-it-is", day)
    for day in range(6, 9):
        load("another", day, late=seconds)
    capsys.readouterr()
    code = node0_ci("verdict", "another", "--blocking", "*")
    last = capsys.readouterr().out.splitlines()[-1]
    if variant is None:
        assert (code, last) == (0, "another: accepted (all 1 blocking jobs)")
    else:
        job, component = "sno-ipv4-static-uefi@container", VARIANTS[variant].component
        assert (code, last) == (1, f"another: rejected (1 of 1 blocking jobs: {job}; component {component})")
