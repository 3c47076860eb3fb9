"""The probe of the cluster's names."""

from __future__ import annotations

import socket

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View


def dns(view: View) -> Finding:
    """Check that this node's resolver resolves the cluster's names."""
    names = (f"api.{view.domain}", f"api-int.{view.domain}", view.console_host)
    missing = []
    for name in names:
        try:
            socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            missing.append(f"{name} ({error.strerror or error})")
    if missing:
        return Finding(False, f"Look-ups failed: {', '.join(missing)}", "DNSDegraded")
    return Finding(True, f"Looked up {', '.join(names)}")
