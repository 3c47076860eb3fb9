"""Registrations that are refused are events that a watcher reads, each once."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError
from installer.rendezvous.resources.reports import MOST_REFUSED
from installer.testing.service.forked_kit import forked
from installer.testing.service.rendezvous_kit import Running, make_keys

HOST = {"host_id": "00000000-0000-4000-8000-000000000001", "discovery_agent_version": "v"}
INFRA_ENV = "00000000-0000-4000-8000-0000000000e1"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with forked(tmp_path_factory.mktemp("service")) as running:
        yield running


def refuse(service: Running, path: str, body: Any, *, scheme: str = "userAuth", token: str = "") -> ClientError:
    client = service.client(scheme)
    if token:
        client = AssistedClient(endpoint(service.url, ca_file=service.ca), Scheme(scheme), token)
    with pytest.raises(ClientError) as caught:
        client.call("POST", path, body)
    if token:
        client.close()
    return caught.value


def refusals(service: Running) -> list[tuple[str, str]]:
    events = service.client("watcherAuth").events("")
    return [(event["name"], event["message"]) for event in events if event["severity"] == "error"]


def test_what_is_refused_is_told_once(service: Running) -> None:
    for _ in range(3):
        assert refuse(service, "/clusters", {"name": "c"}).status == 400
        assert refuse(service, f"/infra-envs/{INFRA_ENV}/hosts", HOST, scheme="agentAuth").status == 404
    events = refusals(service)
    assert [name for name, _ in events] == ["cluster_registration_failed", "host_registration_refused"]
    assert "openshift_version" in events[0][1]
    assert "127.0.0.1" in events[1][1]
    assert "booted from another image?" in events[1][1]


def test_a_stranger_leaves_no_trace(service: Running) -> None:
    stranger = make_keys().token("agentAuth")
    before = refusals(service)
    assert refuse(service, f"/infra-envs/{INFRA_ENV}/hosts", HOST, scheme="agentAuth", token=stranger).status == 401
    assert refuse(service, "/clusters", {"name": "SAID BY A STRANGER"}, token=stranger).status == 401
    assert refusals(service) == before


def test_requests_that_are_wrong_in_ever_other_ways_do_not_fill_the_log(service: Running) -> None:
    for number in range(MOST_REFUSED + 10):
        refuse(service, "/clusters", {"name": "c", "openshift_version": "4.18.0", "pull_secret": f"no JSON {number}"})
        refuse(service, "/clusters", {f"x{number}": 1})
    assert len(refusals(service)) <= MOST_REFUSED
