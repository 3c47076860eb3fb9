"""The metrics API over real TLS: a kubelet and an API server's front proxy are played by this test."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from installer.common import certificates
from installer.common.certificates import BOTH, Pair
from lab.release.cluster.metrics import server as metrics
from lab.release.cluster.metrics import usage
from lab.release.cluster.nodes.probes import storage
from lab.testing.clusterapi import Api, Object
from lab.waiting import wait_until

TIME = "2026-01-01T00:00:00Z"
ROOT = "/apis/metrics.k8s.io/v1beta1"


def measured(nano: int, size: int) -> Object:
    cpu = {"time": TIME, "usageNanoCores": nano, "usageCoreNanoSeconds": 10**9}
    return {"cpu": cpu, "memory": {"workingSetBytes": size}}


def idle(began: str) -> Object:
    return {**measured(0, 1), "startTime": began}


def reported(uid: str, *containers: Object) -> Object:
    return {"podRef": {"uid": uid}, "containers": [{"name": f"c{n}", **c} for n, c in enumerate(containers)]}


SUMMARY = {
    "node": measured(250_000_000, 2**30),
    "pods": [
        reported("1", measured(5, 4096), measured(7, 8192)),
        reported("2", idle("2025-12-31T23:59:00Z")),
        reported("4", idle("2025-12-31T12:00:00Z")),
    ],
}


def pod(name: str, uid: str, **more: Any) -> Object:
    meta = {"name": name, "namespace": "user", "uid": uid, **more}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "here"}}


def node(name: str, address: str) -> Object:
    addresses = [{"type": "InternalIP", "address": address}]
    return {"kind": "Node", "metadata": {"name": name}, "status": {"addresses": addresses}}


class ListedApi(Api):
    """Lists, of all namespaces at once."""

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, labels: str = "", *, accept: str = ""
    ) -> list[Object]:
        return [obj for (of, _, _), obj in self.objects.items() if of == kind]


class Kubelet(BaseHTTPRequestHandler):
    """Answers whoever has the token."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        good = self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if good and self.path == "/stats/summary?only_cpu_and_memory=true" else 401)
        self.end_headers()
        self.wfile.write(json.dumps(SUMMARY).encode())


def write(folder: Path, name: str, pair: Pair) -> str:
    path = folder / name
    path.write_text(pair.certificate + pair.key)
    return str(path)


def serve(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


class Asked:
    """The running API, and a way to ask it as somebody."""

    def __init__(self, folder: Path, kubelet: int, ca: Pair) -> None:
        self.folder, self.ca = folder, ca
        (folder / "token").write_text("secret")
        api = ListedApi()
        for obj in (node("here", "127.0.0.1"), node("away", "127.0.0.2")):
            api.create(obj)
        for obj in (pod("two", "1"), pod("young", "2"), pod("idle", "4"), pod("static", "3", annotations={"a": "b"})):
            api.create(obj)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=ca.certificate)
        own = metrics._own_certificate()
        context.load_cert_chain(write(folder, "own", Pair(own["tls.crt"], own["tls.key"])))
        kubelets = metrics.Kubelets(api, str(folder / "ca"), folder / "token", port=kubelet)  # type: ignore[arg-type]
        self.server = metrics.Server(kubelets, context, ["front-proxy"], 0)

    def get(self, path: str, who: str = "front-proxy", signer: Pair | None = None) -> tuple[int, Object]:
        cert = write(self.folder, who, certificates.leaf(signer or self.ca, who, usages=BOTH))
        url = f"https://127.0.0.1:{self.server.server_address[1]}{path}"
        # The API server asks for the Service's name, by the Service's address.
        with requests.Session() as session:
            session.mount("https://", _Named())
            answer = session.get(url, cert=cert, verify=str(self.folder / "own"), timeout=20)
        return answer.status_code, answer.json()


