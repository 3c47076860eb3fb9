"""Requests to a cluster's API in plain JSON, over the official client's connections and credentials.

The client's typed calls know no custom resources, and its dynamic ones ask for the API's whole discovery first.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from installer.common.formats.yamltext import load
from installer.common.inputs import read_input
from installer.errors import ConfigError, InstallerError
from installer.hub.kube.kinds import Json, Key, Kind, key_of

log = logging.getLogger("node0-hub")
CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
# How long after its end a watch may still be read: the server ends it a moment late.
_WATCH_GRACE = 10.0
_CONNECTIONS = 64
_NAME = re.compile(r"[A-Za-z0-9._:-]+")
_MERGE_PATCH = "application/merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


class KubeError(InstallerError):
    """The API refused a request, or did not answer it (``status`` 0). ``causes``: reasons of its details."""

    def __init__(self, status: int, reason: str, message: str, causes: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.causes = causes
        self.status = status
        self.reason = reason
        self.message = message


class Conflict(KubeError):
    """The object has changed meanwhile, or one with its name exists (reason AlreadyExists)."""


class NotFound(KubeError):
    """No such object, or no such resource."""


class Gone(KubeError):
    """A watch's resourceVersion is too old: list anew."""


class Invalid(KubeError):
    """The object itself is refused (400, 403, 422)."""


class Unauthorized(KubeError):
    """The credentials are not accepted."""


class Unreachable(KubeError):
    """Nothing answered."""


_ERRORS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Invalid,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


