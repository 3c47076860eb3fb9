"""Upgrades with faults drawn at random: each completes, or says what is wrong and goes back."""

import random
import time

import pytest

from lab.errors import WaitTimeout
from lab.faults import DiskFull, Fault, Freeze, Hang, Kill, LinkDown, Loss, Outage, PowerCut
from lab.faults.machines import Process
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, etcd_is_whole, writes
from scenarios.testing.upgrade import (
    ACKNOWLEDGED_SECONDS,
    cluster_version,
    condition,
    next_release,
    patch,
    sign,
    wait_for,
)

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

#: All seeds share one cluster: its upgrade takes minutes, and nobody stands in for what a fault takes away.
ONE_NODE = params(lambda row: row.thorough and row.topology == "sno-ipv4-static-uefi")
SEEDS = range(1, 31)
PROCESSES: tuple[Process, ...] = ("kubelet", "etcd", "kube-apiserver", "containerd")
#: Seconds until the next fault begins, and for which it lasts, at most.
PAUSE_SECONDS, FAULT_SECONDS = 90, 60
#: The part of the upgrades that is given up on the way.
ABORTED = 0.3


def drawn(seed: int, nodes: list[str]) -> tuple[list[tuple[int, Fault, int]], bool]:
    """Return the faults of a seed (seconds after the one before, the fault, seconds for which it lasts), and whether
    the upgrade is given up after them."""
    rng = random.Random(seed)

    def fault() -> Fault:
        node = rng.choice(nodes)
        process = rng.choice(PROCESSES)
        return rng.choice(
            (
                DiskFull(node, "/var", rng.randint(0, 64)),
                Freeze(node, process),
                Hang("dnsmasq"),
                Kill(node, process),
                LinkDown(node),
                Loss(rng.randint(1, 25)),
                Outage("registry"),
                PowerCut(node),
            )
        )

    count = rng.randint(1, 3)
    faults = [(rng.randint(0, PAUSE_SECONDS), fault(), rng.randint(5, FAULT_SECONDS)) for _ in range(count)]
    return faults, rng.random() < ABORTED


def pass_time(seconds: float) -> None:
    """Let faults last for as long as they are to."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 10, f"{seconds} s to pass")


def ask_for(installation: Installation, image: str) -> None:
    """Ask for a release, as often as it takes: the API may be on its way to another node."""

    def asked() -> bool:
        patch(installation, desiredUpdate={"version": None, "image": image})
        return True

    wait_until(asked, BACK_SECONDS, "the wish for a release to be taken")


def outcome(installation: Installation) -> str:
    """Return what ClusterVersion says is wrong; nothing when it says that all is well."""
    said = [(condition(installation, kind), bad) for kind, bad in (("Failing", "True"), ("ReleaseAccepted", "False"))]
    return "; ".join(found["message"] for found, bad in said if found.get("status") == bad)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("installation", ONE_NODE, indirect=True)
def test_an_upgrade_with_faults_completes_or_is_told_and_goes_back(installation: Installation, seed: int) -> None:
    """From each of two releases to the other, in turns."""
    other, lab, status = next_release("next"), installation.lab, cluster_version(installation)["status"]
    here, first = status["desired"], status["history"][-1]
    version, image = other.version, other.pullspec
    if here["image"] == image:
        version, image = first["version"], first["image"]
    sign(installation, here["image"], image)
    faults, aborted = drawn(seed, [spec.name for spec in installation.topology.masters])
    print(f"seed {seed}: {faults}, {'then back' if aborted else 'to the end'}")
    with lab.phase(f"upgrade with the faults of seed {seed}"):
        ask_for(installation, image)
        for pause, fault, lasts in faults:
            pass_time(pause)
            with lab.fault(fault):
                pass_time(lasts)
        if aborted:
            version = here["version"]
            ask_for(installation, here["image"])
        try:
            wait_for(installation, version)
        except WaitTimeout:
            wait_until(lambda: outcome(installation), ACKNOWLEDGED_SECONDS, f"seed {seed}: completion or a reason")
            print(f"seed {seed}: {outcome(installation)}")
            ask_for(installation, here["image"])
            wait_for(installation, here["version"])
    wait_until(installation.nodes_ready, BACK_SECONDS, "all nodes to be Ready")
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole")
    wait_until(lambda: installation.unwell_operators() == [], BACK_SECONDS, "all operators to be well")
    assert writes(installation)
