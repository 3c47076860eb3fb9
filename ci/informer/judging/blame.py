"""Blame for a payload that is worse than one before: which image's change it was, by a written rubric.

An image is accused only if it changed. Its score, 0 to 100, adds up what speaks for it: the failure is a new one, its
text or the stage that it stopped in is the image's, no other changed image explains it, several jobs share it; less the
share of failures that the lab or its host explains. From `REVERT` on its change is proposed to be reverted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history.stages import COMPONENTS
from ci.informer.history.store import History, Row
from lab.evidence.symptoms import Label, Symptoms, read

REVERT = 85
#: Points of the rubric: with the component named they add up to 100, by its stage alone to 90.
NEW, NAMED, STAGE, ALONE, JOBS = 30, 35, 25, 20, 15
#: Points that go where all red runs are the infrastructure's. Any night has some: up to this share takes none.
INFRASTRUCTURE, USUAL = 60, 0.25
#: Red runs without which nothing is said, and the share of them that must point to an image.
RED, SHARE = 3, 0.5
#: What evidence calls a program, and the tag of the image that it is of.
PROGRAMS: Mapping[str, str] = {
    "agent": "agent-installer-node-agent",
    "assisted-installer": "agent-installer-orchestrator",
    "assisted-installer-controller": "agent-installer-csr-approver",
    "assisted-service": "agent-installer-api-server",
    "bootkube": "cluster-bootstrap",
    "coreos-installer": "machine-os-images",
    "dns": "unbound",
    "ingress": "haproxy-router",
    "kube-apiserver": "hyperkube",
    "kube-controller-manager": "hyperkube",
    "kube-scheduler": "hyperkube",
    "kubelet": "hyperkube",
    "machine-config": "machine-config-operator",
    "network": "node-network",
}
#: Images that much else stands on: where several programs fail at once, one of these may be why.
UNDER = ("etcd", "hyperkube", "node-network", "unbound")
#: Characters of a line that are searched.
LONGEST_LINE = 4000
#: In the events' JSON a quote ends the message.
_REACHED = re.compile(r"reached installation stage (?P<stage>[^:\"\n]+?)\s*(?:[:\"]|$)", re.MULTILINE)
#: The last stage of every installation that got so far: whoever records events is gone with the first host's reboot.
_REBOOTING = "Rebooting"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A red run of the payload: its job, the components that its symptoms name, the last stage that it reached, and
    whether nothing failed like it before."""

    job: str
    label: Label
    components: Sequence[str] = ()
    stage: str = ""
    new: bool = True


@dataclass(frozen=True)
class Suspect:
    """A changed image with its score and the points that made it so, in words."""

    tag: str
    score: int
    why: str

    @property
    def revert(self) -> bool:
        """Tell whether its change is to be reverted."""
        return self.score >= REVERT


@dataclass(frozen=True)
class Blame:
    """The suspects, the likeliest first, or the reason why there are none."""

    suspects: Sequence[Suspect] = ()
    _: KW_ONLY
    undecided: str = ""


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str] | str:
    """Return the tags whose images differ, or the reason why that says nothing. A new image has changed, one that is
    gone has not."""
    if not before or not after:
        which = "good" if not before else "broken"
        return f"the images of the {which} payload are not known: node0-ci run --release notes them"
    tags = sorted(tag for tag, digest in after.items() if before.get(tag) != digest)
    if len(tags) == len(after):
        return "the payloads have no image in common: they have no common ancestor"
    return tags or "no image changed"


def tags_of(component: str, tags: Iterable[str]) -> set[str]:
    """Return the tags that a name in the evidence may stand for: itself, the image of a program or an operator's."""
    names = {component, PROGRAMS.get(component, ""), f"{component}-operator", f"cluster-{component}-operator"}
    return names & set(tags)


def last_stage(events: str) -> str:
    """Return the last stage that a host reached, by the texts of an installation's events; empty where none was."""
    reached = [match["stage"] for match in _REACHED.finditer(events)]
    return reached[-1] if reached else ""