class Api:
    """The API of one cluster, for any number of threads. ``may_write``: asked before each request that changes any."""

    def __init__(
        self,
        configuration: Any,
        *,
        may_write: Callable[[], bool] = lambda: True,
        requests: dict[str, int] | None = None,
        agent: str = "node0-hub",
    ) -> None:
        from kubernetes import client

        configuration.retries = False  # each caller has its own way of waiting
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.keep_alive = True  # a server's host may go without a word
        if not all(f"{text}".isascii() and f"{text}".isprintable() for text in configuration.api_key.values()):
            # Its error would be the HTTP client's, which quotes it.
            raise ConfigError("its token is none that a request can carry")
        self._client = client.ApiClient(configuration)
        self._client.user_agent = agent  # whose changes they are, in managedFields and audit logs
        self._host = str(configuration.host)
        self._may_write = may_write
        self._open: set[Any] = set()
        self._lock = threading.Lock()
        self._closed = False
        #: Requests so far, by method; another Api of the same process may count into the same.
        self.requests: dict[str, int] = {} if requests is None else requests

    @classmethod
    def connect(cls, kubeconfig: Path | None, **options: Any) -> Api:
        """Return the API of a kubeconfig's current context, or without it of the cluster that this runs in.

        ``options`` as the constructor's. Raises ConfigError.
        """
        from kubernetes import client, config

        configuration = client.Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=configuration)
            else:
                load(read_input(kubeconfig))  # the client reads it again, but without limits
                config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
            return cls(configuration, **options)
        except (config.ConfigException, ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            source = f"kubeconfig {kubeconfig}" if kubeconfig else "a pod's service account (no --kubeconfig)"
            raise ConfigError(f"cannot use {source}: {error}") from error

    def __repr__(self) -> str:
        return f"Api({self._host})"

    def get(self, kind: Kind, key: Key) -> Json | None:
        """Return an object, None if there is none."""
        try:
            return self._call("GET", _path(kind, key))
        except NotFound:
            return None

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> tuple[list[Json], str]:
        """Return objects and the resourceVersion from which a watch continues; of some kinds metadata only."""
        query = {"labelSelector": labels} if labels else {}
        accept = _METADATA.format("List") if kind.metadata_only else ""
        answer = self._call("GET", kind.path(namespace), query=query, accept=accept)
        items = answer.get("items") or []
        for item in items:  # a list's items do not say it
            item.update({"apiVersion": kind.api_version, "kind": kind.name})
        return items, str(answer.get("metadata", {}).get("resourceVersion", ""))

    def watch(self, kind: Kind, version: str, seconds: float) -> Iterator[tuple[str, Json]]:
        """Yield events (ADDED, MODIFIED, DELETED, BOOKMARK) after a resourceVersion, for that long.

        Raises Gone when the version is too old, KubeError.
        """
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        query["timeoutSeconds"] = str(int(seconds))
        accept = _METADATA.format("") if kind.metadata_only else ""
        path = kind.path()
        response = self._send("GET", path, query=query, accept=accept, seconds=seconds + _WATCH_GRACE)
        raw = response.response
        with self._lock:
            if self._closed:
                raw.close()
                return
            self._open.add(raw)
        try:
            for line in _lines(path, raw):
                event = _parsed(path, line)
                obj = event.get("object")
                if not isinstance(obj, dict):
                    raise KubeError(0, "BadAnswer", f"watch of {path}: an event without an object")
                if event.get("type") == "ERROR":
                    raise _error(int(obj.get("code") or 500), obj, f"watch of {path}")
                yield str(event.get("type")), obj | {"apiVersion": kind.api_version, "kind": kind.name}
        finally:
            with self._lock:
                self._open.discard(raw)
            raw.close()

    def create(self, kind: Kind, obj: Json) -> Json:
        """Create an object. Raises Conflict if one with its name exists."""
        return self._call("POST", kind.path(key_of(obj).namespace), obj)

    def update(self, kind: Kind, obj: Json) -> Json:
        """Replace an object as it was read. Raises Conflict if it has changed since."""
        return self._call("PUT", _path(kind, key_of(obj)), obj)

    def update_status(self, kind: Kind, obj: Json) -> Json:
        """Replace an object's status, as ``update``."""
        return self._call("PUT", _path(kind, key_of(obj), "status"), obj)

    def approve(self, kind: Kind, obj: Json) -> Json:
        """Replace the conditions of a certificate signing request, as ``update``."""
        return self._call("PUT", _path(kind, key_of(obj), "approval"), obj)

    def patch(self, kind: Kind, key: Key, merge: Json) -> Json:
        """Change members of an object by a JSON merge patch; None removes one.

        With metadata.resourceVersion in it, raises Conflict if the object has changed since.
        """
        return self._call("PATCH", _path(kind, key), merge)

    def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """Delete an object; none is done. Raises Conflict if it has another uid or resourceVersion."""
        conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        body: Json = {"propagationPolicy": "Background"}
        if conditions:
            body["preconditions"] = conditions
        try:
            self._call("DELETE", _path(kind, key), body)
        except NotFound:
            return

    def server_version(self) -> str:
        """Return the API server's version."""
        return str(self._call("GET", "/version").get("gitVersion", ""))

    def close(self) -> None:
        """End open watches and drop all connections."""
        with self._lock:
            self._closed = True
            for raw in self._open:
                raw.shutdown()
        self._client.rest_client.close()

    def _call(self, method: str, path: str, body: Json | None = None, *, query: Any = None, accept: str = "") -> Json:
        response = self._send(method, path, body, query=query, accept=accept)
        return _parsed(path, _read(path, response))

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: dict[str, str] | None = None,
        accept: str = "",
        seconds: float = READ_SECONDS,
    ) -> Any:
        import urllib3
        from kubernetes import client

        if method != "GET" and not self._may_write():
            raise KubeError(0, "NotLeading", f"{method} {path}: another operator leads")
        headers = {"Accept": accept or "application/json"}
        if body is not None:
            headers["Content-Type"] = _MERGE_PATCH if method == "PATCH" else "application/json"
        request = self._client.param_serialize(
            method, path, query_params=list((query or {}).items()), header_params=headers, auth_settings=["BearerToken"]
        )
        self.requests[method] = self.requests.get(method, 0) + 1
        try:
            response = self._client.rest_client.request(
                method, request[1], headers=request[2], body=body, _request_timeout=(CONNECT_SECONDS, seconds)
            )
        except client.ApiException as error:  # TLS; the kind of error stands on a line of its own
            raise Unreachable(0, "Unreachable", f"{self._host}: {str(error.reason).splitlines()[-1]}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(0, "Unreachable", f"{self._host}: {_cause(error)}") from None
        if not 200 <= response.status < 300:
            text = _read(path, response)
            try:
                answer = _parsed(path, text)
            except KubeError:
                answer = {}
            raise _error(response.status, answer, f"{method} {path}")
        return response


def _path(kind: Kind, key: Key, subresource: str = "") -> str:
    """Return the URL's path of an object. Raises NotFound for a name that none can have.

    References hold names as their users wrote them: ``../../other/secrets/login`` is another namespace's Secret.
    """
    if any(part and (part in (".", "..") or not _NAME.fullmatch(part)) for part in key):
        raise NotFound(404, "NotFound", f"{kind.name} {key}: no object can have this name")
    return kind.path(*key, subresource)


def _cause(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException):
        error, reason = reason, getattr(reason, "reason", None)
    if len(error.args) > 1 and isinstance(error.args[1], BaseException):
        error = error.args[1]
    # urllib3's begin with the connection as Python shows it.
    return str(error).partition("): ")[2] or str(error) or type(error).__name__


def _error(status: int, answer: Json, request: str) -> KubeError:
    message = str(answer.get("message") or f"HTTP {status}")
    causes = frozenset(str(cause.get("reason")) for cause in (answer.get("details") or {}).get("causes") or ())
    return _ERRORS.get(status, KubeError)(status, str(answer.get("reason") or ""), f"{request}: {message}", causes)


def _read(path: str, response: Any) -> bytes:
    import urllib3

    try:
        data: bytes = response.response.data
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(0, "Unreachable", f"{path}: {_cause(error)}") from None
    return data


def _lines(path: str, raw: Any) -> Iterator[bytes]:
    import urllib3

    rest = b""
    try:
        while chunk := raw.read1(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(0, "Unreachable", f"watch of {path}: {_cause(error)}") from None


def _parsed(path: str, text: bytes) -> Json:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise KubeError(0, "BadAnswer", f"{path}: the answer is not a JSON object")
    return answer
