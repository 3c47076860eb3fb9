"""The probe of the cluster's names: each node's DNS server, the Service's address, and the resolver of this node."""

from __future__ import annotations

import datetime as dt
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from lab.release.cluster.kube.apply import apply
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, condition, node_ready, pod_ready

NAMESPACE, SERVICE = "openshift-dns", "dns-default"
LABEL = "dns.operator.openshift.io/daemonset-dns"
#: A headless Service without a selector, whose one endpoint is this probe's: a new address each time, which a server
#: only knows if the program that feeds it still follows the API.
CHANGING = "dns-probe"
#: The networks that these addresses are of: those for benchmarks and for documentation (RFC 2544, RFC 3849).
NOWHERE = {4: ip_network("198.18.0.0/15"), 6: ip_network("2001:db8::/64")}
PORT = 5353
#: Seconds for one query, between two, and for a server to know the new address.
QUERY_SECONDS, PAUSE_SECONDS, NEWS_SECONDS = 3.0, 0.1, 10.0


@dataclass(frozen=True)
class Question:
    """A name and the addresses that it must have; None: any."""

    name: str
    addresses: frozenset[str] | None


def changing(now: dt.datetime, version: int) -> Object:
    """Return the EndpointSlice of the headless Service with an address that the time gives."""
    network = NOWHERE[version]
    address = network[int(now.timestamp()) % min(network.num_addresses, 2**32)]
    labels = {
        "kubernetes.io/service-name": CHANGING,
        "endpointslice.kubernetes.io/managed-by": "dns-operator",
        # As the endpoints' controller has it: else each change has each kube-proxy write all its rules anew.
        "service.kubernetes.io/headless": "",
    }
    meta = {"name": CHANGING, "namespace": NAMESPACE, "labels": labels}
    return {
        "apiVersion": "discovery.k8s.io/v1beta1",
        "kind": "EndpointSlice",
        "metadata": meta,
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [str(address)], "conditions": {"ready": True}}],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
    }


def _lookup(server: str, port: int, name: str) -> set[str]:
    """Return a name's addresses of both families. Raises OSError and dnspython's errors, and ValueError for an answer
    that says why there are none."""
    # 6 MB, which only the process that leads needs.
    from dns import message, query, rcode, rdatatype

    found: set[str] = set()
    for kind in (rdatatype.A, rdatatype.AAAA):
        answer = query.udp(message.make_query(name, kind), server, QUERY_SECONDS, port)
        if answer.rcode() != rcode.NOERROR:
            raise ValueError(rcode.to_text(answer.rcode()))
        found |= {str(item) for rrset in answer.answer if rrset.rdtype == kind for item in rrset}
    return found


def _wrong(server: str, port: int, question: Question) -> str:
    from dns.exception import DNSException

    where = f"[{server}]:{port}" if ":" in server else f"{server}:{port}"
    try:
        found = _lookup(server, port, question.name)
    except DNSException:
        return f"{where} does not answer within {QUERY_SECONDS:g} s for {question.name}"
    except (OSError, ValueError) as error:
        return f"{where} says {error} for {question.name}"
    if found and question.addresses in (None, found):
        return ""
    wanted = ", ".join(sorted(question.addresses or ["an address"]))
    return f"{where} has {', '.join(sorted(found)) or 'no address'} for {question.name}, not {wanted}"


def wrong(server: str, port: int, questions: Sequence[Question], deadline: float) -> str:
    """Return what a server answers wrongly; asks again until ``deadline``, of the monotonic clock, while it does."""
    while True:
        bad = next((text for question in questions if (text := _wrong(server, port, question))), "")
        if not bad or time.monotonic() >= deadline:
            return bad
        time.sleep(PAUSE_SECONDS)


def servers(view: View) -> tuple[dict[str, str], dict[str, str]]:
    """Node to address of its server, and node to the reason why it has none to ask."""
    pods = {
        pod["spec"].get("nodeName"): pod
        for pod in view.pods
        if pod["metadata"]["namespace"] == NAMESPACE
        and LABEL in (pod["metadata"].get("labels") or {})
        and not pod["metadata"].get("deletionTimestamp")
    }
    found, lacking = {}, {}
    for node in view.nodes:
        name = str(node["metadata"]["name"])
        pod = pods.get(name)
        if not node_ready(node):
            lacking[name] = "it is not Ready"
        elif pod is None:
            lacking[name] = f"it has no pod of DaemonSet {NAMESPACE}/{SERVICE}"
        elif not pod_ready(pod) or not pod["status"].get("podIP"):
            lacking[name] = f"its pod {pod['metadata']['name']} is not Ready"
        else:
            found[name] = str(pod["status"]["podIP"])
    return found, lacking


def _unresolved(names: Sequence[str]) -> list[str]:
    """Look names up by this node's own resolver; those that it does not know, with the reason."""
    missing = []
    for name in names:
        try:
            socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            missing.append(f"{name} ({error.strerror or error})")
    return missing


def dns(view: View) -> Finding:
    """Ask each node's DNS server for a Service, a headless one and a name outside of the cluster, the Service's address
    for the first, and this node's own resolver for the names that the installer needs."""
    names = (f"api.{view.domain}", f"api-int.{view.domain}", view.console_host)
    if missing := _unresolved(names):
        return Finding(False, f"This node's resolver does not know {', '.join(missing)}", "DNSDegraded")
    if view.missing_nodes:
        return Finding(False, f"{view.missing_nodes} nodes have not joined", "NodesNotReady", "Degraded")
    own, first = (view.kube.get("v1", "Service", *key) for key in ((SERVICE, NAMESPACE), ("kubernetes", "default")))
    if own is None or first is None:
        return Finding(False, f"Service {NAMESPACE}/{SERVICE} is not there", "NoService")
    asked, lacking = servers(view)
    service = Question("kubernetes.default.svc.cluster.local.", frozenset([str(first["spec"]["clusterIP"])]))
    questions = [service, Question(f"{names[0]}.", None)]
    if asked:
        part = changing(view.now, ip_address(first["spec"]["clusterIP"]).version)
        apply(view.kube, part)
        new = frozenset(part["endpoints"][0]["addresses"])
        questions.append(Question(f"{CHANGING}.{NAMESPACE}.svc.cluster.local.", new))
    deadline = time.monotonic() + NEWS_SECONDS
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = pool.map(lambda server: wrong(server, PORT, questions, deadline), asked.values())
        lacking |= {name: text for name, text in zip(asked, answers, strict=True) if text}
    if lacking:
        texts = (f"node {name}: {text}" for name, text in sorted(lacking.items()))
        return Finding(False, "; ".join(texts), "DNSDegraded", condition(view, view.nodes, lacking))
    address = str(own["spec"]["clusterIP"])
    if text := wrong(address, 53, [service], time.monotonic()):
        return Finding(False, f"Service {NAMESPACE}/{SERVICE}: {text}", "ServiceNotReached", "Degraded")
    found = ", ".join(question.name.rstrip(".") for question in questions)
    return Finding(
        True,
        f"The DNS servers of {len(asked)} nodes ({', '.join(sorted(asked))}) answered for {found}, the last with an "
        f"address set just before; Service address {address} answered; this node's resolver knows {', '.join(names)}",
    )