def judge(failures: Sequence[Failure], before: Mapping[str, str], after: Mapping[str, str], *, jobs: int = 1) -> Blame:
    """Say which change broke a payload, by its red runs and both payloads' images.

    `jobs` is the number of jobs that ran on it: one that ran alone shares its failures with all there are.
    """
    tags = changed(before, after)
    if isinstance(tags, str):
        return Blame(undecided=tags)
    product = [failure for failure in failures if failure.label not in (Label.LAB, Label.HOST)]
    if len(product) < RED:
        count = f"{len(product)} red {'run' if len(product) == 1 else 'runs'}"
        return Blame(undecided=f"{count} that neither lab nor host explains, {RED} are wanted")
    new = [failure for failure in product if failure.new]
    pointed = {tag: [failure for failure in new if tag in _images(failure, tags)] for tag in tags}
    spoiled = 1 - len(product) / len(failures)
    suspects = [
        _suspect(tag, signs, len(new), spoiled, alone=_is_alone(tag, pointed, new), jobs=jobs)
        for tag, signs in pointed.items()
        if len(signs) >= max(RED, SHARE * len(new))
    ]
    if not suspects:
        return Blame(undecided=f"nothing new in {len(product)} red runs points to an image that changed")
    return Blame(sorted(suspects, key=lambda suspect: (-suspect.score, suspect.tag)))


def _images(failure: Failure, tags: Sequence[str]) -> set[str]:
    """Return the changed images that a failure points to: those that it names, or that of its stage if it names none.

    A name that is of no changed image points nowhere: the failure has its explanation.
    """
    stage = "" if failure.stage == _REBOOTING else failure.stage
    names = failure.components or [COMPONENTS.get(stage, "")]
    return {tag for name in names for tag in tags_of(name, tags)}


def _is_alone(tag: str, pointed: Mapping[str, Sequence[Failure]], new: Sequence[Failure]) -> bool:
    """Tell whether no other changed image may be behind the failures: none is named in more than a few of them, and
    where several programs are named, nothing that they stand on has changed. Where that is itself named, it explains
    those above it."""
    few = len(new) / 4
    rivals = {other for other, signs in pointed.items() if other != tag and len(signs) > few}
    if tag in UNDER:
        return not rivals & set(UNDER)
    several = sum(len(set(sign.components)) > 1 for sign in pointed[tag]) > few
    return not rivals and not (several and any(under in pointed for under in UNDER))


def _suspect(tag: str, signs: Sequence[Failure], count: int, spoiled: float, *, alone: bool, jobs: int) -> Suspect:
    named = sum(bool(sign.components) for sign in signs) / count
    points = {
        "new": float(NEW),  # none but new failures point to an image
        "named": NAMED * named,
        "stage": STAGE * (len(signs) / count - named),
        "alone": float(ALONE if alone else 0),
        "jobs": float(JOBS if jobs == 1 or len({sign.job for sign in signs}) > 1 else 0),
        "infrastructure": -INFRASTRUCTURE * max(0.0, spoiled - USUAL) / (1 - USUAL),
    }
    score = max(0, min(100, round(sum(points.values()))))
    return Suspect(tag, score, ", ".join(f"{name} {value:+.0f}" for name, value in points.items() if round(value)))


def of_history(history: History, before: str, payload: str) -> Blame:
    """Say which change broke a payload of a history, whose red runs have labels and clusters. Raises InformerError for
    a payload that has not run."""
    earlier, rows = (history.runs(payload=name) for name in (before, payload))
    for name, runs in ((before, earlier), (payload, rows)):
        if not runs:
            raise InformerError(f"{history.path}: payload: {name!r} has no runs")
    known = _known(history, before, payload, max(earlier[0].began, rows[0].began))
    table = read()
    failures = [
        _failure(history, row, table, new=(row.cluster, row.component) not in known)
        for row in rows
        if row.outcome in (Outcome.FAILED, Outcome.VOID)
    ]
    jobs = len({row.job for row in rows})
    return judge(failures, history.images(before), history.images(payload), jobs=jobs)


def _known(history: History, before: str, payload: str, until: str) -> set[tuple[str, str]]:
    """Return the failures, by cluster and component, that the good payload has shown too, or any other until a time;
    the broken release by another name is no other."""
    rows = history.db.execute(
        """SELECT DISTINCT cluster, component FROM run JOIN payload ON payload.id = run.payload
        WHERE cluster IS NOT NULL AND (name = ?1
            OR (run.began < ?2 AND name NOT IN (SELECT value FROM json_each(?3))))""",
        (before, until, json.dumps([payload, *history.aliases(payload)])),
    )
    return {(row["cluster"], row["component"]) for row in rows}


def _failure(history: History, row: Row, table: Symptoms, *, new: bool) -> Failure:
    texts = history.evidence(row.id)
    texts["message"] = f"{row.reason}\n{texts.get('message', '')}"
    named = {
        match["component"]
        for symptom in table.all
        if symptom.label is Label.PRODUCT and "component" in symptom.match.groupindex
        for place in symptom.where
        for line in texts.get(place, "").splitlines()
        for match in symptom.match.finditer(line[:LONGEST_LINE])
        if match["component"]
    }
    return Failure(
        job=row.job, label=row.label, components=sorted(named), stage=last_stage(texts.get("event", "")), new=new
    )
