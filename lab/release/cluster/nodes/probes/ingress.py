"""The probes of the routers, and of the console, which is one route among others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, address, asked, condition, get, localhost_at

#: The path of the canary's page, which a pod serves behind a Route (manifests, ingress-canary).
PAGE = "/cgi-bin/reach"


def wrong(view: View, node: Object) -> str:
    """Return what the router of a node does not do; nothing when all is well."""
    status, body = get(f"http://{address(node)}:1936/healthz/ready", False)
    if status != 200:
        return f"GET :1936/healthz/ready: {status or 'no answer'} {body[:120]}".strip()
    ip, host = address(node).strip("[]"), view.canary_host
    try:
        with localhost_at(ip, 443, view.files / "router-ca.crt", name=host) as connection:
            seen = asked(connection, "GET", PAGE)
    except (OSError, HTTPException) as error:
        seen = f"no answer that the ingress CA vouches for: {type(error).__name__}: {error}"
    return f"https://{host}: {seen}" if seen else ""


def ingress(view: View) -> Finding:
    """Have each router say that it and its controller are well, and lead to the canary's page by its Route."""
    if view.missing_nodes:
        return Finding(False, f"{view.missing_nodes} nodes have not joined", "NoNodes", "Degraded")
    if not view.routers:
        return Finding(False, "No node is a worker, which could run the router", "NoNodes")
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda node: wrong(view, node), view.routers))
    names = [str(node["metadata"]["name"]) for node in view.routers]
    if bad := {name: text for name, text in zip(names, answers, strict=True) if text}:
        text = "; ".join(f"router of {name}: {seen}" for name, seen in sorted(bad.items()))
        return Finding(False, text, "CanaryChecksRepetitiveFailures", condition(view, view.routers, bad))
    url = f"https://{view.canary_host}{PAGE}"
    status, body = get(url, view.files / "router-ca.crt")
    if status != 200:
        return Finding(False, f"GET {url}: {status or 'no answer'} {body[:120]}", "CanaryChecksRepetitiveFailures")
    return Finding(
        True,
        f"Through {len(names)} routers, each by itself and by the name's address, a pod's page was had (GET {url}, "
        "with a certificate of the ingress CA), and they and their controllers are well (GET :1936/healthz/ready)",
    )


def console(view: View) -> Finding:
    """Check that the console answers through the router, by its public name."""
    url = f"https://{view.console_host}/"
    status, body = get(url, view.files / "router-ca.crt")
    if status != 200:
        seen = "Application is not available" if "Application is not available" in body else body[:80]
        return Finding(
            False, f"RouteHealthAvailable: GET {url}: {status or 'no answer'} {seen}", "RouteHealth_StatusError"
        )
    return Finding(True, f"RouteHealthAvailable: GET {url} answers 200")
