"""The aggregated API metrics.k8s.io: asks kubelets when it is asked, and keeps nothing.

Every node's process serves it, so it is there as long as a node is. Only API servers may ask: they show the
certificate of their front proxy, and have authorised the user before.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lab.release.cluster.errors import ApiError, ClusterError
from lab.release.cluster.kube.client import SERVICE_ACCOUNT, Kube, Object, in_memory
from lab.release.cluster.kube.resources import secret
from lab.release.cluster.metrics import usage

log = logging.getLogger(__name__)

#: Where the Service is, and the certificate that all nodes serve with.
NAMESPACE, SERVICE, CERTIFICATE = "openshift-cluster-network", "metrics", "metrics-serving-cert"
#: Seconds: for a kubelet to answer, for a client to shake hands, for a connection to say something, until what failed
#: is tried again.
KUBELET_SECONDS, HANDSHAKE_SECONDS, IDLE_SECONDS, RETRY_SECONDS = 10.0, 10.0, 90.0, 5.0
#: Connections at the same time. Every pod can open some, of 60 KB each, and this process has more to do.
CONNECTIONS = 64
#: The ConfigMap in which API servers say by which CAs they, and their clients, are known.
TRUST = ("kube-system", "extension-apiserver-authentication")
Answer = tuple[int, Object]


class Kubelets:
    """The kubelets' own figures, asked for with a pod's token; ``ca_file`` vouches for them."""

    def __init__(self, kube: Kube, ca_file: str, token: Path = SERVICE_ACCOUNT / "token", *, port: int = 10250) -> None:
        self._kube = kube
        self._ca_file = ca_file
        self._token = token
        self._port = port

    def nodes(self, name: str, labels: str) -> list[Object]:
        """Return the NodeMetrics of one node or of all. Raises ClusterError when the API does not answer."""
        nodes = [obj for obj in [self._kube.get("v1", "Node", name)] if obj] if name else self._nodes(labels)
        found = (usage.node(node, summary) for node, summary in self._summaries(nodes))
        return [metrics for metrics in found if metrics]

    def pods(self, namespace: str, name: str, labels: str) -> list[Object]:
        """Return the PodMetrics of one pod, of a namespace or of all. Raises ClusterError like `nodes`."""
        if name:
            pods = [obj for obj in [self._kube.get("v1", "Pod", name, namespace)] if obj]
        else:
            pods = self._kube.list("v1", "Pod", namespace or None, labels)
        places = {pod["spec"].get("nodeName") for pod in pods}
        nodes = [node for node in self._nodes("") if node["metadata"]["name"] in places]
        return [metrics for _, summary in self._summaries(nodes) for metrics in usage.pods(pods, summary)]

    def _nodes(self, labels: str) -> list[Object]:
        return self._kube.list("v1", "Node", labels=labels)

    def _summaries(self, nodes: Sequence[Object]) -> Iterable[tuple[Object, Object]]:
        """Ask the nodes' kubelets at the same time; one that does not answer is left out, as a node that is away is."""
        if not nodes:
            return []
        with ThreadPoolExecutor(min(len(nodes), 8)) as pool:
            answers = list(pool.map(self._summary, nodes))
        return [(node, summary) for node, summary in zip(nodes, answers, strict=True) if summary]

    def _summary(self, node: Object) -> Object:
        entries = node.get("status", {}).get("addresses") or []
        address = next((entry["address"] for entry in entries if entry["type"] == "InternalIP"), "")
        host = f"[{address}]" if ":" in address else address
        kubelet = Kube(f"https://{host}:{self._port}", self._ca_file, None, self._token)
        try:
            params = {"only_cpu_and_memory": "true"}
            answer = kubelet.request("GET", "/stats/summary", params=params, seconds=KUBELET_SECONDS)
            summary: Object = answer.json()
        except (ApiError, ValueError) as error:
            log.warning("kubelet of %s: %s", node["metadata"]["name"], error)
            return {}
        return summary


def answer(kubelets: Kubelets, path: str, labels: str) -> Answer:
    """Return the answer to a GET: status code and body. Raises ClusterError when the API does not answer."""
    parts = path.strip("/").split("/")
    match parts[3:]:
        case _ if parts[:3] != ["apis", *usage.API.split("/")] and parts != ["apis", usage.GROUP]:
            pass
        case [] if len(parts) == 2:
            return 200, usage.DISCOVERY
        case []:
            return 200, usage.RESOURCES
        case ["nodes"]:
            return 200, usage.listed("NodeMetrics", kubelets.nodes("", labels))
        case ["nodes", name]:
            return _single(kubelets.nodes(name, ""), "nodes", name)
        case ["pods"]:
            return 200, usage.listed("PodMetrics", kubelets.pods("", "", labels))
        case ["namespaces", namespace, "pods"]:
            return 200, usage.listed("PodMetrics", kubelets.pods(namespace, "", labels))
        case ["namespaces", namespace, "pods", name]:
            return _single(kubelets.pods(namespace, name, ""), "pods", f"{namespace}/{name}")
    return 404, usage.failure(404, "NotFound", f"{path}: there is nothing at this path")


def _single(found: Sequence[Object], resource: str, name: str) -> Answer:
    if found:
        return 200, found[0]
    return 404, usage.failure(404, "NotFound", f'{resource}.{usage.GROUP} "{name}": not there, or not measured yet')


