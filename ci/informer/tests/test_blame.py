"""Which image's change broke a payload, by the rubric."""

from datetime import date, timedelta

import pytest

from ci.informer.judging import blame
from ci.informer.judging.blame import Failure
from lab.evidence.symptoms import Label

DAY = date(2026, 1, 20)
IMAGES = {tag: f"sha256:{tag}" for tag in ("console", "haproxy-router", "etcd", "cluster-bootstrap", "unbound", "cli")}


def red(job="sno", **fields):
    return Failure(**{"job": job, "label": Label.PRODUCT, "since": DAY, **fields})


def said(failures, *changed, jobs=2):
    after = {tag: digest + ("2" if tag in changed else "") for tag, digest in IMAGES.items()}
    return blame.judge(failures, DAY, IMAGES, after, jobs=jobs)


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
        ([red(components=["console"], since=DAY - timedelta(1))] * 4, ["console"], "nothing new in 4 red runs"),
        (CONSOLE[:2], ["console"], "2 red runs"),
        ([red(label=Label.HOST)] * 9, ["console"], "0 red runs that neither lab nor host explains"),
        (CONSOLE, [], "no image changed"),
        (CONSOLE, list(IMAGES), "no common ancestor"),
    ],
)
def test_nobody_is_accused_where_nothing_says_who(failures, changed, why):
    judged = said(failures, *changed)
    assert judged.suspects == ()
    assert why in judged.undecided


def test_payloads_whose_images_are_not_known_are_undecided():
    assert "before are not known" in blame.judge(CONSOLE, DAY, {}, IMAGES).undecided
