"""A small API server in memory: resourceVersions, watches, status as a subresource, finalizers, 409 and 410.

It stores what it is sent: schemas, defaults and admission are the real one's.
"""

from __future__ import annotations

import copy
import json
import socket
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from installer.hub.admission.webhook import CONFIGURATION
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import CONFIG_MAP, CUSTOM, EVENT, LEASE, NAMESPACE, SECRET, Json, Key, Kind

_SUBRESOURCE_STATUS = {kind for kind in CUSTOM if kind.name != "NMStateConfig"}


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, reason: str, message: str = "", cause: str = "") -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.cause = cause


class Store:
    """Objects by kind and key, and the history from which watches are served."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.kinds = {(kind.group, kind.plural): kind for kind in kinds}
        self.changed = threading.Condition()
        self.objects: dict[Kind, dict[Key, Json]] = {kind: {} for kind in self.kinds.values()}
        self.history: list[tuple[int, Kind, str, Json]] = []
        self.version = 1
        self.oldest = 0

    def _record(self, kind: Kind, event: str, obj: Json) -> Json:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, kind, event, copy.deepcopy(obj)))
        self.changed.notify_all()
        return copy.deepcopy(obj)

    def create(self, kind: Kind, key: Key, body: Json) -> Json:
        """POST."""
        with self.changed:
            if key in self.objects[kind]:
                raise Refused(409, "AlreadyExists", f"{kind.plural} {key.name!r} already exists")
            namespace = self.objects.get(NAMESPACE, {}).get(Key("", key.namespace)) or {"metadata": {}}
            if "deletionTimestamp" in namespace["metadata"]:
                raise Refused(403, "Forbidden", f"{key.namespace} is being terminated", "NamespaceTerminating")
            obj = copy.deepcopy(body) | {"apiVersion": kind.api_version, "kind": kind.name}
            if kind in _SUBRESOURCE_STATUS:
                obj.pop("status", None)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
            obj["metadata"]["managedFields"] = [{"manager": "test"}]
            self.objects[kind][key] = obj
            return self._record(kind, "ADDED", obj)

    def get(self, kind: Kind, key: Key) -> Json:
        """GET of one object."""
        with self.changed:
            if key not in self.objects[kind]:
                raise Refused(404, "NotFound", f"{kind.plural} {key.name!r} not found")
            return copy.deepcopy(self.objects[kind][key])

    def list(self, kind: Kind, namespace: str) -> tuple[list[Json], int]:
        """GET of all."""
        with self.changed:
            objects = [obj for key, obj in self.objects[kind].items() if not namespace or key.namespace == namespace]
            return copy.deepcopy(objects), self.version

    def replace(self, kind: Kind, key: Key, body: Json, subresource: str) -> Json:
        """PUT of an object, of its status, or of the approval of a request."""
        with self.changed:
            old = self.get(kind, key)
            version = body["metadata"].get("resourceVersion")
            if version and version != old["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict", "the object has been modified")
            new = copy.deepcopy(body)
            if subresource in ("status", "approval"):
                new = old | {"status": new.get("status")}
            elif kind in _SUBRESOURCE_STATUS:
                new.pop("status", None)
                new |= {"status": old["status"]} if "status" in old else {}
            kept = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion", "managedFields")
            new["metadata"] |= {name: old["metadata"][name] for name in kept if name in old["metadata"]}
            if new == old:
                return new
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] += 1
            self.objects[kind][key] = new
            if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
                return self._remove(kind, key)
            return self._record(kind, "MODIFIED", new)

    def merge(self, kind: Kind, key: Key, patch: Json) -> Json:
        """PATCH by a merge patch."""
        with self.changed:
            return self.replace(kind, key, _merged(self.get(kind, key), patch), "")

    def delete(self, kind: Kind, key: Key, preconditions: Json) -> Json:
        """DELETE."""
        with self.changed:
            old = self.get(kind, key)
            if any(old["metadata"].get(name) != value for name, value in preconditions.items()):
                raise Refused(409, "Conflict", "the precondition failed")
            if not old["metadata"].get("finalizers"):
                return self._remove(kind, key)
            if not old["metadata"].get("deletionTimestamp"):
                old["metadata"]["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                self.objects[kind][key] = old
                return self._record(kind, "MODIFIED", old)
            return old

    def _remove(self, kind: Kind, key: Key) -> Json:
        removed = self._record(kind, "DELETED", self.objects[kind].pop(key))
        for other in self.objects:  # the garbage collector's part
            for dependent, obj in list(self.objects[other].items()):
                owners = obj["metadata"].get("ownerReferences") or []
                if any(owner["uid"] == removed["metadata"]["uid"] for owner in owners):
                    self.delete(other, dependent, {})
        return removed

    def compact(self) -> None:
        """Forget the history: watches from before are answered 410."""
        with self.changed:
            self.oldest = self.version
            self.history.clear()

    def events(self, kind: Kind, after: int, seconds: float, closed: threading.Event) -> Iterator[tuple[str, Json]]:
        """Yield the events of a kind after a version."""
        deadline = time.monotonic() + seconds
        while not closed.is_set():
            with self.changed:
                if after < self.oldest:
                    raise Refused(410, "Expired", f"too old resource version: {after}")
                found = [entry for entry in self.history if entry[0] > after and entry[1] is kind]
                if not found:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return
                    self.changed.wait(min(left, 0.5))
                    continue
            for version, _, event, obj in found:
                yield event, copy.deepcopy(obj)
                after = version


def _merged(old: Any, patch: Any) -> Any:
    """Return what RFC 7396 makes of them."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


