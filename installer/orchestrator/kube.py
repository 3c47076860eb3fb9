"""A REST client for the few requests of a bootstrap host to the new cluster's API (cluster.md §8.1)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from installer.assisted.endpoint import Timeouts, endpoint
from installer.assisted.errors import ClientError
from installer.assisted.transport import Answer, Request, Transport
from installer.common.formats.yamltext import load
from installer.common.secretfiles import MemoryFile
from installer.errors import YamlError
from installer.orchestrator.errors import StageError

MASTER_LABELS = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
ARBITER_LABEL = "node-role.kubernetes.io/arbiter"
TIMEOUTS = Timeouts(connect=20.0, silence=20.0, request=60.0)


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
        except (OSError, KeyError, IndexError, TypeError, ValueError, YamlError, ClientError) as error:
            # bootkube may still be writing the kubeconfig: it is read again until it is complete.
            raise StageError(str(kubeconfig), f"cannot be used: {error!r}") from None
        self._transport = Transport(server, TIMEOUTS)

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._transport.close()

    def get(self, path: str) -> dict[str, Any]:
        """The object at ``path``. Raises StageError."""
        try:
            request = Request("GET", path, f"GET {path}", {"Accept": "application/json"}, seconds=TIMEOUTS.request)
            value = self._transport.exchange(request, Answer.json)
        except ClientError as error:
            status = error.status is not None and error.status != 200
            raise StageError(f"GET {path}", f"HTTP {error.status}" if status else error.reason) from None
        if not isinstance(value, dict):
            raise StageError(f"GET {path}", "answer is not an object")
        return value

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes. Raises StageError."""
        return list(self.get("/api/v1/nodes").get("items") or [])

    def has_event(self, namespace: str, reason_or_name: str) -> bool:
        """Is there an event of this name or reason? Raises StageError."""
        for event in self.get(f"/api/v1/namespaces/{namespace}/events").get("items") or []:
            if reason_or_name in (event["metadata"]["name"].split(".")[0], event.get("reason")):
                return True
        return False


def _pem_file(encoded: str) -> MemoryFile:
    return MemoryFile("kubeconfig.pem", base64.b64decode(encoded))


def internal_addresses(node: dict[str, Any]) -> list[str]:
    """The addresses by which the other nodes reach a node."""
    listed = (node.get("status") or {}).get("addresses") or []
    return [str(item["address"]) for item in listed if item.get("type") == "InternalIP" and item.get("address")]


def is_ready(node: dict[str, Any]) -> bool:
    """Is the node's condition Ready true?"""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def is_master(node: dict[str, Any]) -> bool:
    """Has the node the role of the control plane?"""
    labels = node["metadata"].get("labels") or {}
    return any(label in labels for label in MASTER_LABELS)


def is_arbiter(node: dict[str, Any]) -> bool:
    """Has the node etcd, but nothing else of the control plane?"""
    return ARBITER_LABEL in (node["metadata"].get("labels") or {})
