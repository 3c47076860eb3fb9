"""A REST client for the few requests of a bootstrap host to the new cluster's API (cluster.md §8.1)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TypeVar

import msgspec

from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import ClientError
from installer.assisted.transport import Answer, Request, Transport
from installer.common.formats.yamltext import load
from installer.common.secretfiles import MemoryFile
from installer.orchestrator.errors import StageError

MASTER_LABELS = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
ARBITER_LABEL = "node-role.kubernetes.io/arbiter"
TIMEOUTS = Timeouts(connect=20.0, silence=20.0, request=60.0)
T = TypeVar("T")


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _Address(msgspec.Struct, frozen=True):
    type: str = ""
    address: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    addresses: list[_Address] | None = None
    conditions: list[_Condition] | None = None


class Node(msgspec.Struct, frozen=True):
    """A node, as far as it is looked at. As for Go, what is not there is empty."""

    metadata: _Metadata = _Metadata()
    status: _Status | None = None

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self.metadata.name

    @property
    def internal_addresses(self) -> list[str]:
        """Return the addresses by which the other nodes reach this one."""
        listed = (self.status and self.status.addresses) or ()
        return [item.address for item in listed if item.type == "InternalIP" and item.address]

    @property
    def is_ready(self) -> bool:
        """Return whether the condition Ready is true."""
        conditions = (self.status and self.status.conditions) or ()
        return any(item.type == "Ready" and item.status == "True" for item in conditions)

    @property
    def is_master(self) -> bool:
        """Return whether the node has the role of the control plane."""
        return any(label in (self.metadata.labels or {}) for label in MASTER_LABELS)

    @property
    def is_arbiter(self) -> bool:
        """Return whether the node has etcd, but nothing else of the control plane."""
        return ARBITER_LABEL in (self.metadata.labels or {})


class _Event(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    reason: str = ""


class _Nodes(msgspec.Struct, frozen=True):
    items: list[Node] | None = None


class _Events(msgspec.Struct, frozen=True):
    items: list[_Event] | None = None


class KubeApi:
    """GET requests with the client certificate of a kubeconfig, over one connection as long as it lasts.

    The API is polled every few seconds, and a handshake costs more than most answers.
    """

    def __init__(self, kubeconfig: Path) -> None:
        try:
            data = load(kubeconfig.read_bytes())
            cluster, user = data["clusters"][0]["cluster"], data["users"][0]["user"]
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            server = endpoint(cluster["server"], ca_pem=authority)
            if server.context is None:
                raise ValueError("the server is not on https")
            with _pem_file(user["client-certificate-data"]) as cert, _pem_file(user["client-key-data"]) as key:
                server.context.load_cert_chain(cert.path, key.path)
        except (OSError, KeyError, IndexError, TypeError, ValueError, ClientError) as error:
            # bootkube may still be writing the kubeconfig: it is read again until it is complete.
            raise StageError(str(kubeconfig), f"cannot be used: {error!r}") from None
        self._transport = Transport(server, TIMEOUTS)

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._transport.close()

    def get(self, path: str, kind: type[T]) -> T:
        """Return the object at ``path``. Raises StageError."""
        try:
            request = Request("GET", path, f"GET {path}", {"Accept": "application/json"}, seconds=TIMEOUTS.request)
            return msgspec.convert(self._transport.exchange(request, Answer.json), kind)
        except ClientError as error:
            status = error.status is not None and error.status != 200
            raise StageError(f"GET {path}", f"HTTP {error.status}" if status else error.reason) from None
        except msgspec.ValidationError as error:
            raise StageError(f"GET {path}", f"answer is of another form: {error}") from None

    def nodes(self) -> list[Node]:
        """Return all nodes. Raises StageError."""
        return self.get("/api/v1/nodes", _Nodes).items or []

    def has_event(self, namespace: str, reason_or_name: str) -> bool:
        """Return whether there is an event of this name or reason. Raises StageError."""
        events = self.get(f"/api/v1/namespaces/{namespace}/events", _Events).items or []
        return any(reason_or_name in (event.metadata.name.split(".")[0], event.reason) for event in events)


def _pem_file(encoded: str) -> MemoryFile:
    return MemoryFile("kubeconfig.pem", base64.b64decode(encoded))