class Handler(BaseHTTPRequestHandler):
    """One connection of an API server."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: Server

    def setup(self) -> None:
        """Shake hands, in this connection's thread."""
        self.request.settimeout(HANDSHAKE_SECONDS)
        self.request.do_handshake()
        super().setup()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing of each request."""

    def do_GET(self) -> None:
        """Answer a request of an API server's front proxy."""
        url = urlsplit(self.path)
        labels = next(iter(parse_qs(url.query).get("labelSelector", [])), "")
        if not self.server.allowed(self.request.getpeercert()):
            code, body = 403, usage.failure(403, "Forbidden", "only an API server may ask")
        else:
            try:
                code, body = answer(self.server.kubelets, url.path, labels)
            except ClusterError as error:
                code, body = 503, usage.failure(503, "ServiceUnavailable", str(error))
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Server(ThreadingHTTPServer):
    """The server; ``names`` are those that a client's certificate may have."""

    address_family = socket.AF_INET6
    daemon_threads = True

    def __init__(
        self, kubelets: Kubelets, context: ssl.SSLContext, names: Sequence[str], port: int = usage.PORT
    ) -> None:
        self.kubelets = kubelets
        self._context = context
        self._names = names
        self._free = threading.Semaphore(CONNECTIONS)
        super().__init__(("::", port), Handler)

    def server_bind(self) -> None:
        """Listen for both families."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def get_request(self) -> tuple[ssl.SSLSocket, Any]:
        """Take a connection; who connects and says nothing holds up nobody."""
        plain, address = self.socket.accept()
        return self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take no more connections at a time than CONNECTIONS; others are closed."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave it with those who do not speak TLS or show no certificate."""
        log.debug("connection of %s failed", client_address, exc_info=True)

    def trust(self, kube: Kube, trust: Mapping[str, str]) -> None:
        """Trust the CAs in TRUST's data from now on, those of before included. Raises OSError."""
        self._context.load_verify_locations(cadata=trust["requestheader-client-ca-file"])
        self.kubelets = _kubelets(kube, trust)

    def allowed(self, certificate: Any) -> bool:
        """Return whether a certificate, which its CA has vouched for, has one of the names."""
        subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
        return any(key == "commonName" and value in self._names for key, value in subject)


def _kubelets(kube: Kube, trust: Mapping[str, str]) -> Kubelets:
    """Kubelets' serving certificates have the same signer as their client certificates."""
    return Kubelets(kube, in_memory("kubelet-ca.crt", trust["client-ca-file"]))


def _own_certificate() -> dict[str, str]:
    """Make a key and a certificate that vouches for itself, for ten years: nothing would renew it."""
    name = f"{SERVICE}.{NAMESPACE}.svc"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "3650", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", "-"]
    text = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    key, begin, certificate = text.partition("-----BEGIN CERTIFICATE-----")
    return {"tls.key": key, "tls.crt": begin + certificate}


def serving_certificate(kube: Kube) -> dict[str, str]:
    """Return the certificate (`tls.crt`) and key (`tls.key`) of all nodes; the first one makes them. Raises
    ClusterError."""
    kept = kube.get("v1", "Secret", CERTIFICATE, NAMESPACE)
    if kept is None:
        kube.create(secret(NAMESPACE, CERTIFICATE, _own_certificate(), "kubernetes.io/tls"))
        kept = kube.get("v1", "Secret", CERTIFICATE, NAMESPACE) or {"data": {}}
    return {key: base64.b64decode(value).decode() for key, value in kept["data"].items()}


def _start(kube: Kube, trust: Mapping[str, str]) -> Server:
    """Return the server, with the certificates that the cluster has; ``trust`` is the data of TRUST. Raises
    ClusterError, OSError, KeyError."""
    pair = serving_certificate(kube)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(in_memory("tls.crt", pair["tls.crt"]), in_memory("tls.key", pair["tls.key"]))
    server = Server(_kubelets(kube, trust), context, json.loads(trust["requestheader-allowed-names"]))
    server.trust(kube, trust)
    service = {"metadata": {"name": f"{usage.VERSION}.{usage.GROUP}"}}
    bundle = base64.b64encode(pair["tls.crt"].encode()).decode()
    target = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", **service}
    kube.merge_patch(target, {"spec": {"caBundle": bundle}})
    return server


def run(kube: Kube, stop: threading.Event) -> None:
    """Serve until ``stop``; what the server needs of the API is waited for."""
    while not stop.is_set():
        try:
            trust = (kube.get("v1", "ConfigMap", TRUST[1], TRUST[0]) or {})["data"]
            server = _start(kube, trust)
        except (ClusterError, OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            log.warning("metrics: %s: %s", type(error).__name__, error)
            stop.wait(RETRY_SECONDS)
            continue
        threading.Thread(target=partial(server.serve_forever, 60.0), name="metrics connections", daemon=True).start()
        for objects in kube.watch("v1", "ConfigMap", stop, namespace=TRUST[0], fields=f"metadata.name={TRUST[1]}"):
            for obj in objects.values():
                if obj["data"] != trust:
                    trust = obj["data"]
                    server.trust(kube, trust)
        server.shutdown()
        server.server_close()
