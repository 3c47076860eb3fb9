"""Informers: what a loop sees of kinds that change, of an API that goes away, and of a version that etcd forgot."""

import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.release.cluster import informer
from lab.release.cluster.errors import ApiError
from lab.release.cluster.informer import Informers
from lab.release.cluster.kube import Kube


def obj(name, version, namespace="n", **fields):
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)}, **fields}


class Api:
    """One kind: what a list answers, and what its watches give; an exception is raised, None ends a watch."""

    def __init__(self):
        self.items, self.version = [], "1"
        self.events: queue.Queue[object] = queue.Queue()
        self.lists = 0
        self.watched: queue.Queue[str] = queue.Queue()

    def list_at(self, api_version, kind):
        self.lists += 1
        if isinstance(self.items, Exception):
            raise self.items
        return list(self.items), self.version

    def watch(self, api_version, kind, version, seconds):
        self.watched.put(version)
        while (event := self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def say(self, kind, changed):
        self.events.put({"type": kind, "object": changed})


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(informer, "RETRY_SECONDS", 0.05)
    api, stop = Api(), threading.Event()
    yield api, Informers(api, stop)
    stop.set()
    api.events.put(None)


def names(informers):
    return sorted(o["metadata"]["name"] for o in informers.list("v1", "Pod"))


def until(informers, wanted):
    """Wait by the informers' own means until they list what is wanted."""
    deadline = time.monotonic() + 10
    while (seen := names(informers)) != wanted:
        assert time.monotonic() < deadline, seen
        informers.wait(1.0)


def test_a_kind_is_listed_once_and_then_followed(world):
    api, informers = world
    api.items = [obj("a", 1)]
    assert names(informers) == ["a"]
    assert api.watched.get(timeout=10) == "1"
    api.say("ADDED", obj("b", 2))
    until(informers, ["a", "b"])
    api.say("MODIFIED", obj("b", 3, note="new"))
    api.say("DELETED", obj("a", 4))
    until(informers, ["b"])
    assert informers.list("v1", "Pod")[0]["note"] == "new"
    assert api.lists == 1


def test_objects_of_one_name_in_two_namespaces_are_two(world):
    api, informers = world
    api.items = [obj("a", 1, "x"), obj("a", 1, "y")]
    assert names(informers) == ["a", "a"]


def test_a_watch_that_the_server_ends_goes_on_where_it_was(world):
    api, informers = world
    assert names(informers) == []
    api.say("ADDED", obj("a", 7))
    until(informers, ["a"])
    assert api.watched.get(timeout=10) == "1"
    api.events.put(None)
    assert api.watched.get(timeout=10) == "7"
    assert api.lists == 1


def test_a_version_that_etcd_no_longer_has_is_listed_anew(world):
    api, informers = world
    assert names(informers) == []
    api.items, api.version = [obj("z", 90)], "90"
    api.say("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
    until(informers, ["z"])
    api.watched.get(timeout=10)
    assert api.watched.get(timeout=10) == "90"


def until_answered(informers, wanted):
    """As `until`, through an API that is away; the errors that were seen."""
    deadline, errors = time.monotonic() + 10, list[str]()
    while True:
        try:
            if names(informers) == wanted:
                return errors
        except ApiError as error:
            errors.append(error.message)
        assert time.monotonic() < deadline
        informers.wait(1.0)


def test_while_the_api_is_away_that_is_said_and_then_it_is_listed_anew(world):
    api, informers = world
    api.items = ApiError("GET", "/pods", 0, "refused")
    with pytest.raises(ApiError, match="refused"):
        informers.list("v1", "Pod")
    api.items = [obj("a", 1)]
    until_answered(informers, ["a"])
    api.items = ApiError("GET", "/pods", 0, "refused")
    api.events.put(ApiError("GET", "/pods", 0, "reset"))
    threading.Timer(0.3, setattr, (api, "items", [obj("a", 1), obj("b", 5)])).start()
    assert set(until_answered(informers, ["a", "b"])) <= {"reset", "refused"}


def test_a_wait_ends_with_a_change_with_its_time_and_with_the_loop(world):
    api, informers = world
    names(informers)
    informers.wait(5.0)  # the list itself was a change
    began = time.monotonic()
    informers.wait(0.2)
    assert 0.15 < time.monotonic() - began < 2
    threading.Timer(0.2, api.say, ("ADDED", obj("a", 2))).start()
    began = time.monotonic()
    informers.wait(30.0)
    assert time.monotonic() - began < 5
    began = time.monotonic()
    api.say("MODIFIED", obj("a", 3, note="new"))
    informers.wait(5.0, least=0.5)
    assert 0.45 < time.monotonic() - began < 3, "what changes in a row is looked at once"


def test_an_event_that_nobody_expected_is_said_and_the_kind_listed_anew(world):
    api, informers = world
    assert names(informers) == []
    api.items = [obj("a", 1)]
    api.say("MODIFIED", None)
    assert all("TypeError" in error for error in until_answered(informers, ["a"]))
    assert api.lists == 2


def test_a_heartbeat_is_kept_and_is_no_change(world):
    api, informers = world
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "10:00"}
    api.items = [obj("a", 1, status={"conditions": [beat]})]
    names(informers)
    informers.wait(5.0)
    api.say("MODIFIED", obj("a", 2, status={"conditions": [{**beat, "lastHeartbeatTime": "10:05"}]}))
    began = time.monotonic()
    informers.wait(0.5)
    assert time.monotonic() - began > 0.4
    assert informers.list("v1", "Pod")[0]["metadata"]["resourceVersion"] == "2"
    api.say("MODIFIED", obj("a", 3, status={"conditions": [{**beat, "status": "False"}]}))
    informers.wait(20.0)
    assert time.monotonic() - began < 10


def test_a_server_that_ends_every_watch_at_once_is_not_hurried(world):
    api, informers = world
    for _ in range(200):
        api.events.put(None)
    assert names(informers) == []
    assert not threading.Event().wait(0.5)
    assert api.watched.qsize() < 30


def test_the_end_of_the_loop_ends_its_wait():
    api, stop = Api(), threading.Event()
    informers = Informers(api, stop)
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    informers.wait(30.0, least=10.0)
    assert time.monotonic() - began < 5


@pytest.fixture
def server():
    """(client, go): an API server with one kind, whose watch gives an event, waits for `go`, and gives another."""
    go = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format, *args):
            pass

        def _json(self, body, status=200):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _chunk(self, data):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def do_GET(self):
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if url.path == "/api/v1":
                self._json({"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]})
            elif "watch" not in query:
                self._json({"items": [obj("a", 1)], "metadata": {"resourceVersion": "5"}})
            elif query["resourceVersion"] == ["1"]:
                self._json({"kind": "Status", "message": "too old", "reason": "Expired"}, 410)
            else:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for version in (6, 7):
                    text = json.dumps({"type": "MODIFIED", "object": obj("a", version)}).encode()
                    self._chunk(text[:20])
                    self._chunk(text[20:] + b"\n")
                    go.wait(10)
                self._chunk(b"")

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield Kube(f"http://127.0.0.1:{http.server_address[1]}", "", None), go
    go.set()
    http.shutdown()
    thread.join()
    http.server_close()


def test_an_event_is_given_as_soon_as_it_is_there(server):
    kube, go = server
    items, version = kube.list_at("v1", "Pod")
    assert ([o["metadata"]["name"] for o in items], version) == (["a"], "5")
    events = kube.watch("v1", "Pod", version, 5)
    began = time.monotonic()
    assert next(events)["object"]["metadata"]["resourceVersion"] == "6"
    assert time.monotonic() - began < 5, "the second is not waited for"
    go.set()
    assert [e["object"]["metadata"]["resourceVersion"] for e in events] == ["7"]


def test_a_watch_that_is_refused_says_why(server):
    kube, _ = server
    with pytest.raises(ApiError, match="too old") as caught:
        list(kube.watch("v1", "Pod", "1", 5))
    assert (caught.value.status, caught.value.reason) == (410, "Expired")
