"""The machine-config server of a running cluster (reference/cluster.md §3.2): 22623 over TLS, 22624 plain."""

from __future__ import annotations

import argparse
import base64
import json
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from installer.common.formats import yamltext
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ignition import machineconfig, negotiate
from lab.release.cluster.ignition.document import Config
from lab.release.cluster.kube.client import Kube

log = logging.getLogger(__name__)

TLS_PORT = 22623
PLAIN_PORT = 22624
NAMESPACE = "openshift-machine-config-operator"

#: Gives a pool's config; None when there is no such pool. Raises ClusterError for anything else.
Source = Callable[[str], Config | None]


def token_kubeconfig(template: str, token: str) -> str:
    """Return the bootstrap kubeconfig of a running cluster: user `kubelet`, by token (§3.2)."""
    document = yamltext.load(template)
    cluster = {**document["clusters"][0], "name": "local"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}],
            "current-context": "kubelet",
            "users": [{"name": "kubelet", "user": {"token": token}}],
        }
    )


def cluster_source(kube: Kube, files: Path) -> Source:
    """Configs from the API's MachineConfigPools."""

    def read(pool: str) -> Config | None:
        pool_object = kube.get(machineconfig.API, "MachineConfigPool", pool)
        if pool_object is None:
            raise ClusterError(f"no MachineConfigPool {pool}")
        status = pool_object.get("status") or {}
        chosen = pool_object["spec"] if status.get("updatedMachineCount", 0) > 0 else {**pool_object["spec"], **status}
        name = chosen["configuration"]["name"]
        current = kube.get(machineconfig.API, "MachineConfig", name)
        if current is None:
            raise ClusterError(f"MachineConfigPool {pool} names {name}, which does not exist")
        secret = kube.get("v1", "Secret", "node-bootstrapper-token", NAMESPACE)
        token = ((secret or {}).get("data") or {}).get("token")
        if not token:
            raise ClusterError("Secret node-bootstrapper-token has no token yet")
        template = (files / "kubeconfig-kubelet").read_text()
        kubeconfig = token_kubeconfig(template, base64.b64decode(token).decode())
        return machineconfig.served(pool, current, kubeconfig, (files / "kubelet-ca.crt").read_text())

    return read


def bootstrap_source(files: Path) -> Source:
    """Configs from files that bootkube left; during the bootstrap only control plane nodes are served (§3.2)."""

    def read(pool: str) -> Config | None:
        if pool not in ("master", "arbiter"):
            raise ClusterError("refusing to serve bootstrap configuration to this pool")
        path = files / f"{pool}.json"
        if not path.exists():
            return None
        config: Config = json.loads(path.read_text())
        return config

    return read


def _shown(address: tuple[Any, ...]) -> str:
    host = str(address[0])
    if host.startswith("::ffff:"):
        host = host.removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def handler(source: Source) -> type[BaseHTTPRequestHandler]:
    """Return a request handler that serves ``source``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "machine-config-server"
        timeout = 60

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

        def _answer(self, status: int, body: bytes = b"", *, head: bool = False) -> None:
            self.send_response(status)
            if body:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if body and not head:
                self.wfile.write(body)

        def _serve(self, *, head: bool) -> None:
            path = self.path.split("?", 1)[0]
            if path == "/healthz":
                self._answer(200)
                return
            if not path.startswith("/config/"):
                self._answer(404)
                return
            pool = path.rstrip("/").rsplit("/", 1)[-1]
            accept = self.headers.get("Accept", "")
            # assisted's services parse this line: "<ip>:<port>" User-Agent:"Ignition
            log.info(
                'Pool "%s" requested by address:"%s" User-Agent:"%s" Accept-Header: "%s"',
                pool,
                _shown(self.client_address),
                self.headers.get("User-Agent", ""),
                accept,
            )
            version = negotiate.version_for(accept)
            if version is None:
                self._answer(400)
                return
            try:
                config = source(pool)
            except (ClusterError, OSError, KeyError) as error:
                log.error("couldn't get config for pool %r: %s", pool, error)
                self._answer(500)
                return
            if config is None:
                self._answer(404)
                return
            config = {**config, "ignition": {**config["ignition"], "version": version}}
            self._answer(200, json.dumps(config).encode(), head=head)

        def do_GET(self) -> None:
            self._serve(head=False)

        def do_HEAD(self) -> None:
            self._serve(head=True)

        def _refuse(self) -> None:
            self._answer(405)

        do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse

    return Handler


class DualStackServer(ThreadingHTTPServer):
    """Listens on IPv6 and IPv4; the TLS handshake happens in the connection's own thread, where it can stall alone."""

    daemon_threads = True
    address_family = socket.AF_INET6

    def __init__(self, port: int, handler_class: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        super().__init__(("::", port), handler_class)

    def server_bind(self) -> None:
        """Accept IPv4 on the same socket."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS first, when this is the TLS port."""
        if self._tls is not None:
            request.settimeout(30)
            request = self._tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that goes away."""
        log.info("%s: %s", _shown(client_address), sys.exc_info()[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line: `start --kubeconfig F --dir D` or `bootstrap --dir D`.

    D holds tls.crt, tls.key, and the kubelet's files or, for the bootstrap, `<pool>.json`.
    """
    parser = argparse.ArgumentParser(prog="machine-config-server")
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="serve a running cluster, from its API")
    start.add_argument("--kubeconfig", type=Path, required=True)
    for sub in (start, verbs.add_parser("bootstrap", help="serve control plane nodes, from files")):
        sub.add_argument("--dir", type=Path, required=True)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        if arguments.verb == "start":
            source = cluster_source(Kube.from_kubeconfig(arguments.kubeconfig), arguments.dir)
        else:
            source = bootstrap_source(arguments.dir)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(arguments.dir / "tls.crt", arguments.dir / "tls.key")
        served = handler(source)
        servers = [DualStackServer(TLS_PORT, served, tls), DualStackServer(PLAIN_PORT, served, None)]
    except (ClusterError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 5.0}, daemon=True).start()
    log.info("Serving on ports %d (TLS) and %d", TLS_PORT, PLAIN_PORT)
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
