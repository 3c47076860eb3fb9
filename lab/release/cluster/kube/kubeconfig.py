"""Kubeconfig files, with inline data (reference/cluster.md §7.1)."""

from __future__ import annotations

import base64

import yaml

from installer.common.certificates import Pair


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def render(*, cluster: str, server: str, ca: str, user: str, client: Pair) -> str:
    """Return a kubeconfig with one context; ``ca`` is a PEM bundle. Context and user share a name, as OpenShift's
    do."""
    document = {
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _b64(ca)}}],
        "contexts": [{"name": user, "context": {"cluster": cluster, "user": user}}],
        "current-context": user,
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": _b64(client.certificate), "client-key-data": _b64(client.key)},
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=True)


def of_files(*, cluster: str, user: str, server_name: str = "") -> str:
    """Return a kubeconfig for this host's API server that names files beside itself, which may change: server-ca.crt,
    client.crt and client.key. The server shows its certificate for ``server_name``, if there is one."""
    server = {"server": "https://localhost:6443", "certificate-authority": "server-ca.crt"}
    document = {
        "clusters": [
            {"name": cluster, "cluster": server | ({"tls-server-name": server_name} if server_name else {})},
        ],
        "contexts": [{"name": user, "context": {"cluster": cluster, "user": user}}],
        "current-context": user,
        "users": [{"name": user, "user": {"client-certificate": "client.crt", "client-key": "client.key"}}],
    }
    return yaml.safe_dump(document, sort_keys=True)
