"""One version operator leads: how often it says so, and what it does when another has taken over."""

import datetime as dt
import threading

import pytest

from lab.release.cluster.errors import ApiError, LeaseLost, Stopped
from lab.release.cluster.kube import lease
from lab.release.cluster.kube.conditions import Updates
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator import sync
from lab.release.cluster.version_operator.sync import Syncer


class Api:
    """One lease, and how often it was written."""

    def __init__(self):
        self.lease: dict | None = None
        self.writes, self.away = 0, False

    def get(self, api_version, kind, name, namespace=None):
        if self.away:
            raise ApiError("GET", "/leases/version", 0, "refused")
        return self.lease

    def create(self, obj):
        self.lease = obj
        return obj

    def replace(self, obj, sub=""):
        self.lease = obj
        self.writes += 1
        return obj

    def taken_by(self, holder):
        assert self.lease is not None
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.lease = {**self.lease, "spec": {**self.lease["spec"], "holderIdentity": holder, "renewTime": now}}


@pytest.fixture
def leader(monkeypatch):
    """(syncer, api, clock): an instance that leads since 1000 s, by a clock that is told the time."""
    api, clock = Api(), [1000.0]
    monkeypatch.setattr(sync.time, "monotonic", lambda: clock[0])
    syncer = Syncer(api, [], "4.18.0", "r")
    assert syncer.lead(threading.Event())
    return syncer, api, clock


def test_the_lease_is_renewed_each_half_minute(leader):
    syncer, api, clock = leader
    for _ in range(60):
        clock[0] += 5.0
        assert syncer.renew()
    assert api.writes == pytest.approx(300 / sync.RENEW_SECONDS, abs=1)


def test_who_has_lost_the_lease_ends(leader):
    syncer, api, clock = leader
    api.taken_by("another")
    clock[0] += lease.DURATION_SECONDS + 1
    with pytest.raises(LeaseLost, match="was lost after 121 s"):
        syncer.run(threading.Event())


def test_an_api_that_is_away_is_no_loss(leader):
    syncer, api, clock = leader
    api.away = True
    clock[0] += lease.DURATION_SECONDS + 1
    with pytest.raises(ApiError):
        syncer.renew()
    api.away = False
    assert syncer.renew()


def test_who_never_led_waits(leader):
    _, api, _ = leader
    other = Syncer(api, [], "4.18.0", "r")
    other.holder = "another"
    assert not other.renew()


@pytest.mark.parametrize("ahead", [-86400, 0, 121, 86400])
def test_another_hosts_clock_gives_nobody_the_lease(leader, ahead):
    """The leader's node is by so many seconds behind or ahead of this one: its lease lasts as long either way."""
    _, api, clock = leader
    other = Syncer(api, [], "4.18.0", "r")
    other.holder = "another-host_1"

    def renewed():
        text = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {**api.lease["spec"], "holderIdentity": "leading-host_7", "renewTime": text}
        api.lease = {**api.lease, "spec": spec}

    for _ in range(4):
        renewed()
        for _ in range(8):
            assert not other.renew()
            clock[0] += 14.9
    clock[0] += 0.9  # 120.1 s after the last renewal
    assert other.renew()
    assert api.lease["spec"]["holderIdentity"] == "another-host_1"


def test_what_an_earlier_process_of_the_same_host_left_is_not_waited_for(leader):
    _, api, _ = leader
    other = Syncer(api, [], "4.18.0", "r")
    host = other.holder.rpartition("_")[0]
    api.taken_by(f"{host}_1")
    assert not other.renew()
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=lease.DURATION_SECONDS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.lease["spec"]["renewTime"] = old
    assert other.renew()


class Asked:
    """An upgrader in the middle of a release that takes longer to retrieve than the lease lasts."""

    current, status = "r", Updates()

    def __init__(self, take):
        self.take = take

    def look(self, cluster_version):
        return "another release"


@pytest.mark.parametrize("lost", [False, True])
def test_the_lease_is_kept_while_another_release_is_retrieved(monkeypatch, leader, lost):
    syncer, api, clock = leader
    monkeypatch.setattr(sync, "RENEW_SECONDS", 0.01)
    renewed, stop, replace = threading.Event(), threading.Event(), api.replace
    monkeypatch.setattr(api, "replace", lambda obj, sub="": (replace(obj), renewed.set()))
    version = {"metadata": {}, "spec": {}, "status": {"history": [{"state": "Completed", "image": "r"}]}}
    monkeypatch.setattr(syncer, "_cluster_version", lambda: version)

    def take(*_):
        if lost:
            api.taken_by("another")
        clock[0] += lease.DURATION_SECONDS + 1
        assert (stop if lost else renewed).wait(10)
        raise Stopped("seen")

    monkeypatch.setattr(syncer, "_upgrader", Asked(take))
    with pytest.raises(Stopped, match="seen"):
        syncer.round(stop)
    assert stop.is_set() == lost


class SlowApi(Api):
    """An API whose every read takes a while; it counts the objects it was asked for, and its operator comes late."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.looks, self.gaps = clock, 0, []
        self.applied: list[str] = []
        self.renewed = clock[0]

    def get(self, api_version, kind, name, namespace=None):
        self.clock[0] += 10.0
        if kind == "Lease":
            return super().get(api_version, kind, name, namespace)
        if kind == "ClusterVersion":
            return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {}}
        self.applied.append(name)
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}

    def resource(self, api_version, kind):
        return None

    def replace(self, obj, sub=""):
        if obj["kind"] == "Lease":
            self.gaps.append(self.clock[0] - self.renewed)
            self.renewed = self.clock[0]
            return super().replace(obj, sub)
        return obj

    def list(self, api_version, kind):
        self.looks += 1
        if self.looks in (2, 3):
            raise ApiError("GET", "/clusteroperators", 0, "refused")
        conditions = [{"type": "Available", "status": "True"}] if self.looks > 4 else []
        return [{"metadata": {"name": "etcd"}, "status": {"conditions": conditions}}]


@pytest.fixture
def installing(monkeypatch):
    """(syncer, api): a payload of forty objects and an operator, on an API that takes 10 s for a read."""
    clock = [1000.0]
    monkeypatch.setattr(sync.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sync, "POLL_SECONDS", 0.01)
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{i:02}"}} for i in range(40)]
    manifests = [Manifest(f"0000_10_{i:02}.yaml", 10, "x", obj) for i, obj in enumerate(objects)]
    operator = {"apiVersion": sync.CONFIG, "kind": "ClusterOperator", "metadata": {"name": "etcd"}}
    api = SlowApi(clock)
    return Syncer(api, [*manifests, Manifest("0000_12_etcd.yaml", 12, "etcd", operator)], "4.18.0", "r"), api


def test_the_lease_is_held_while_the_payload_is_applied(installing):
    syncer, api = installing
    api.lease = {"kind": "Lease", "metadata": {}, "spec": {"holderIdentity": syncer.holder}}
    assert syncer.lead(threading.Event())
    assert syncer.one_pass(threading.Event()).complete
    assert len(api.gaps) > 5
    assert max(api.gaps) < lease.DURATION_SECONDS / 2


def test_an_api_that_is_away_while_operators_are_waited_for_costs_a_look_and_not_the_pass(installing):
    syncer, api = installing
    api.lease = {"kind": "Lease", "metadata": {}, "spec": {"holderIdentity": syncer.holder}}
    assert syncer.one_pass(threading.Event()).complete
    assert api.looks > 4
    assert sorted(api.applied) == [f"n{i:02}" for i in range(40)], "each once"
