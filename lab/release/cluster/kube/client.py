"""A small client of the Kubernetes API: client certificates, discovery, JSON in and out.

It knows nothing about kinds: plurals and scopes come from the server's discovery, so CRDs work as soon as they are
established.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import requests

from installer.common.formats import yamltext
from lab.release.cluster.errors import ApiError, ConfigError, UnknownKind

Object = dict[str, Any]

#: One request may take long under software emulation; a hung server must still be noticed.
REQUEST_SECONDS = 60.0


@dataclass(frozen=True)
class Resource:
    """A kind as it is served: its plural and whether objects live in namespaces."""

    plural: str
    namespaced: bool


def split_kubeconfig(path: Path) -> tuple[str, str, str, str]:
    """(server, CA, client certificate, client key) of a kubeconfig's current context, the last three as PEM.

    Raises ConfigError when a part is missing.
    """
    try:
        document = yamltext.load(path.read_bytes())
        context = next(c["context"] for c in document["contexts"] if c["name"] == document["current-context"])
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in document["users"] if u["name"] == context["user"])
        return (
            str(cluster["server"]),
            base64.b64decode(cluster["certificate-authority-data"]).decode(),
            base64.b64decode(user["client-certificate-data"]).decode(),
            base64.b64decode(user["client-key-data"]).decode(),
        )
    except (OSError, KeyError, TypeError, StopIteration, ValueError) as error:
        raise ConfigError(str(path), "", f"not a usable kubeconfig ({type(error).__name__}: {error})") from error


def in_memory(name: str, text: str) -> str:
    """Return the path of a file that only this process can read, for as long as it lives."""
    handle = os.memfd_create(name)
    with open(handle, "w", closefd=False) as stream:
        stream.write(text)
    return f"/proc/self/fd/{handle}"


class Kube:
    """One API server, one identity. Safe to share between threads (a session each)."""

    def __init__(self, server: str, ca_file: str, cert_files: tuple[str, str] | None) -> None:
        self.server = server.rstrip("/")
        self._ca_file = ca_file
        self._cert_files = cert_files
        self._local = threading.local()
        self._kinds: dict[tuple[str, str], Resource] = {}

    @property
    def ca_file(self) -> str:
        """The file with the CAs that vouch for the API server."""
        return self._ca_file

    @classmethod
    def from_kubeconfig(cls, path: Path | str) -> Self:
        """Return a client from a kubeconfig with inline data; PEM parts are files in memory, which end with this
        process."""
        server, ca, cert, key = split_kubeconfig(Path(path))
        names = [in_memory(name, text) for name, text in (("ca.crt", ca), ("tls.crt", cert), ("tls.key", key))]
        return cls(server, names[0], (names[1], names[2]))

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False  # a proxy of the environment is never between us and the API
            session.verify = self._ca_file
            session.cert = self._cert_files
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
        seconds: float = REQUEST_SECONDS,
    ) -> requests.Response:
        """One request; raises ApiError for any status of 300 or more, and with status 0 when there was no answer."""
        try:
            response = self._session().request(
                method,
                self.server + path,
                json=body if body is not None else None,
                params=params,
                headers={"Content-Type": content_type, "Accept": "application/json"},
                timeout=seconds,
                allow_redirects=False,
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

    def list(self, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[Object]:
        """All objects of a kind (in one namespace, or everywhere); an unknown kind has none."""
        params = {"labelSelector": labels} if labels else None
        try:
            answer = self.request("GET", self.path(api_version, kind, namespace), params=params).json()
        except UnknownKind:
            return []
        items: list[Object] = answer.get("items") or []
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
