"""Blame of images for a broken payload, by the rubric."""

import json

import pytest

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Attempt, Run
from ci.informer.judging import blame, clusters
from ci.informer.judging.blame import Failure
from lab.evidence.symptoms import Label, read

TAGS = ("console", "haproxy-router", "etcd", "cluster-bootstrap", "unbound", "machine-os-images")
IMAGES = {tag: f"sha256:{tag}" for tag in TAGS}


def red(job="sno", **fields):
    return Failure(**{"job": job, "label": Label.PRODUCT, **fields})


def said(failures, *changed, jobs=2):
    after = {tag: digest + ("2" if tag in changed else "") for tag, digest in IMAGES.items()}
    return blame.judge(failures, IMAGES, after, jobs=jobs)


CONSOLE = [red(job, components=["console"]) for job in ("sno", "ha", "ha")]
BOOTKUBE = [red(job, stage="Waiting for bootkube") for job in ("sno", "ha", "ha")]


@pytest.mark.parametrize(
    ("failures", "changed", "scores"),
    [
        (CONSOLE, ["console", "etcd"], [("console", 100)]),
        (CONSOLE[1:] + CONSOLE[1:], ["console", "etcd"], [("console", 85)]),  # one job of two
        (BOOTKUBE, ["cluster-bootstrap", "etcd"], [("cluster-bootstrap", 90)]),  # by its stage alone
        # Two changed images are named as often: neither is proposed.
        (
            [red(job, components=["console", "ingress"]) for job in ("a", "b", "c")],
            ["console", "haproxy-router"],
            [("console", 80), ("haproxy-router", 80)],
        ),
        # What both stand on has changed, and is named or not.
        (
            [red(job, components=["console", "etcd"]) for job in ("a", "b", "c")],
            ["console", "etcd"],
            [("etcd", 100), ("console", 80)],
        ),
        ([red(job, components=["console", "dns"]) for job in "abc"], ["console", "etcd"], [("console", 80)]),
        ([*CONSOLE, *[red(label=Label.HOST)] * 3], ["console"], [("console", 80)]),
        ([*CONSOLE, red(label=Label.HOST)], ["console"], [("console", 100)]),
    ],
)
def test_a_change_is_scored_by_what_speaks_for_it(failures, changed, scores):
    assert [(suspect.tag, suspect.score) for suspect in said(failures, *changed).suspects] == scores


@pytest.mark.parametrize(
    ("failures", "changed", "why"),
    [
        (CONSOLE, ["etcd"], "points to an image that changed"),
        ([red(components=["console"], new=False)] * 4, ["console"], "nothing new in 4 red runs"),
        (CONSOLE[:2], ["console"], "2 red runs that neither"),
        ([*CONSOLE, *[red(components=["dns"])] * 4], ["console"], "points to an image that changed"),  # most do not
        ([red(label=Label.HOST)] * 9, ["console"], "0 red runs that neither lab nor host explains"),
        (CONSOLE, [], "no image changed"),
        (CONSOLE, list(IMAGES), "no common ancestor"),
        # Every installation's events end there, whatever broke it later.
        ([red(stage="Rebooting")] * 4, ["machine-os-images"], "points to an image that changed"),
    ],
)
def test_nobody_is_accused_where_nothing_says_who(failures, changed, why):
    judged = said(failures, *changed)
    assert judged.suspects == ()
    assert why in judged.undecided


def test_payloads_whose_images_are_not_known_are_undecided():
    assert "the good payload are not known" in blame.judge(CONSOLE, {}, IMAGES).undecided


@pytest.mark.parametrize("progress", ["", ": 45%"])
def test_the_last_stage_is_read_from_the_services_events(progress):
    stages = "Starting installation", "Writing image to disk"
    texts = [f"Host: master-0, reached installation stage {stage}{progress}" for stage in stages]
    events = [{"name": "host_install_progress_updated", "message": text, "category": "user"} for text in texts]
    assert blame.last_stage(json.dumps(events, indent=1)) == "Writing image to disk"


def operator_fails(payload, day, operator, void=""):
    line = f"level=error msg=Cluster operator {operator} Available is False with Waiting: 0 of 1 replicas are there"
    for hour in range(3):
        yield Run(
            job="sno",
            payload=payload,
            key=f"{payload} {day} {hour}",
            began=f"2026-01-{day:02}T{hour:02}:00:00Z",
            seconds=900.0,
            attempts=[Attempt("t", Outcome.FAILED, 900.0, line)],
            void=void,
        )


def blamed(history):
    history.add([Run("sno", "good", "green", "2026-01-10T00:00:00Z", seconds=900.0)])
    history.identify("good", "sha256:1", IMAGES)
    for name in ("bad", "the broken one by another name"):
        history.identify(name, "sha256:2", {**IMAGES, "console": "sha256:console2"})
    triage.label(history, read())
    clusters.assign(history)
    return blame.of_history(history, "good", "bad")


@pytest.mark.parametrize(
    ("also", "suspects"),
    [
        (("good", 20, "console"), []),  # the same failure on the same day
        (("good", 25, "console"), []),  # where the clock of the broken payload's runs was behind
        (("other", 9, "console"), []),
        (("other", 25, "console"), ["console"]),  # that came later, and may have the same change
        (("good", 20, "network"), ["console"]),  # much the same text of another program
        (("the broken one by another name", 9, "console"), ["console"]),
    ],
)
def test_only_failures_that_were_not_there_before_point_to_an_image(history, also, suspects):
    history.add(operator_fails("bad", 20, "console"))
    history.add(operator_fails(*also))
    assert [suspect.tag for suspect in blamed(history).suspects] == suspects


def test_invalid_runs_are_the_infrastructures(history):
    history.add(operator_fails("bad", 20, "console"))
    history.add(operator_fails("bad", 21, "console", void="No space left on device"))
    [suspect] = blamed(history).suspects
    assert (suspect.score, suspect.why) == (80, "new +30, named +35, alone +20, jobs +15, infrastructure -20")
