"""Admission webhooks: the rules behind an HTTPS server, and the configuration by which the API server calls it.

The operator makes its certificates, keeps them in memory and replaces them long before they expire. The API server
trusts the authorities in the configuration (`caBundle`), which the leading operator writes. A change that the server
does not answer is refused (failurePolicy Fail, as in the field), so an operator that ends removes the configuration.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from installer.common import certificates
from installer.errors import ConfigError
from installer.hub.admission.rules import RULES, refusal
from installer.hub.kube.api import Api, Conflict, KubeError
from installer.hub.kube.kinds import Json, Key, Kind

log = logging.getLogger("node0-hub")
CONFIGURATION = Kind(
    *("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    namespaced=False,
)
KEY = Key("", "node0-hub")
MANAGED_BY = {"app.kubernetes.io/managed-by": "node0-hub"}
SERVICE = "node0-hub"
LIFETIME = timedelta(days=30)
# A certificate is replaced after this part of its life.
_RENEWED = 0.5
# Interval of checks of the configuration (s), which somebody may have changed or removed.
_LOOK = 60.0
# Timeout of the API server for an answer (s); it closes an idle connection by itself after 90 s.
_ANSWER_SECONDS, _IDLE_SECONDS = 10, 120.0
# A review has the request's object, of at most 3 MiB, and the one in etcd, of at most 1.5 MiB.
_LONGEST = 5 << 20
_PATHS = {f"/{kind.plural}": kind for kind in RULES}


@dataclass(frozen=True)
class Place:
    """Address and port of the server; the API server reaches it there, or by the Service `node0-hub` of a namespace."""

    address: str
    port: int
    service_namespace: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the certificate is for."""
        if not self.service_namespace:
            return (self.address,)
        return (f"{SERVICE}.{self.service_namespace}.svc",)

    def client_config(self, path: str) -> Json:
        """Return a webhook's `clientConfig` without `caBundle`."""
        if self.service_namespace:
            return {"service": {"namespace": self.service_namespace, "name": SERVICE, "path": path, "port": 443}}
        host = f"[{self.address}]" if ":" in self.address else self.address
        return {"url": f"https://{host}:{self.port}{path}"}


def review(kind: Kind, body: bytes) -> Json:
    """Return the answer to an AdmissionReview (v1). Raises ValueError for any other body."""
    try:
        request = json.loads(body)["request"]
        new, old = request["object"], request.get("oldObject")
        answer: Json = {"uid": request["uid"], "allowed": True}
        if problem := refusal(kind, old or None, new):
            status = {"code": HTTPStatus.UNPROCESSABLE_ENTITY, "reason": "Invalid", "message": problem}
            answer |= {"allowed": False, "status": status}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no AdmissionReview: {type(error).__name__} {error}") from None
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}


