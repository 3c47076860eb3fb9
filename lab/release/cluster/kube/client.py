"""A small client of the Kubernetes API: client certificates or a pod's token, discovery, watches, JSON in and out.

It knows nothing about kinds: plurals and scopes come from the server's discovery, so CRDs work as soon as they are
established.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from installer.common.formats import yamltext
from lab.release.cluster.errors import ApiError, ConfigError, UnknownKind

log = logging.getLogger(__name__)

Object = dict[str, Any]
#: Objects by (namespace, name); the namespace of those that live in none is empty.
Objects = dict[tuple[str, str], Object]

JSON = "application/json"
#: Lists objects without their specs, which are large in a MachineConfig.
METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

#: One request may take long under software emulation; a hung server must still be noticed.
REQUEST_SECONDS = 60.0
#: How long the server keeps a watch open, and the pause before a request is made again that failed.
WATCH_SECONDS = 300
RETRY_SECONDS = 2.0
#: What a kubelet mounts into each container.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: A watch may be silent for minutes: the kernel asks whether the other end is still there, and notices within half a
#: minute when it has lost power or its address has moved to another node.
KEEP_ALIVE = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


@dataclass(frozen=True)
class Resource:
    """A kind as it is served: its plural and whether objects live in namespaces."""

    plural: str
    namespaced: bool


@dataclass(frozen=True)
class Access:
    """A kubeconfig's current context; CA, certificate and key are paths of files. The server shows its certificate for
    ``server_name``, where there is one."""

    server: str
    ca_file: str
    cert_files: tuple[str, str]
    server_name: str


def read_kubeconfig(path: Path) -> Access:
    """Read a kubeconfig. What it has inline becomes files in memory; what it names is relative to its own place.

    Raises ConfigError when a part is missing.
    """

    def file(entry: dict[str, Any], key: str) -> str:
        if key in entry:
            return str(path.parent / entry[key])
        return in_memory(key, base64.b64decode(entry[f"{key}-data"]).decode())

    try:
        document = yamltext.load(path.read_bytes())
        context = next(c["context"] for c in document["contexts"] if c["name"] == document["current-context"])
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in document["users"] if u["name"] == context["user"])
        return Access(
            server=str(cluster["server"]),
            ca_file=file(cluster, "certificate-authority"),
            cert_files=(file(user, "client-certificate"), file(user, "client-key")),
            server_name=str(cluster.get("tls-server-name", "")),
        )
    except (OSError, KeyError, TypeError, StopIteration, ValueError) as error:
        raise ConfigError(str(path), "", f"not a usable kubeconfig ({type(error).__name__}: {error})") from error


def in_memory(name: str, text: str) -> str:
    """Return the path of a file that only this process can read, for as long as it lives."""
    handle = os.memfd_create(name)
    with open(handle, "w", closefd=False) as stream:
        stream.write(text)
    return f"/proc/self/fd/{handle}"


class _Connections(HTTPAdapter):
    """Connections whose loss is noticed, too, while nothing is sent."""

    def __init__(self, server_name: str = "") -> None:
        self._server_name = server_name or None
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        names = {"server_hostname": self._server_name, "assert_hostname": self._server_name}
        super().init_poolmanager(*arguments, **{**options, **names, "socket_options": KEEP_ALIVE})


class _Token(requests.auth.AuthBase):
    """A ServiceAccount's token, read for each request: its kubelet replaces those that expire."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._path.read_text().strip()}"
        return request