class _Named(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        name = "metrics.openshift-cluster-network.svc"
        super().init_poolmanager(*arguments, **options, server_hostname=name, assert_hostname=name)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("metrics")
    ca = certificates.authority("ca", unit="x", lifetime=certificates.DAY)
    (folder / "ca").write_text(ca.certificate)
    kubelet = ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        write(folder, "kubelet", certificates.leaf(ca, "kubelet", names=("127.0.0.1",), usages=BOTH))
    )
    kubelet.socket = context.wrap_socket(kubelet.socket, server_side=True)
    for port in serve(kubelet):
        running = Asked(folder, port, ca)
        for _ in serve(running.server):
            yield running


def test_a_node_that_is_away_is_left_out(asked: Asked) -> None:
    code, body = asked.get(f"{ROOT}/nodes")
    assert (code, body["kind"]) == (200, "NodeMetricsList")
    assert [(item["metadata"]["name"], item["usage"]) for item in body["items"]] == [
        ("here", {"cpu": "250000000n", "memory": "1048576Ki"})
    ]
    assert asked.get(f"{ROOT}/nodes/here") == (200, body["items"][0])
    assert asked.get(f"{ROOT}/nodes/away")[0] == 404


def test_a_pod_is_there_when_all_its_containers_are_measured(asked: Asked) -> None:
    code, body = asked.get(f"{ROOT}/namespaces/user/pods")
    assert (code, [item["metadata"]["name"] for item in body["items"]]) == (200, ["two", "idle"])
    assert body["items"][0]["containers"] == [
        {"name": "c0", "usage": {"cpu": "5n", "memory": "4Ki"}},
        {"name": "c1", "usage": {"cpu": "7n", "memory": "8Ki"}},
    ]
    assert asked.get(f"{ROOT}/pods?labelSelector=a%3Db")[1] == body
    assert asked.get(f"{ROOT}/namespaces/user/pods/two")[1] == body["items"][0]
    code, body = asked.get(f"{ROOT}/namespaces/user/pods/young")
    assert (code, body["reason"]) == (404, "NotFound")


def test_a_static_pod_is_known_by_its_manifests_hash() -> None:
    static = pod("static", "3", annotations={"kubernetes.io/config.hash": "hash"})
    assert usage.pods([static], {"pods": [reported("hash", measured(1, 1024))]})[0]["metadata"]["name"] == "static"


def test_discovery(asked: Asked) -> None:
    assert asked.get("/apis/metrics.k8s.io")[1]["preferredVersion"]["version"] == "v1beta1"
    assert [resource["name"] for resource in asked.get(ROOT)[1]["resources"]] == ["nodes", "pods"]
    assert {asked.get(path)[0] for path in ("/", "/apis", "/openapi/v2", f"{ROOT}/x", f"{ROOT}/nodes/a/b")} == {404}


def test_operator_storage_tells_a_process_that_lives_from_one_that_stands_still(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SILENT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as still:
        port = still.getsockname()[1]
        assert "does not answer on port" in storage.silent("127.0.0.1", port)
    assert "refused" in storage.silent("127.0.0.1", port)
    monkeypatch.undo()
    assert storage.silent("127.0.0.1", asked.server.server_address[1]) == ""


def test_only_the_front_proxy_of_the_clusters_own_ca_may_ask(asked: Asked) -> None:
    assert asked.get(ROOT, "somebody")[0] == 403
    other = certificates.authority("ca", unit="x", lifetime=certificates.DAY)
    with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
        asked.get(ROOT, signer=other)


def test_connections_that_say_nothing_are_bounded(asked: Asked) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(metrics.CONNECTIONS + 1):
            last = opened.enter_context(
                socket.create_connection(("127.0.0.1", asked.server.server_address[1]), timeout=5)
            )
        assert last.recv(1) == b""

    def serving() -> bool:
        return any("process_request_thread" in thread.name for thread in threading.enumerate())

    wait_until(lambda: not serving(), 5, "all connections to end", poll=0.05)
    assert asked.get(ROOT)[0] == 200
