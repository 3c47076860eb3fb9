"""The probes of the scheduler and the controller manager: their leases, their pods, what they have left undone."""

import datetime as dt

import pytest

from lab.release.cluster.nodes.probes.kube_controller_manager import CANARY, NAMESPACE, kube_controller_manager
from lab.release.cluster.nodes.probes.kube_scheduler import POD_SECONDS, kube_scheduler
from lab.release.cluster.nodes.probes.leader import LEASE_SECONDS
from lab.release.cluster.nodes.probes.view import View
from lab.testing.clusterapi import Api, node

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PROBES = {"kube-scheduler": kube_scheduler, "kube-controller-manager": kube_controller_manager}


def stamp(seconds_ago):
    return (NOW - dt.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def static_pod(name, on):
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": f"{name}-{on}", "namespace": f"openshift-{name}"}
    return {"metadata": meta, "spec": {"nodeName": on}, "status": ready}


def waiting(seconds, *, spec=None, conditions=()):
    created = (NOW - dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {"name": "p", "namespace": "mine", "creationTimestamp": created}
    return {"metadata": meta, "spec": spec or {}, "status": {"conditions": list(conditions)}}


def probe(name, tmp_path, *, renewed=10.0, pods=()):
    """Ask the probe of a cluster of one node whose lease was renewed so many seconds ago; None: never."""
    api = Api()
    if renewed is not None:
        meta = {"name": name, "namespace": "kube-system"}
        api.create({"kind": "Lease", "metadata": meta, "spec": {"renewTime": stamp(renewed)}})
    canary = {"name": CANARY, "namespace": NAMESPACE, "generation": 1, "creationTimestamp": stamp(5)}
    api.create({"kind": "Deployment", "metadata": canary, "status": {"observedGeneration": 1}})
    seen = [static_pod(name, "n"), *pods]
    view = View(
        kube=api, files=tmp_path, now=NOW, nodes=[node("n", "192.0.2.1")], pods=seen, domain="d", apps_domain="a"
    )
    return PROBES[name](view)


@pytest.mark.parametrize("name", PROBES)
def test_a_lease_that_nobody_renews(name, tmp_path):
    assert probe(name, tmp_path).good
    assert probe(name, tmp_path, renewed=None).reason == "NoLeader"
    stale = probe(name, tmp_path, renewed=LEASE_SECONDS + 1)
    assert (stale.good, stale.reason) == (False, "StaleLease")
    assert f"kube-system/{name} was last renewed at" in stale.message


REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("pod", "good"),
    [
        (waiting(POD_SECONDS + 1), False),
        (waiting(POD_SECONDS - 1), True),
        (waiting(POD_SECONDS + 1, conditions=[REFUSED]), True),
        (waiting(POD_SECONDS + 1, spec={"nodeName": "n"}), True),
        (waiting(POD_SECONDS + 1, spec={"schedulerName": "my-own"}), True),
    ],
)
def test_a_pod_that_no_scheduler_has_looked_at(pod, good, tmp_path):
    finding = probe("kube-scheduler", tmp_path, pods=[pod])
    assert finding.good is good
    assert good or "mine/p" in finding.message
