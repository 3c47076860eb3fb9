"""One version operator leads: how often it says so, and what it does when another has taken over."""

import datetime as dt
import threading

import pytest

from lab.release.cluster import lease, sync
from lab.release.cluster.errors import ApiError
from lab.release.cluster.sync import LeaseLost, Syncer


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
    syncer = Syncer(api, api, [], "4.18.0", "r")
    assert syncer.lead(threading.Event())
    return syncer, api, clock


def test_the_lease_is_renewed_each_half_minute(leader):
    syncer, api, clock = leader
    for _ in range(60):
        clock[0] += 5.0
        assert syncer._renew()
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
        syncer._renew()
    api.away = False
    assert syncer._renew()


def test_who_never_led_waits(leader):
    _, api, _ = leader
    other = Syncer(api, api, [], "4.18.0", "r")
    other._holder = "another"
    assert not other._renew()
