"""The manager: keys of changes reach controllers, one object's failure is its own, only the leader acts, all ends."""

import logging
import threading
import time
from contextlib import contextmanager

import pytest

from installer.assisted.errors import ClientError
from installer.hub.kube import lease, queue
from installer.hub.kube.api import Conflict
from installer.hub.kube.informer import Cache
from installer.hub.kube.kinds import INFRA_ENV, SECRET, Key, key_of
from installer.hub.kube.lease import Leader
from installer.hub.kube.manager import Hub, Manager, Retry
from installer.hub.service import Changes, MarkTooOld
from installer.testing.hub.apiserver import ApiServer, api_server, until
from installer.testing.hub.feed_kit import ScriptedService

A, B = Key("n", "a"), Key("n", "b")
LEASE_KEY = Key("node0-hub", "node0-hub")


class Counting:
    """Counts the looks at each key, and raises for some."""

    kind = INFRA_ENV

    def __init__(self, hub, raises=None):
        self.hub = hub
        self.raises = raises or {}
        self.looks = []

    def watches(self):
        return {SECRET: lambda secret: [Key(key_of(secret).namespace, secret["metadata"]["labels"]["env"])]}

    def follow(self, change):
        return [Key("n", change["id"])]

    def reconcile(self, key):
        self.looks.append(key)
        errors = self.raises.get(key)
        if errors:
            raise errors.pop(0)

    def count(self, key):
        return self.looks.count(key)


@contextmanager
def managed(server, service=None, leader=None, raises=None):
    manager = Manager(server.api(), service or ScriptedService(), (INFRA_ENV, SECRET), leader)
    controller, stop = Counting(manager.hub, raises), threading.Event()
    thread = threading.Thread(target=manager.run, args=([controller], stop))
    thread.start()
    try:
        yield controller
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(name="server")
def fixture_server():
    with api_server() as server:
        server.api().create(INFRA_ENV, INFRA_ENV.new(A))
        yield server


def test_a_change_of_another_kind_reaches_the_object_that_it_pointed_to_as_well(server):
    api = server.api()
    api.create(INFRA_ENV, INFRA_ENV.new(B))
    with managed(server) as controller:
        until(lambda: controller.looks)
        secret = SECRET.new(Key("n", "s"))
        secret["metadata"]["labels"] = {"env": "a"}
        api.create(SECRET, secret)
        until(lambda: controller.count(A) == 2)
        api.patch(SECRET, Key("n", "s"), {"metadata": {"labels": {"env": "b"}}})
        until(lambda: (controller.count(A), controller.count(B)) == (3, 2))


def test_failures_are_the_object_s_own_and_tried_again(server, caplog, monkeypatch):
    monkeypatch.setattr(queue, "FIRST_RETRY", 0.02)
    server.api().create(INFRA_ENV, INFRA_ENV.new(B))
    errors = [
        Retry("not yet"),
        Conflict(409, "Conflict", "changed"),
        ClientError("GET /x", None, "nothing answered"),
        KeyError("a defect of ours"),
    ]
    with managed(server, raises={A: errors}) as controller, caplog.at_level(logging.WARNING, "node0-hub"):
        until(lambda: not errors)
        server.api().patch(INFRA_ENV, B, {"spec": {"sshAuthorizedKey": "x"}})
        until(lambda: controller.count(B) == 2)
    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition(";")[0] for text in texts] == [
        "InfraEnv n/a: GET /x: nothing answered",
        "InfraEnv n/a",
    ]


def test_only_the_leader_acts_and_another_takes_over_with_everything(server, monkeypatch):
    monkeypatch.setattr(lease, "LOOK", 0.05)
    first, second = (Leader(server.api(), LEASE_KEY, name) for name in ("first", "second"))
    first.step()
    with managed(server, leader=second) as waiting:
        until(lambda: second._said)
        assert waiting.looks == []
        first.release()
        until(lambda: waiting.count(A))


