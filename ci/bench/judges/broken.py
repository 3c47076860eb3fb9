"""Releases that are broken on purpose: which of several changed images did it, by evidence as scenarios leave it.

Each is a history of its own: nights of a good payload, and one of a payload in which several images changed and one is
broken. What red runs leave is written as node0's programs write it. Beside it are flakes that were there before,
failures of the lab's host, runs that come out well by chance, and failures that show in other programs than the one
that is broken.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Attempt, Run, Step
from ci.informer.history.store import History
from ci.informer.judging import blame, clusters
from lab.evidence import symptoms

COUNT = 20
FIRST = date(2026, 1, 1)
JOBS = ("sno-ipv4-static-uefi@container", "compact-ipv4-static-uefi@container", "ha-ipv4-static-uefi@container")
GOOD, BAD = "4.20.0", "4.20.1"
#: Nights of the good payload, and runs of each job on the broken one.
NIGHTS, RUNS = 20, 4


@dataclass(frozen=True)
class Break:
    """Texts by their kind that red runs of an image that is broken leave."""

    texts: Mapping[str, str]


def _operator(name: str, *also: str) -> Break:
    line = f"level=error msg=Cluster operator {name} Available is False with Waiting: 0 of 1 replicas are there"
    others = [f"level=error msg=Cluster operator {other} Degraded is True with Failing: no answer" for other in also]
    return Break({"wait-for": "\n".join([line, *others]), "event": _reached("Rebooting")})


def _reached(stage: str) -> str:
    """Return the end of the events as the service leaves them in a run's `events.json`."""
    event = {"severity": "info", "message": f"Host: master-0, reached installation stage {stage}", "category": "user"}
    return json.dumps([event], indent=1)


def _stuck(stage: str, words: str) -> Break:
    return Break({"event": _reached(stage), "message": words})


BREAKS: Mapping[str, Sequence[Break]] = {
    "agent-installer-node-agent": [
        Break({"journal": "Jan 21 22:01:07 master-0 start-agent.sh[811]: Error: reading manifest: manifest unknown"}),
        Break({"message": "AssertionError: agent.service ended by itself (exited 1) on master-0"}),
    ],
    "agent-installer-api-server": [
        Break({"message": "AssertionError: assisted-service.service ended by itself (exited 134) on master-0"}),
    ],
    "agent-installer-orchestrator": [
        _stuck("Starting installation", "The installer failed: the installer ended with code 3"),
    ],
    "cluster-bootstrap": [_stuck("Waiting for bootkube", "bootstrap process timed out: context deadline exceeded")],
    "machine-os-images": [_stuck("Writing image to disk", "failed writing image to disk: bad magic")],
    "agent-installer-csr-approver": [
        _stuck("Waiting for controller", "Host master-1 timed out in stage Waiting for controller"),
    ],
    "console": [_operator("console")],
    "haproxy-router": [_operator("ingress"), _operator("ingress", "console")],
    "etcd": [_operator("etcd"), _operator("kube-apiserver", "etcd", "console")],
    "machine-config-operator": [_operator("machine-config")],
    "unbound": [_operator("dns"), _operator("console", "ingress")],
    "node-network": [_operator("network")],
    "hyperkube": [_operator("kube-apiserver"), Break({"message": "kubelet.service ended by itself (exited 2)"})],
}
_FLAKE = "TimeoutError: the API did not answer within 1800 s"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A broken release: the images that changed, the broken one among them, and the share of runs that show it."""

    changed: Sequence[str]
    broken: str
    shown: Break
    share: float
    jobs: Sequence[str]


def made(seed: int, number: int) -> Release:
    """Break a release on purpose; the same seed and number break the same one."""
    generator = random.Random(f"{seed} {number}")
    tags = generator.sample(sorted(BREAKS), generator.randint(2, 5))
    breaks = BREAKS[tags[0]]
    # One in five shows first in a program that is not at fault, where the image has such a way to fail.
    shown = breaks[-1] if generator.random() < 0.2 else breaks[0]
    return Release(
        changed=sorted(tags),
        broken=tags[0],
        shown=shown,
        share=generator.uniform(0.7, 1.0),
        jobs=generator.sample(JOBS, generator.randint(2, 3)),
    )


def _runs(release: Release, seed: int, number: int) -> Iterator[Run]:
    generator = random.Random(f"{seed} {number} runs")
    for night in range(NIGHTS + 1):
        last = night == NIGHTS
        for job in release.jobs:
            for place in range(RUNS if last else 2):
                evidence: Mapping[str, str] = {}
                luck, void = generator.random(), ""
                if luck < 0.03:
                    void = "No space left on device"
                elif luck < 0.06:
                    evidence = {"message": _FLAKE}
                elif last and generator.random() < release.share:
                    evidence = release.shown.texts
                reason = void or evidence.get("message", "") or next(iter(evidence.values()), "")
                outcome = Outcome.VOID if void else Outcome.FAILED if evidence else Outcome.PASSED
                yield Run(
                    job=job,
                    payload=BAD if last else GOOD,
                    key=f"{job} {night} {place}",
                    began=f"{FIRST + timedelta(days=night)}T{place:02}:00:00Z",
                    seconds=900.0,
                    attempts=[Attempt("test_install", outcome, 900.0, reason)],
                    steps=[Step("install", 0.0, 900.0, outcome, error=reason)],
                    evidence=evidence,
                    void=void,
                )


def _images(changed: Sequence[str]) -> dict[str, str]:
    return {tag: f"sha256:{tag}{'-2' if tag in changed else ''}" for tag in BREAKS}


def blamed(seed: int, number: int, folder: Path) -> tuple[Release, blame.Blame]:
    """Judge a broken release by its history, made in a folder."""
    release = made(seed, number)
    with History(folder / f"{seed}-{number}.db") as history:
        history.add(_runs(release, seed, number))
        history.identify(GOOD, "sha256:good", _images(()))
        history.identify(BAD, "sha256:bad", _images(release.changed))
        triage.label(history, symptoms.read())
        clusters.assign(history)
        return release, blame.of_history(history, GOOD, BAD)


def lines(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the scores: of so many releases a seed, the right image proposed for a revert, and wrong ones."""
    for seed in seeds:
        right = wrong = 0
        missed = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(COUNT):
                release, said = blamed(seed, number, Path(folder))
                accused = [suspect.tag for suspect in said.suspects if suspect.revert]
                right += accused == [release.broken]
                wrong += any(tag != release.broken for tag in accused)
                if release.broken not in accused:
                    best = [f"{suspect.tag} {suspect.score}" for suspect in said.suspects] or [said.undecided]
                    missed.append(f"{release.broken} ({', '.join(best)})")
        yield (
            f"releases broken on purpose, seed {seed}: {right} of {COUNT} right, {wrong} wrong"
            + f"{'; not proposed: ' + '; '.join(missed) if missed else ''}"
        )
