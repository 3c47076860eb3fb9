"""The webhooks: their answers, the certificates that the API server trusts, and the configuration with its end."""

import base64
import http.client
import json
import socket
import ssl
import threading
from functools import partial

import pytest

from installer.common.ports import free_port
from installer.hub.admission.rules import refusal
from installer.hub.admission.webhook import (
    CONFIGURATION,
    KEY,
    LIFETIME,
    Authorities,
    Place,
    Registrar,
    configuration,
    review,
    served,
)
from installer.hub.kube.kinds import AGENT, BARE_METAL_HOST, CLUSTER_DEPLOYMENT, INFRA_ENV, Key
from installer.testing.hub.apiserver import api_server

DEEP = {"baremetalhost.metal3.io/status": '{"a":' * 2000, "reboot.metal3.io": '{"a":' * 2000}
SPEC = {"bootMACAddress": "00:00:5e:00:53:01", "online": True}


def host(mac="00:00:5e:00:53:01", **metadata):
    obj = BARE_METAL_HOST.new(Key("n", "host"), spec=SPEC | {"bootMACAddress": mac})
    obj["metadata"] |= metadata
    return obj


def asked(new, old=None):
    return json.dumps({"request": {"uid": "u1", "object": new, "oldObject": old}}).encode()


def test_a_wrong_object_is_refused_with_all_that_is_wrong():
    wrong = host("nonsense", name="a b")
    answer = review(BARE_METAL_HOST, asked(wrong))["response"]
    assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("u1", False, 422)
    assert "metadata.name: " in answer["status"]["message"]
    assert "; spec.bootMACAddress: 'nonsense' is no MAC address" in answer["status"]["message"]
    assert review(BARE_METAL_HOST, asked(host()))["response"] == {"uid": "u1", "allowed": True}


@pytest.mark.parametrize(
    ("kind", "old", "new", "problem"),
    [
        # What was wrong before may lose a finalizer, and be made right; what the change brings is refused.
        (BARE_METAL_HOST, host("x"), host("x", finalizers=[]), ""),
        (BARE_METAL_HOST, host("x"), host("y"), "spec.bootMACAddress: 'y' is no MAC address; spec.bootMACAddress: it"),
        (BARE_METAL_HOST, host(), host("00:00:5e:00:53:02", deletionTimestamp="now"), ""),
        (BARE_METAL_HOST, host(annotations=DEEP), host(annotations=DEEP, finalizers=[]), ""),
        (INFRA_ENV, None, {"spec": {"clusterRef": {"name": "a"}, "osImageVersion": "4"}}, "spec.osImageVersion"),
        (INFRA_ENV, {"spec": {"clusterRef": {"name": "a"}}}, {"spec": {}}, "spec.clusterRef: cannot change"),
        (INFRA_ENV, {"spec": {"proxy": {}}}, {"spec": {"osImageVersion": "4"}}, ""),
        (CLUSTER_DEPLOYMENT, {"spec": {"installed": True}}, {"spec": {}}, "spec.installed: never"),
    ],
)
def test_changes_are_held_against_what_was_there(kind, old, new, problem):
    for obj in (old, new):
        if obj is not None:
            obj.setdefault("metadata", {"name": "x"})
    found = refusal(kind, old, new)
    assert found.startswith(problem) if problem else not found


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"request": {"uid": "a", "object": 7}}', b'{"request": null}'])
def test_what_is_no_review_is_a_bad_request(body):
    with pytest.raises(ValueError, match=r"no AdmissionReview|Expecting value"):
        review(AGENT, body)


def test_a_new_certificate_is_shown_once_the_api_server_trusts_it_and_silent_clients_stop_nobody():
    now, place = [0.0], Place("127.0.0.1", free_port())
    authorities = Authorities(place.names, lambda: now[0])

    def ask(bundle, body=b""):
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        connection = http.client.HTTPSConnection("127.0.0.1", place.port, context=context, timeout=20)
        connection.request("POST", "/baremetalhosts?timeout=10s", body or asked(host("x")))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["response"]["allowed"]

    with api_server() as server, served(place, authorities):
        api, silent = server.api(), [socket.create_connection(("127.0.0.1", place.port)) for _ in range(9)]
        registrar = Registrar(api, place, authorities, lambda: True)
        assert registrar.step()

        def bundle():
            return api.get(CONFIGURATION, KEY)["webhooks"][0]["clientConfig"]["caBundle"]

        first = bundle()
        assert ask(first) is False
        # The API server takes 3 MiB; it is etcd that says which object is too large.
        largest, stored = (host("x", annotations={"x": "y" * (size << 19)}) for size in (6, 3))
        assert ask(first, asked(largest, stored)) is True
        version = api.get(CONFIGURATION, KEY)["metadata"]["resourceVersion"]
        assert registrar.step()
        assert api.get(CONFIGURATION, KEY)["metadata"]["resourceVersion"] == version
        now[0] = LIFETIME.total_seconds() / 2 + 1
        server.refusals += [503]
        assert not registrar.step()
        for _ in range(2):  # refused, then written, which API servers read a moment later
            assert ask(first) is False
            assert registrar.step()
        assert ask(bundle()) is False
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(first)
        for client in silent:
            client.close()


def test_the_leader_alone_writes_the_configuration_and_takes_its_own_away():
    places = [Place("192.0.2.1", 9443), Place("0.0.0.0", 9443, "node0-hub")]
    with api_server() as server:
        api, leads, stop = server.api(), [True, False], threading.Event()
        first, second = (
            Registrar(api, place, Authorities(place.names), partial(leads.__getitem__, number))
            for number, place in enumerate(places)
        )
        assert first.step()
        assert not second.step()
        [*_, hook] = api.get(CONFIGURATION, KEY)["webhooks"]
        assert hook["clientConfig"]["url"] == "https://192.0.2.1:9443/infraenvs"
        leads[:] = [False, True]
        thread = threading.Thread(target=second.run, args=(stop, 0.01))
        thread.start()
        api.delete(CONFIGURATION, KEY)  # somebody does, and it comes back
        while api.get(CONFIGURATION, KEY) is None:
            assert thread.is_alive()
        stop.set()
        thread.join(10)
        first.end()
        [*_, hook] = api.get(CONFIGURATION, KEY)["webhooks"]
        service = {"namespace": "node0-hub", "name": "node0-hub", "path": "/infraenvs", "port": 443}
        assert hook["clientConfig"]["service"] == service
        # After a SIGKILL and another start, even one that never led.
        Registrar(api, places[1], Authorities(places[1].names), lambda: False).end()
        assert api.get(CONFIGURATION, KEY) is None


def test_neither_statuses_nor_deletions_nor_foreign_kinds_are_asked_about():
    for hook in configuration(Place("192.0.2.1", 1), "")["webhooks"]:
        [rule] = hook["rules"]
        assert set(rule["operations"]) == {"CREATE", "UPDATE"}
        assert not [name for name in rule["resources"] if "/" in name or "*" in name]
        assert rule["apiGroups"][0].endswith((".openshift.io", "metal3.io"))