class Authorities:
    """The server's certificate and the authorities that API servers are to trust: the newest and the one before it."""

    def __init__(self, names: tuple[str, ...], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._monotonic = monotonic
        self._made = 0.0
        self._signers: list[str] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._next = self._shown = certificates.Pair("", "")
        self.renew()
        self.use()

    def renew(self) -> None:
        """Make a new authority and a certificate, which is not shown before `use`."""
        signer = certificates.authority("node0 hub admission", lifetime=LIFETIME)
        self._signers = [*self._signers[-1:], signer.certificate]
        self._next = certificates.leaf(
            signer, self._names[0], names=self._names, usages=certificates.SERVER, lifetime=LIFETIME
        )
        self._made = self._monotonic()

    def use(self) -> None:
        """Show the newest certificate to whoever connects from now on."""
        if self._shown is self._next:
            return
        with tempfile.TemporaryDirectory() as folder:  # ssl takes files only; the directory is the user's alone
            path = Path(folder) / "pair.pem"
            path.write_text(self._next.key + self._next.certificate)
            self.context.load_cert_chain(path)
        self._shown = self._next

    def is_due(self) -> bool:
        """Return whether a new one should be made."""
        return self._monotonic() - self._made > LIFETIME.total_seconds() * _RENEWED

    @property
    def bundle(self) -> str:
        """The authorities, as `caBundle` has them."""
        return base64.b64encode("".join(self._signers).encode()).decode()


def configuration(place: Place, bundle: str) -> Json:
    """Return the ValidatingWebhookConfiguration: of the hub's own kinds, new objects and changes, never statuses or
    deletions."""
    webhooks = [
        {
            "name": rule.name,
            "clientConfig": {**place.client_config(f"/{kind.plural}"), "caBundle": bundle},
            "rules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [kind.plural],
                    "scope": "Namespaced",
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": _ANSWER_SECONDS,
        }
        for kind, rule in RULES.items()
    ]
    obj = CONFIGURATION.new(KEY, webhooks=webhooks)
    obj["metadata"]["labels"] = dict(MANAGED_BY)
    return obj


class Registrar:
    """Keeps the configuration as it should be while this operator leads, and the certificates young."""

    def __init__(self, api: Api, place: Place, authorities: Authorities, is_leading: Callable[[], bool]) -> None:
        """Write through `api`, while `is_leading()`."""
        self._api, self._place, self._authorities, self._is_leading = api, place, authorities, is_leading
        self._said = ""

    def run(self, stop: threading.Event, seconds: float = _LOOK) -> None:
        """Look from time to time until it is to stop."""
        while not stop.wait(seconds if self.step() else min(seconds, 1.0)):
            pass

    def step(self) -> bool:
        """Look once; false: not yet as it should be."""
        if self._authorities.is_due():
            self._authorities.renew()
        if not self._is_leading():
            return False
        try:
            is_there = self._write()
        except KubeError as error:
            if str(error) != self._said:
                log.warning("webhooks: %s", error)
            self._said = str(error)
            return False
        self._said = ""
        # API servers trust the newest a moment after it is written: it is shown from the next look on.
        if is_there:
            self._authorities.use()
        return True

    def _write(self) -> bool:
        """Write the configuration unless it is already as wanted, and return whether it was."""
        wanted = configuration(self._place, self._authorities.bundle)
        old = self._api.get(CONFIGURATION, KEY)
        if old is None:
            self._api.create(CONFIGURATION, wanted)
            log.info("webhooks: the API server asks this operator what it may store")
            return False
        if _has(old.get("webhooks"), wanted["webhooks"]):
            return True
        self._api.update(CONFIGURATION, old | {"webhooks": wanted["webhooks"]})
        return False

    def end(self) -> None:
        """Take the configuration away, unless it has the API server call another operator."""
        try:
            old = self._api.get(CONFIGURATION, KEY)
            called = [hook["clientConfig"] | {"caBundle": ""} for hook in (old or {}).get("webhooks") or ()]
            if old and called == [hook["clientConfig"] for hook in configuration(self._place, "")["webhooks"]]:
                self._api.delete(CONFIGURATION, KEY, version=old["metadata"]["resourceVersion"])
        except Conflict:
            return  # another's by now
        except KubeError as error:
            log.warning("webhooks: the configuration stays: %s", error)


def _has(found: Any, wanted: Any) -> bool:
    """Return whether an object has what is wanted; the API server adds its defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_has(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_has, found, wanted))
    return bool(found == wanted)


@contextmanager
def served(place: Place, authorities: Authorities) -> Iterator[int]:
    """Answer reviews for the block, and give the port. Raises ConfigError."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_SECONDS

        def do_POST(self) -> None:
            """Answer a review."""
            kind = _PATHS.get(self.path.partition("?")[0])
            length = self.headers.get("Content-Length", "")
            if kind is None or not length.isdigit() or int(length) > _LONGEST:
                self.close_connection = True
                self.send_error(HTTPStatus.NOT_FOUND if kind is None else HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                return
            try:
                content = json.dumps(review(kind, self.rfile.read(int(length)))).encode()
            except ValueError as error:
                self.send_error(HTTPStatus.BAD_REQUEST, str(error)[:200])
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log no requests: they hold what users wrote."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            """Shake hands in the connection's own thread, so that a silent client holds up nobody."""
            request.settimeout(_ANSWER_SECONDS)
            with authorities.context.wrap_socket(request, server_side=True) as connection:
                super().finish_request(connection, client_address)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log a connection that failed: a scan, an API server that trusts another authority."""
            log.debug("webhooks: a connection of %s failed", client_address[0], exc_info=True)

    try:
        server = Server((place.address, place.port), Handler)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--webhook {place.address}:{place.port}: cannot listen: {reason}") from None
    threading.Thread(target=server.serve_forever, name="webhook", daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