def test_an_api_server_that_is_away_for_long_is_asked_seldom_and_then_everything_is_looked_at(server, monkeypatch):
    monkeypatch.setattr(lease, "LOOK", 0.05)
    monkeypatch.setattr(lease, "RENEW", 0.1)
    monkeypatch.setattr(lease, "DEADLINE", 0.5)
    counts: dict[str, int] = {}
    lease_api = server.api()
    leader = Leader(lease_api, LEASE_KEY, "me")
    manager = Manager(server.api(requests=counts), ScriptedService(), (INFRA_ENV, SECRET), leader)
    controller, stop = Counting(manager.hub), threading.Event()
    thread = threading.Thread(target=manager.run, args=([controller], stop))
    thread.start()
    until(lambda: controller.count(A) and leader.is_leading())
    server.close()
    until(lambda: not leader.is_leading())
    before, looks = sum(counts.values()), controller.count(A)
    asked = sum(lease_api.requests.values())
    until(lambda: sum(lease_api.requests.values()) > asked + 30)  # the lease is looked at every 0.05 s
    assert sum(counts.values()) - before < 10
    again = ApiServer(server.store, server.port)
    until(lambda: controller.count(A) > looks)
    stop.set()
    thread.join(20)
    again.close()
    assert not thread.is_alive()


def test_an_operator_that_lost_the_lease_changes_nothing(server):
    leader = Leader(server.api(), LEASE_KEY, "me")
    hub = Hub(server.api(may_write=leader.is_leading), {INFRA_ENV: Cache()}, None, None, events=None, now=None)
    with pytest.raises(Exception, match="another operator leads"):
        hub.write_status(INFRA_ENV, hub.api.get(INFRA_ENV, A), {"isoDownloadURL": "x"})
    leader.step()
    hub.write_status(INFRA_ENV, hub.api.get(INFRA_ENV, A), {"isoDownloadURL": "x"})
    assert hub.api.get(INFRA_ENV, A)["status"] == {"isoDownloadURL": "x"}


def test_what_is_written_is_in_the_cache_at_once_and_the_same_again_is_no_request(server):
    cache = Cache()
    hub = Hub(server.api(), {INFRA_ENV: cache}, None, None, events=None, now=None)
    cache.put(hub.api.get(INFRA_ENV, A))
    hub.add_finalizer(INFRA_ENV, cache.get(A), "node0/x")
    hub.write_status(INFRA_ENV, cache.get(A), {"debugInfo": {"eventsURL": ""}})
    before = len(server.requests)
    hub.add_finalizer(INFRA_ENV, cache.get(A), "node0/x")
    hub.write_status(INFRA_ENV, cache.get(A), {"debugInfo": {"eventsURL": ""}})
    assert len(server.requests) == before
    hub.remove_finalizer(INFRA_ENV, cache.get(A), "node0/x")
    assert cache.get(A)["metadata"]["finalizers"] == []


def test_the_feed_goes_on_from_its_mark_and_begins_anew_when_that_is_too_old(server):
    change = {"kind": "infra_env", "id": "b"}
    service = ScriptedService(
        Changes([change], "1"),
        ClientError("GET /changes", None, "away"),
        Changes([], "2"),
        MarkTooOld("GET /changes", 410, "too old"),
        Changes([change], "3"),
    )
    with managed(server, service) as controller:
        until(lambda: "3" in service.marks)
        until(lambda: controller.count(B) >= 2)
    assert service.marks[:5] == ["", "1", "1", "2", ""]
    assert controller.count(A) >= 2  # all are looked at when the service is back


def test_the_end_waits_for_what_is_under_way_and_gives_the_lease_back(server):
    leader = Leader(server.api(), LEASE_KEY, "me")
    ended = []

    class Slow(Counting):
        def reconcile(self, key):
            self.looks.append(key)
            time.sleep(0.3)
            ended.append(key)

    manager = Manager(server.api(), ScriptedService(), (INFRA_ENV, SECRET), leader)
    controller, stop = Slow(manager.hub), threading.Event()
    thread = threading.Thread(target=manager.run, args=([controller], stop))
    thread.start()
    until(lambda: controller.looks)
    stop.set()
    thread.join(10)
    assert (ended, thread.is_alive(), leader.is_leading()) == ([A], False, False)
