"""The update that is asked for, and the rules by which a release is let in (reference/upgrades.md §1, §4, §5)."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.errors import InvalidUpdate
from lab.release.cluster.version_operator import graph
from lab.release.cluster.version_operator.updates import Update, precedence, preconditions, upgradeable, wanted

CURRENT = Update("4.18.1-node0.bb", "r@sha256:b")
HISTORY = [
    {"version": CURRENT.version, "image": CURRENT.image, "state": "Completed"},
    {"version": "4.18.0-node0.aa", "image": "r@sha256:a", "state": "Completed"},
]
STATUS = {"history": HISTORY, "availableUpdates": [{"version": "4.18.2", "image": "r@sha256:c"}]}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, CURRENT),
        ({"image": "r@sha256:b"}, CURRENT),
        ({"version": CURRENT.version}, CURRENT),
        ({"image": "r@sha256:d", "version": "4.18.2", "force": True}, Update("4.18.2", "r@sha256:d", True)),
        ({"version": "4.18.2"}, Update("4.18.2", "r@sha256:c")),
        ({"version": "4.18.0-node0.aa"}, Update("4.18.0-node0.aa", "r@sha256:a")),
    ],
)
def test_what_is_asked_for_is_found(asked, expected):
    assert wanted({"desiredUpdate": asked}, STATUS, CURRENT) == expected


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"force": True}, "spec.desiredUpdate.version: Required value: must specify version or image"),
        ({"version": "next"}, 'Invalid value: "next": must be a semantic version'),
        (
            {"image": CURRENT.image, "version": "4.18.9"},
            f'"4.18.9": spec.desiredUpdate.image is that of {CURRENT.version}',
        ),
        ({"version": "4.18.9"}, 'Invalid value: "4.18.9": when image is empty the update must be a previous version'),
    ],
)
def test_what_cannot_be_meant_is_told_by_its_field(asked, rule):
    with pytest.raises(InvalidUpdate) as error:
        wanted({"desiredUpdate": asked}, STATUS, CURRENT)
    assert str(error.value).startswith("The cluster version is invalid: ")
    assert rule in str(error.value)


def test_precedence_is_semvers():
    ordered = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 1.10.0"
    keys = [precedence(version) for version in ordered.split()]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


OVERRIDES = [{"kind": "Deployment", "name": "console", "unmanaged": True}]


def operator(name, state):
    condition = {"type": "Upgradeable", "status": state, "reason": "Old", "message": "it is old"}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("target", "spec", "operators", "names"),
    [
        ("4.18.2", {}, [], []),
        ("4.19.0", {}, [operator("dns", "True")], []),
        ("4.18.2", {"overrides": OVERRIDES}, [operator("dns", "False")], []),
        ("4.19.0", {"overrides": OVERRIDES}, [], ["ClusterVersionUpgradeable", "ClusterVersionOverridesSet"]),
        ("4.19.0", {}, [operator("dns", "False")], ["Cluster operator dns cannot be upgraded", "Old", "it is old"]),
        ("4.18.0-node0.aa", {}, [], []),
        ("4.18.0", {}, [], ["LowDesiredVersion", "only supported rollback is to the cluster's previous version"]),
        ("4.17.0", {"overrides": OVERRIDES}, [], ["LowDesiredVersion"]),
    ],
)
def test_preconditions(target, spec, operators, names):
    text = preconditions(spec, STATUS, operators, current=CURRENT, target=Update(target, "r@sha256:x"))
    assert bool(text) == bool(names)
    assert all(name in text for name in names), text


def test_several_reasons_are_told_together():
    reason, text = upgradeable({"overrides": OVERRIDES}, [operator("dns", "False"), operator("etcd", "False")]) or (
        "",
        "",
    )
    assert reason == "MultipleReasons"
    assert "ClusterOperatorsNotUpgradeable,ClusterVersionOverridesSet" in text


NODES = [{"version": f"4.18.{patch}", "payload": f"r@sha256:{patch}"} for patch in range(12)]


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20), st.integers(0, 11))
def test_updates_are_where_edges_lead_newest_first(edges, at):
    found = graph.following({"nodes": NODES, "edges": [list(edge) for edge in edges]}, f"4.18.{at}", "stable-4.18")
    assert found.status == "True"
    patches = [int(update["version"].rpartition(".")[2]) for update in found.updates]
    assert patches == sorted({target for origin, target in edges if origin == at != target}, reverse=True)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"nodes": NODES, "edges": []}, "VersionNotFound"),
        ({"nodes": [{"version": "4.18.1"}], "edges": []}, "ResponseInvalid"),
        ({"nodes": NODES, "edges": [[0]]}, "ResponseInvalid"),
        ({"nodes": [{"version": "4.20.0", "payload": "r"}, *NODES], "edges": [[0, -1]]}, "ResponseInvalid"),
        ({"nodes": NODES, "edges": [[0, float("inf")]]}, "ResponseInvalid"),
        ([], "ResponseInvalid"),
    ],
)
def test_an_update_service_that_is_of_no_use_is_told(answer, reason):
    found = graph.following(answer, "4.20.0", "stable-4.18")
    assert (found.status, found.reason) == ("False", reason)
    assert found.message.startswith("Unable to retrieve available updates: ")


@pytest.fixture
def service():
    """Provide a function that lets an update service give one answer, in parts, and returns its URL."""
    answers: list[tuple[bytes, ...]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(OSError):
                for part in answers[0]:
                    self.wfile.write(part)
                    threading.Event().wait(0.05)

        def log_message(self, format, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield lambda *answer: answers.append(answer) or f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


OK = b"HTTP/1.0 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OK + b"Content-Encoding: gzip\r\n\r\nno gzip", "RemoteFailed"),
        (OK + b"Content-Length: 100\r\n\r\n{}", "RemoteFailed"),
        (OK + b"\r\n" + b"[" * 200_000, "ResponseInvalid"),
        (b"HTTP/1.0 302 Found\r\nLocation: http://[/\r\n\r\n", "RemoteFailed"),
    ],
)
def test_an_answer_that_is_broken_is_told(service, answer, reason):
    found = graph.retrieve({"upstream": service(answer), "channel": "c"}, "4.18.0")
    assert (found.status, found.reason) == ("False", reason)


def test_an_answer_without_an_end_is_given_up(service, monkeypatch):
    monkeypatch.setattr(graph, "SECONDS", 0.2)
    upstream = service(OK + b"\r\n", *[b" "] * 100)
    assert "no end of the answer" in graph.retrieve({"upstream": upstream, "channel": "c"}, "4.18.0").message


@pytest.mark.parametrize(
    ("upstream", "reason"), [("http://[", "InvalidURI"), (f"http://{'a' * 300}/", "RemoteFailed"), ("x", "InvalidURI")]
)
def test_an_upstream_that_is_none_is_told(upstream, reason):
    found = graph.retrieve({"upstream": upstream, "channel": "c"}, "4.18.0")
    assert (found.status, found.reason) == ("False", reason)