def _metadata(obj: Json) -> Json:
    return {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}


class ApiServer:
    """The server on a port of its own, or on the one that an earlier one had."""

    KINDS = (*CUSTOM, CONFIG_MAP, EVENT, LEASE, NAMESPACE, SECRET, CONFIGURATION)

    def __init__(self, store: Store | None = None, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.store = store or Store(self.KINDS)
        self._closed = threading.Event()
        self.connections: set[socket.socket] = set()
        #: (method, path) of all requests so far.
        self.requests: list[tuple[str, str]] = []
        #: Authorization of all requests so far.
        self.tokens: list[str] = []
        #: Statuses by which the next requests are refused, whatever they ask.
        self.refusals: list[int] = []
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = _Server(("127.0.0.1", port), Handler)
        self._scheme = "https" if context else "http"
        if context is not None:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def is_closed(self) -> threading.Event:
        """Set when open watches are to end."""
        return self._closed

    def api(self, **options: Any) -> Api:
        """Return a client of it."""
        from kubernetes import client

        configuration = client.Configuration(host=self.url)
        return Api(configuration, **options)

    def drop_watches(self) -> None:
        """End all open watches."""
        closed, self._closed = self._closed, threading.Event()
        closed.set()
        with self.store.changed:
            self.store.changed.notify_all()

    def close(self) -> None:
        """End it; its store can be given to another."""
        self.drop_watches()
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Run a server for the block."""
    server = ApiServer()
    try:
        yield server
    finally:
        server.close()


def until(seen: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something is true. Raises AssertionError after that time."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.01)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that are gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet: the second of two would wait for the first one's acknowledgement
    server_of: ApiServer

    def setup(self) -> None:
        """Note the connection, to be cut when the server ends."""
        super().setup()
        self.server_of.connections.add(self.connection)

    def finish(self) -> None:
        """Forget it."""
        self.server_of.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        server = self.server_of
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        server.requests.append((self.command, self.path))
        server.tokens.append(self.headers.get("Authorization", ""))
        try:
            if server.refusals:
                raise Refused(server.refusals.pop(0), "Test", "refused by the test")
            kind, namespace, name, subresource = self._resource(url.path)
            if query.get("watch"):
                self._watch(kind, namespace, query)
                return
            answer = self._answer(kind, Key(namespace, name), subresource, body, query=query)
        except Refused as error:
            self._send(error.status, _status(error))
            return
        self._send(201 if self.command == "POST" else 200, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _resource(self, path: str) -> tuple[Kind, str, str, str]:
        parts = path.strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        rest = parts[3 if group else 2 :]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kind = self.server_of.store.kinds.get((group, rest[0]))
        if kind is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""

    def _answer(self, kind: Kind, key: Key, subresource: str, body: Json, *, query: dict[str, str]) -> Json:
        store = self.server_of.store
        if self.command == "POST":
            return store.create(kind, Key(key.namespace, body["metadata"]["name"]), body)
        if self.command == "PUT":
            return store.replace(kind, key, body, subresource)
        if self.command == "PATCH":
            return store.merge(kind, key, body)
        if self.command == "DELETE":
            return store.delete(kind, key, body.get("preconditions") or {})
        if key.name:
            return store.get(kind, key)
        wanted = dict(part.split("=", 1) for part in query.get("labelSelector", "").split(",") if part)
        items, version = store.list(kind, key.namespace)
        items = [item for item in items if wanted.items() <= (item["metadata"].get("labels") or {}).items()]
        if "PartialObjectMetadata" in self.headers.get("Accept", ""):
            items = [_metadata(item) for item in items]
        for item in items:
            item.pop("apiVersion", None)
            item.pop("kind", None)
        return {"kind": f"{kind.name}List", "metadata": {"resourceVersion": str(version)}, "items": items}

    def _watch(self, kind: Kind, namespace: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        partial = "PartialObjectMetadata" in self.headers.get("Accept", "")
        seconds, closed = float(query.get("timeoutSeconds") or 300), self.server_of.is_closed
        events = self.server_of.store.events(kind, int(query.get("resourceVersion") or 0), seconds, closed)
        try:
            try:
                for event, obj in events:
                    if not namespace or obj["metadata"].get("namespace") == namespace:
                        self._chunk({"type": event, "object": _metadata(obj) if partial else obj})
            except Refused as error:
                self._chunk({"type": "ERROR", "object": _status(error)})
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _chunk(self, value: Json) -> None:
        line = json.dumps(value).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, answer: Json) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _status(error: Refused) -> Json:
    details = {"causes": [{"reason": error.cause}]} if error.cause else {}
    status = {"kind": "Status", "status": "Failure", "code": error.status, "reason": error.reason}
    return status | {"message": str(error), "details": details}
