"""The probes of the router, and of the console behind it."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, address, get


def ingress(view: View) -> Finding:
    """Check that the router says it is ready and shows a certificate of the ingress CA."""
    for node in view.routers:
        url = f"http://{address(node)}:1936/healthz/ready"
        status, body = get(url, False)
        if status != 200:
            return Finding(False, f"GET {url}: {status or 'no answer'} {body[:120]}", "NotReady")
    if not view.routers:
        return Finding(False, "No node has joined that could run the router", "NoNodes")
    status, body = get(f"https://{view.console_host}/", view.files / "router-ca.crt")
    if status == 0:
        return Finding(
            False, f"GET https://{view.console_host}/: no answer that the ingress CA vouches for: {body[:120]}"
        )
    return Finding(
        True,
        f"GET :1936/healthz/ready is ok on {len(view.routers)} nodes, and the certificate is one of the ingress CA",
    )


def console(view: View) -> Finding:
    """Check that the console answers through the router, by its public name."""
    url = f"https://{view.console_host}/"
    status, body = get(url, view.files / "router-ca.crt")
    if status != 200:
        return Finding(
            False, f"RouteHealthAvailable: GET {url}: {status or 'no answer'} {body[:80]}", "RouteHealth_StatusError"
        )
    return Finding(True, f"RouteHealthAvailable: GET {url} answers 200")
