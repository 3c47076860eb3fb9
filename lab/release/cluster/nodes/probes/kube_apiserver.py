"""The probe of the control plane's API servers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, address, asked, condition, localhost_at, masters_without

NAMESPACE = "openshift-kube-apiserver"
#: Asked of each server, with a client certificate: whether it is ready, and an object. /readyz alone answers everybody,
#: so that a server that knows no client any more would pass.
PATHS = ("/readyz", f"/api/v1/namespaces/{NAMESPACE}")


def _wrong(view: View, ip: str) -> str:
    """Return what the API server at an address does not do; nothing when all is well."""
    try:
        with localhost_at(ip, 6443, view.kube.ca_file, view.kube.cert_files) as connection:
            return next(filter(None, (asked(connection, "GET", path) for path in PATHS)), "")
    except (OSError, HTTPException) as error:
        return f"no answer at :6443: {type(error).__name__}: {error}"


def kube_apiserver(view: View) -> Finding:
    """Check that each control plane node's API server is ready and serves an operator, and its static pod is Ready."""
    names = [str(node["metadata"]["name"]) for node in view.masters]
    # all at once: one that hangs holds up no other's
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda node: _wrong(view, address(node).strip("[]")), view.masters))
    wrong = {name: text for name, text in zip(names, answers, strict=True) if text}
    wrong = dict.fromkeys(masters_without(view, NAMESPACE, "kube-apiserver-"), "its static pod is not Ready") | wrong
    ready = len(view.masters) - len(wrong)
    if wrong or not view.masters or view.missing_masters:
        bad = [f"{name}: {text}" for name, text in sorted(wrong.items())]
        if view.missing_masters:
            bad.append(f"{view.missing_masters} control plane nodes have not joined")
        return Finding(
            False,
            f"StaticPodsAvailable: {ready} nodes are active; {'; '.join(bad)}",
            "StaticPods_NotReady",
            condition(view, view.masters, wrong),
        )
    text = f"StaticPodsAvailable: {ready} nodes are active (GET :6443/readyz and an object as a client, pods Ready)"
    return Finding(True, text)
