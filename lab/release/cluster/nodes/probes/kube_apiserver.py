"""The probe of the control plane's API servers."""

from __future__ import annotations

import http.client
import socket
import ssl

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import SECONDS, View, address, static_pods


def _readyz(ip: str, ca_file: str) -> tuple[int, str]:
    """/readyz of the API server at an address, which shows the certificate for `localhost` when asked for that name."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        with (
            socket.create_connection((ip, 6443), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
            connection.sock = secure
            connection.request("GET", "/readyz", headers={"Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, f"{type(error).__name__}: {error}"


def kube_apiserver(view: View) -> Finding:
    """Every control plane node's /readyz says ok, and its static pod is Ready."""
    bad = []
    for node in view.masters:
        status, body = _readyz(address(node).strip("[]"), view.kube.ca_file)
        if status != 200:
            bad.append(f"{node['metadata']['name']}: {status or 'no answer'} {body.strip()[:80]}")
    ready, total = static_pods(view, "openshift-kube-apiserver", "kube-apiserver-")
    total += view.missing_masters
    if bad or not total or ready < total:
        text = "; ".join(bad) or f"{ready} of {total} static pods are Ready"
        return Finding(False, f"StaticPodsAvailable: /readyz and pods: {text}", "StaticPods_NotReady")
    return Finding(True, f"StaticPodsAvailable: {ready} nodes are active (GET :6443/readyz, pods Ready)")
