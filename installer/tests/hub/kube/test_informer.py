"""Caches: they have what the server has, whatever happened between two looks."""

import logging

import pytest

from installer.hub.kube.informer import Cache, Informer
from installer.hub.kube.kinds import INFRA_ENV, Key
from installer.testing.hub.apiserver import ApiServer, api_server, until

A, B = Key("n", "a"), Key("n", "b")


def env(key, **spec):
    return INFRA_ENV.new(key, spec=spec)


@pytest.fixture(name="server")
def fixture_server():
    with api_server() as server:
        yield server


@pytest.fixture(name="informer")
def fixture_informer(server):
    api = server.api()
    informer = Informer(api, INFRA_ENV)
    informer.seen = []
    informer.listen(lambda old, new: informer.seen.append((old and old["spec"], new and new["spec"])))
    informer.start()
    assert informer.synced.wait(10)
    yield informer
    informer.stop()
    api.close()
    informer.join(5)


def specs(informer):
    return {obj["metadata"]["name"]: obj["spec"] for obj in informer.cache.list()}


def test_changes_reach_cache_and_listeners(server, informer):
    api = server.api()
    api.create(INFRA_ENV, env(A, x=1))
    api.patch(INFRA_ENV, A, {"spec": {"x": 2}})
    api.delete(INFRA_ENV, A)
    until(lambda: len(informer.seen) == 3)
    assert informer.seen == [(None, {"x": 1}), ({"x": 1}, {"x": 2}), ({"x": 2}, None)]
    assert specs(informer) == {}


def test_what_happened_in_a_gap_is_made_up_for_after_410(server, informer, monkeypatch):
    monkeypatch.setattr("installer.hub.kube.informer._FIRST_WAIT", 0.1)
    api = server.api()
    api.create(INFRA_ENV, env(A, x=1))
    until(lambda: specs(informer) == {"a": {"x": 1}})
    server.refusals += [503, 503]
    server.drop_watches()
    until(lambda: not server.refusals)
    with server.store.changed:  # as another client did while nobody watched
        server.store.delete(INFRA_ENV, A, {})
        server.store.create(INFRA_ENV, B, env(B, x=2))
        server.store.compact()
    until(lambda: specs(informer) == {"b": {"x": 2}})
    assert informer.seen[1:] == [({"x": 1}, None), (None, {"x": 2})]


def test_a_watch_that_ends_loses_nothing_and_lists_nothing(server, informer):
    api = server.api()
    for number in range(5):
        server.drop_watches()
        api.create(INFRA_ENV, env(Key("n", str(number))))
    until(lambda: len(specs(informer)) == 5)
    lists = [path for method, path in server.requests if method == "GET" and "watch" not in path]
    assert len(lists) == 1


def test_a_server_that_comes_back_is_read_on_without_a_busy_loop(server, informer, caplog):
    with caplog.at_level(logging.WARNING, "node0-hub"):
        server.close()
        until(lambda: caplog.records)
        again = ApiServer(server.store, server.port)
        try:
            again.api().create(INFRA_ENV, env(A))
            until(lambda: specs(informer))
        finally:
            again.close()
    assert len([record for record in caplog.records if "refused" in record.message]) == 1
    assert len(again.requests) < 5


def test_refused_credentials_are_logged_once(server, caplog, monkeypatch):
    monkeypatch.setattr("installer.hub.kube.informer._WAIT_REFUSED", 0.01)
    server.refusals += [401] * 20
    informer = Informer(server.api(), INFRA_ENV)
    with caplog.at_level(logging.INFO, "node0-hub"):
        informer.start()
        assert informer.synced.wait(10)
    informer.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def obj(key, version, uid="1", **labels):
    metadata = {"namespace": key.namespace, "name": key.name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata | {"labels": labels}, "spec": {}}


def test_an_answer_to_a_write_neither_brings_back_the_deleted_nor_the_older():
    cache = Cache()
    cache.put(obj(A, 5))
    cache.put_written(obj(A, 7))
    cache.put(obj(A, 6))  # the watch is behind
    assert cache.get(A)["metadata"]["resourceVersion"] == "7"
    cache.remove(obj(A, 8))
    cache.put_written(obj(A, 9))
    assert cache.get(A) is None
    cache.put(obj(A, 10, uid="2"))
    assert cache.remove(obj(A, 9, uid="1")) is None
    assert cache.get(A)["metadata"]["uid"] == "2"


def test_indexes_follow_objects():
    cache = Cache()
    cache.put(obj(A, 1, env="x"))
    cache.index("env", lambda item: [item["metadata"]["labels"].get("env", "")])
    cache.put(obj(B, 2, env="x"))
    assert len(cache.by("env", "x")) == 2
    cache.put(obj(A, 3, env="y"))
    cache.remove(obj(B, 4))
    assert ([len(cache.by("env", value)) for value in "xy"], cache.list("n", {"env": "y"})) == ([0, 1], [cache.get(A)])


def test_listeners_hear_of_a_write_when_the_watch_brings_it():
    """Its writer has seen the answer; the controllers that work from the object have not."""
    cache = Cache()
    cache.put(obj(A, 5))
    cache.put_written(obj(A, 6))
    cache.put_written(obj(A, 7))
    old, new = cache.put(obj(A, 6))
    assert old is new
    old, new = cache.put(obj(A, 7))
    assert [item["metadata"]["resourceVersion"] for item in (old, new)] == ["5", "7"]
    cache.put_written(obj(A, 8))
    [(old, new)] = cache.replace([obj(A, 8)])
    assert [item["metadata"]["resourceVersion"] for item in (old, new)] == ["7", "8"]
