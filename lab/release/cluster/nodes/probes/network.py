"""The pods' network: each node's pod reaches those of all others and a Service, as its operator says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.network.podnetworks import parts, taken_twice
from lab.release.cluster.nodes import policies
from lab.release.cluster.nodes.probes.view import View, address, condition, get, node_ready, pod_ready

NAMESPACE = "openshift-network-diagnostics"
TARGET = "network-check-target"
PORT = 8080


def pod_addresses(pod: Object) -> list[str]:
    """Return a pod's addresses, one a family."""
    status = pod.get("status") or {}
    found = [str(entry["ip"]) for entry in status.get("podIPs") or []]
    return found or [str(status["podIP"])] if status.get("podIP") else []


def url(host: str, port: int, path: str) -> str:
    """Return a URL of an address."""
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


def unfit(node: Object, target: Object | None) -> str:
    """Return the reason why nothing can be asked of a node's pod yet; empty when something can."""
    if not parts(node):
        return "it has no podCIDR"
    if not node_ready(node):
        return "it is not Ready"
    if target is None or not pod_ready(target):
        return f"its pod {TARGET} is not Ready"
    networks = [ip_network(part) for part in parts(node)]
    outside = [ip for ip in pod_addresses(target) if not any(ip_address(ip) in network for network in networks)]
    if outside:
        return f"its pod has {', '.join(outside)}, which is not of podCIDR {', '.join(parts(node))}"
    return ""


def unreached(answer: str, pods: Mapping[str, str], services: Sequence[str]) -> list[str]:
    """Return what a pod's answer (lines of address and node) lacks of ``pods`` (address to node) and ``services``."""
    seen = {name: text for name, _, text in (line.partition(" ") for line in answer.splitlines())}
    bad = []
    for name, node in pods.items():
        text = seen.get(name, "- no answer")
        if text != node:
            bad.append(f"pod {name} of node {node} ({text.removeprefix('- ')})")
    for name in services:
        text = seen.get(name, "- no answer")
        if not text or text.startswith("-"):
            bad.append(f"Service address {name} ({text.removeprefix('- ')})")
    return bad


def network(view: View) -> Finding:
    """Have the pod of each node reach the pods of all others and their Service, and ask each kube-proxy."""
    targets = {
        str(pod["spec"]["nodeName"]): pod
        for pod in view.pods
        if pod["metadata"]["namespace"] == NAMESPACE and pod["spec"].get("nodeName")
    }
    if view.missing_nodes:
        return Finding(False, f"{view.missing_nodes} nodes have not joined", "NodesNotReady", "Degraded")
    twice = taken_twice(view.nodes)
    lacking, fit = {}, []
    for node in view.nodes:
        name = str(node["metadata"]["name"])
        if reason := twice.get(name) or unfit(node, targets.get(name)):
            lacking[name] = [reason]
        else:
            fit.append(node)
    services, found = _asked(view, fit, targets)
    lacking |= found
    if lacking:
        texts = (f"node {name}: {'; '.join(reasons)}" for name, reasons in sorted(lacking.items()))
        reason = "PodsNotReached" if found else "NodesNotReady"
        # a network taken twice is no node that starts
        changed = "Degraded" if twice else condition(view, view.nodes, lacking)
        return Finding(False, "; ".join(texts), reason, changed)
    looked = (
        f"On {len(fit)} nodes a pod reached the pod of every node and Service address {', '.join(services)} "
        f"(GET :{PORT}/cgi-bin/reach), and kube-proxy is in step (GET :10256/healthz)"
    )
    listed = [policy["metadata"] for policy in view.kube.list(policies.API, policies.KIND)]
    if ignored := [f"{meta['namespace']}/{meta['name']}" for meta in listed]:
        text = f"{looked}; nothing enforces the NetworkPolicies {', '.join(sorted(ignored))}"
        return Finding(True, text, policies.REASON, "Degraded")
    return Finding(True, looked)


def _asked(
    view: View, nodes: Sequence[Object], targets: Mapping[str, Object]
) -> tuple[list[str], dict[str, list[str]]]:
    """Ask pods and proxies of these nodes, all at once: the Service's addresses, and by node what was not found.

    What does not answer itself is not held against those who cannot reach it.
    """
    service = view.kube.get("v1", "Service", TARGET, NAMESPACE)
    spec = service["spec"] if service else {}
    services = [str(text) for text in spec.get("clusterIPs") or [spec.get("clusterIP")] if text]
    own = {str(node["metadata"]["name"]): pod_addresses(targets[node["metadata"]["name"]]) for node in nodes}
    query = ",".join([*(ip for ips in own.values() for ip in ips), *services])
    urls = [url(ips[0], PORT, f"/cgi-bin/reach?{query}") for ips in own.values()]
    urls += [url(address(node).strip("[]"), 10256, "/healthz") for node in nodes]
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda text: get(text, False), urls))
    pods = dict(zip(own, answers, strict=False))
    proxies = dict(zip(own, answers[len(own) :], strict=True))
    reachable = {ip: name for name, ips in own.items() if pods[name][0] == 200 for ip in ips}
    found: dict[str, list[str]] = {}
    for name, (status, body) in pods.items():
        if status != 200:
            text = f"GET {url(own[name][0], PORT, '/cgi-bin/reach')} of its pod: {status or 'no answer'} {body[:120]}"
            found.setdefault(name, []).append(text)
        elif bad := unreached(body, reachable, services):
            found.setdefault(name, []).append(f"its pod has no way to {', '.join(bad)}")
    for name, (status, body) in proxies.items():
        if status != 200:
            text = f"GET :10256/healthz of its kube-proxy: {status or 'no answer'} {body[:120]}"
            found.setdefault(name, []).append(text)
    return services, found
