"""Events: about an object, counted when they come again, and no failure of what they are about."""

from datetime import UTC, datetime, timedelta

from installer.hub.kube.events import Recorder
from installer.hub.kube.kinds import AGENT_SERVICE_CONFIG, EVENT, INFRA_ENV, NAMESPACE, Key
from installer.testing.hub.apiserver import api_server


def test_an_event_that_comes_again_is_counted_and_one_of_the_cluster_is_in_default():
    now = [datetime(2026, 11, 28, 12, tzinfo=UTC)]
    with api_server() as server:
        api = server.api()
        recorder = Recorder(api, lambda: now[0])
        env = api.create(INFRA_ENV, INFRA_ENV.new(Key("edge", "e" * 250)))
        recorder.event(env, "DeletionRefused", "hosts are bound", warning=True)
        now[0] += timedelta(minutes=1)
        Recorder(api, lambda: now[0]).event(env, "DeletionRefused", "hosts are bound", warning=True)
        recorder.event(env, "DeletionRefused", "another host is bound", warning=True)
        recorder.event(api.create(AGENT_SERVICE_CONFIG, AGENT_SERVICE_CONFIG.new(Key("", "agent"))), "Set", "done")
        found = {(item["metadata"]["namespace"], item["message"]): item for item in api.list(EVENT)[0]}
    again = found["edge", "hosts are bound"]
    assert (again["count"], again["type"], again["lastTimestamp"]) == (2, "Warning", "2026-11-28T12:01:00Z")
    assert again["involvedObject"]["uid"] == env["metadata"]["uid"]
    assert len(again["metadata"]["name"]) <= 253
    assert found["default", "done"]["type"] == "Normal"
    assert len(found) == 3


def test_an_api_that_takes_no_events_is_no_error(caplog):
    with api_server() as server:
        api = server.api()
        env = api.create(INFRA_ENV, INFRA_ENV.new(Key("edge", "env")))
        server.refusals.append(403)
        Recorder(api).event(env, "Made", "done")
    assert "event Made of edge/env" in caplog.text


def test_a_namespace_that_is_terminating_gets_no_events_and_no_warnings(caplog):
    with api_server() as server:
        api = server.api()
        env = api.create(INFRA_ENV, INFRA_ENV.new(Key("edge", "env")))
        namespace = NAMESPACE.new(Key("", "edge"))
        namespace["metadata"]["finalizers"] = ["kubernetes"]
        api.create(NAMESPACE, namespace)
        api.delete(NAMESPACE, Key("", "edge"))
        Recorder(api).event(env, "Made", "done")
        assert not api.list(EVENT)[0]
    assert not caplog.text