class Kube:
    """One API server, one identity. Safe to share between threads (a session each)."""

    def __init__(
        self,
        server: str,
        ca_file: str,
        cert_files: tuple[str, str] | None,
        token_file: Path | None = None,
        *,
        server_name: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self._server_name = server_name
        self._ca_file = ca_file
        self._cert_files = cert_files
        self._token = _Token(token_file) if token_file else None
        self._local = threading.local()
        self._kinds: dict[tuple[str, str], Resource] = {}

    @property
    def ca_file(self) -> str:
        """The file with the CAs that vouch for the API server."""
        return self._ca_file

    @property
    def cert_files(self) -> tuple[str, str] | None:
        """The files with the client certificate and its key; None for a client with a token."""
        return self._cert_files

    @classmethod
    def from_kubeconfig(cls, path: Path | str) -> Self:
        """Return a client from a kubeconfig; inline PEM parts are files in memory, which end with this process."""
        access = read_kubeconfig(Path(path))
        return cls(access.server, access.ca_file, access.cert_files, server_name=access.server_name)

    @classmethod
    def in_cluster(cls, account: Path = SERVICE_ACCOUNT) -> Self:
        """Return a client for a pod's ServiceAccount, of the API server that KUBERNETES_SERVICE_HOST and
        KUBERNETES_SERVICE_PORT name. Raises ConfigError outside of a pod."""
        try:
            host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        except KeyError as error:
            raise ConfigError("environment", str(error.args[0]), "is set in a pod only") from error
        if not (account / "token").is_file():
            raise ConfigError(str(account / "token"), "", "is not there: no ServiceAccount is mounted")
        host = f"[{host}]" if ":" in host else host
        return cls(f"https://{host}:{port}", str(account / "ca.crt"), None, account / "token")

    def _version(self) -> list[int]:
        """Return when the files were changed last: connections that were made before show what may have run out."""
        paths = map(Path, (self._ca_file, *(self._cert_files or ())))
        return [path.stat().st_mtime_ns for path in paths if path.is_file()]

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        version = self._version()
        if session is None or self._local.version != version:
            self._local.version = version
            session = requests.Session()
            session.trust_env = False  # a proxy of the environment is never between us and the API
            session.verify = self._ca_file
            session.cert = self._cert_files
            session.auth = self._token
            session.mount("https://", _Connections(self._server_name))
            self._local.session = session
        return session

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = JSON,
        seconds: float = REQUEST_SECONDS,
        stream: bool = False,
    ) -> requests.Response:
        """One request, its answer's body left to be read with ``stream``; raises ApiError for any status of 300 or
        more, and with status 0 when there was no answer."""
        try:
            response = self._session().request(
                method,
                self.server + path,
                json=body if body is not None else None,
                params=params,
                headers={"Content-Type": content_type, "Accept": accept},
                timeout=(min(seconds, REQUEST_SECONDS), seconds),
                allow_redirects=False,
                stream=stream,
            )
        except (requests.RequestException, OSError) as error:
            raise ApiError(method, path, 0, str(error)) from error
        if response.status_code >= 300:
            message, reason = response.text[:300], ""
            try:
                status = response.json()
                message, reason = str(status.get("message", message)), str(status.get("reason", ""))
            except (ValueError, AttributeError):
                pass
            raise ApiError(method, path, response.status_code, message, reason=reason)
        return response

    def ready(self, seconds: float = 10.0) -> tuple[bool, str]:
        """Return whether /readyz says ok, and its text."""
        try:
            return True, self.request("GET", "/readyz", seconds=seconds).text
        except ApiError as error:
            return False, str(error)

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the Resource that serves a kind; asks discovery once a group version. Raises UnknownKind."""
        key = (api_version, kind)
        if key not in self._kinds:
            root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
            try:
                listing = self.request("GET", root).json()
            except ApiError as error:
                if error.status == 404:
                    raise UnknownKind(api_version, kind) from error
                raise
            for item in listing.get("resources", []):
                if "/" not in item["name"]:
                    self._kinds[(api_version, item["kind"])] = Resource(item["name"], bool(item["namespaced"]))
        if key not in self._kinds:
            raise UnknownKind(api_version, kind)
        return self._kinds[key]

    def path(self, api_version: str, kind: str, namespace: str | None, name: str = "", *, sub: str = "") -> str:
        """Return the URL path of an object, or of the collection when ``name`` is empty."""
        resource = self.resource(api_version, kind)
        parts = [f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"]
        if resource.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(resource.plural)
        parts += [part for part in (name, sub) if part]
        return "/".join(parts)

    def object_path(self, obj: Object, sub: str = "", *, collection: bool = False) -> str:
        """Return the path of the object that ``obj`` describes; a namespaced one without a namespace is in
        `default`."""
        meta = obj["metadata"]
        return self.path(
            obj["apiVersion"],
            obj["kind"],
            meta.get("namespace") or "default",
            "" if collection else meta["name"],
            sub=sub,
        )

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when it (or its kind) is not there."""
        try:
            obj: Object = self.request("GET", self.path(api_version, kind, namespace, name)).json()
        except UnknownKind:
            return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return obj

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: str = "",
        *,
        fields: str = "",
        accept: str = JSON,
    ) -> list[Object]:
        """All objects of a kind (in one namespace, or everywhere); an unknown kind has none. With ``accept``
        METADATA just their metadata."""
        params = {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        try:
            answer = self.request("GET", self.path(api_version, kind, namespace), params=params, accept=accept)
        except UnknownKind:
            return []
        items: list[Object] = answer.json().get("items") or []
        return items

    def create(self, obj: Object) -> Object | None:
        """Create; None when an object of that name exists already."""
        try:
            created: Object = self.request("POST", self.object_path(obj, collection=True), obj).json()
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return None
            raise
        return created

    def replace(self, obj: Object, sub: str = "") -> Object:
        """PUT; the resourceVersion in ``obj`` guards against lost updates (ApiError 409)."""
        answer: Object = self.request("PUT", self.object_path(obj, sub), obj).json()
        return answer

    def merge_patch(self, obj: Object, patch: Object, sub: str = "") -> Object:
        """JSON merge patch of the object that ``obj`` names."""
        answer: Object = self.request(
            "PATCH", self.object_path(obj, sub), patch, content_type="application/merge-patch+json"
        ).json()
        return answer

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        """Delete; False when it was not there."""
        try:
            self.request("DELETE", self.path(api_version, kind, namespace, name))
        except UnknownKind:
            return False
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def watch(
        self,
        api_version: str,
        kind: str,
        stop: threading.Event,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Iterator[Objects]:
        """All objects of a kind, anew after each change, until ``stop``; each time a mapping of its own.

        An API that is away, a kind that is not served yet and a watch that is out of date end nothing: it is logged,
        and after a pause there is the next mapping. A silent watch notices ``stop`` only with its next event, so its
        thread should be a daemon.
        """
        objects, version, listed = Objects(), "", -RETRY_SECONDS
        params = {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        while not stop.is_set():
            try:
                path = self.path(api_version, kind, namespace)
                if not version:
                    listed = time.monotonic()
                    listing = self.request("GET", path, params=params).json()
                    # A list's items do not say what they are.
                    kept = {"apiVersion": api_version, "kind": kind}
                    objects = {_key(item): {**kept, **item} for item in listing.get("items") or []}
                    version = listing["metadata"]["resourceVersion"]
                    yield dict(objects)
                for event in self._events(path, {**params, "resourceVersion": version}):
                    item = event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        objects.pop(_key(item), None)
                    else:
                        objects[_key(item)] = item
                    yield dict(objects)
                    if stop.is_set():
                        return
            except ApiError as error:
                if error.status == 410:  # what lies between was compacted away
                    version = ""
                    stop.wait(max(0.0, listed + RETRY_SECONDS - time.monotonic()))
                    continue
                log.warning("watching %s: %s", kind, error)
                stop.wait(RETRY_SECONDS)
            except UnknownKind as error:
                log.warning("watching %s: %s", kind, error)
                stop.wait(RETRY_SECONDS)

    def _events(self, path: str, params: Mapping[str, str]) -> Iterator[Object]:
        """Events of one watch until the server ends it. Raises ApiError, for an event that is an error, too."""
        options = {**params, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        answer = self.request("GET", path, params=options, seconds=WATCH_SECONDS + REQUEST_SECONDS, stream=True)
        with contextlib.closing(answer):
            try:
                for line in answer.iter_lines(chunk_size=None):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError("WATCH", path, int(status.get("code", 500)), str(status.get("message", "")))
                    yield event
            except (requests.RequestException, OSError, ValueError) as error:
                raise ApiError("WATCH", path, 0, str(error)) from error


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
