"""Kubernetes' own conformance suite judges an installed cluster: a part with every change, all of it each week."""

import logging
from pathlib import Path

import pytest

from lab.conformance import images, results, running, suite
from lab.conformance.running import Cluster
from lab.release.stage.store import Store, default_cache
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.results import WITHIN

log = logging.getLogger(__name__)

PART_MINUTES, MINUTES = 15, 90
#: The outcomes of specs, as tests.json has them.
WORDS = {"passed": "passed", "failed": "failed", "not run": "failed", "left out": "skipped"}


def conforms(installation: Installation, request: pytest.FixtureRequest, *, only_part: bool, minutes: float) -> None:
    """Run the suite or the gate's part of it; every spec is a result of the scenario's, and what has not passed fails
    the test."""
    store = Store(default_cache())
    programs = suite.Programs.built(store)
    plan = suite.plan(programs.specs(), only_part=only_part)
    lab = installation.lab
    images.push_images(store, images.storage_of(lab.layout.root))
    folder = Path(lab.artifacts) / request.node.originalname
    with lab.phase(f"conformance: {len(plan.specs)} specs"):
        ran = running.run(
            programs, Cluster(lab, installation.deployment.kubeconfig), plan,
            folder=folder, minutes=minutes, tell=log.info,
        )  # fmt: skip
    entries = [
        {"name": r.spec, "outcome": WORDS[r.outcome], "seconds": round(r.seconds, 3), "message": r.message}
        for r in ran.results
    ]
    request.node.user_properties.append((WITHIN, entries))
    assert ran.ok, "\n".join([*results.red(ran.results), f"{ran.line}; {folder}"])


@pytest.mark.parametrize("installation", params(lambda row: row.name == "e2e-agent-compact-ipv4"), indirect=True)
def test_a_part_of_the_conformance_suite_passes(installation: Installation, request: pytest.FixtureRequest) -> None:
    conforms(installation, request, only_part=True, minutes=PART_MINUTES)


@pytest.mark.weekly
@pytest.mark.parametrize("installation", ["compact-ipv4-static-uefi-two_vcpus"], indirect=True)
def test_the_conformance_suite_passes(installation: Installation, request: pytest.FixtureRequest) -> None:
    conforms(installation, request, only_part=False, minutes=MINUTES)
