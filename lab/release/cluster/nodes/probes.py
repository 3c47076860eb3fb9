"""Probes on which each ClusterOperator's Available rests; their messages say what they looked at."""

from __future__ import annotations

import datetime as dt
import http.client
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Finding, is_status
from lab.release.cluster.kube.lease import API as LEASE_API
from lab.release.cluster.kube.lease import parse_time

SECONDS = 20.0
#: Seconds after which a pending CSR counts as overlooked.
CSR_SECONDS = 180
LEASE_SECONDS = 180
#: What the pods are called that teach nodes to fence each other, before the node's name.
SETUP = "tnf-setup-"


@dataclass(frozen=True)
class View:
    """The cluster's state, read once at the start of a round and shared by all probes."""

    kube: Kube
    files: Path
    now: dt.datetime
    nodes: list[Object]
    pods: list[Object]
    domain: str
    apps_domain: str
    config: InstallConfig | None = None

    @property
    def routers(self) -> list[Object]:
        """Nodes that answer for *.apps: the workers, or the control plane nodes when there are none."""
        return [n for n in self.nodes if machineconfig.role_of(n) == "worker"] or self.masters

    @property
    def missing_masters(self) -> int:
        """Count the control plane nodes that have not joined."""
        return max((self.config.control_plane_replicas if self.config else 1) - len(self.masters), 0)

    @property
    def masters(self) -> list[Object]:
        """Control plane nodes."""
        return [n for n in self.nodes if machineconfig.role_of(n) == "master"]

    @property
    def etcd_nodes(self) -> list[Object]:
        """Nodes with a member of etcd: the control plane's, and arbiters."""
        return [n for n in self.nodes if machineconfig.role_of(n) in ("master", "arbiter")]

    @property
    def missing_members(self) -> int:
        """Count the nodes that are to have a member of etcd and have not joined."""
        return max((self.config.etcd_members if self.config else 1) - len(self.etcd_nodes), 0)

    @property
    def without_pacemaker(self) -> list[str]:
        """Of two nodes that fence each other, those where pacemaker does not run etcd yet."""
        if self.config is None or not self.config.fenced:
            return []
        done = {p["metadata"]["name"] for p in self.pods if (p.get("status") or {}).get("phase") == "Succeeded"}
        names = [str(node["metadata"]["name"]) for node in self.masters]
        return [name for name in names if SETUP + name not in done]

    @property
    def console_host(self) -> str:
        """The console's host name."""
        return f"console-openshift-console.{self.apps_domain}"


def addresses(node: Object) -> list[str]:
    """Return a node's InternalIPs, one a family, the one that it is known by first."""
    return [str(e["address"]) for e in node.get("status", {}).get("addresses") or [] if e["type"] == "InternalIP"]


def address(node: Object) -> str:
    """Return a node's first InternalIP, for a URL; empty when it has none yet."""
    first = next(iter(addresses(node)), "")
    return f"[{first}]" if ":" in first else first


def node_ready(node: Object) -> bool:
    """Return whether the node's condition Ready is True."""
    return is_status(node.get("status", {}).get("conditions") or [], "Ready")


def pod_ready(pod: Object) -> bool:
    """Return whether the pod's condition Ready is True."""
    return is_status(pod.get("status", {}).get("conditions") or [], "Ready")


def _get(url: str, verify: Path | bool, cert: tuple[str, str] | None = None) -> tuple[int, str]:
    """Status and body of a GET; 0 and the error when there is no answer. No proxy, no redirect."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(
                url, verify=str(verify) if verify else False, cert=cert, timeout=SECONDS, allow_redirects=False
            )
        except (requests.RequestException, OSError) as error:
            return 0, f"{type(error).__name__}: {str(error).rsplit(':', maxsplit=1)[-1].strip(' )')}"
        return answer.status_code, answer.text


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


def _static_pods(view: View, namespace: str, name: str) -> tuple[int, int]:
    """Count the control plane nodes that have this static pod Ready, and all of them."""
    ready = {
        pod["spec"].get("nodeName")
        for pod in view.pods
        if pod["metadata"]["namespace"] == namespace and pod["metadata"]["name"].startswith(name) and pod_ready(pod)
    }
    names = {n["metadata"]["name"] for n in view.masters}
    return len(ready & names), len(names)


def etcd(view: View) -> Finding:
    """Every member answers /health with true."""
    cert = (str(view.files / "etcd-client.crt"), str(view.files / "etcd-client.key"))
    bad = []
    for node in view.etcd_nodes:
        status, body = _get(f"https://{address(node)}:2379/health", view.files / "etcd-ca.crt", cert)
        if status != 200 or '"health":"true"' not in body:
            bad.append(f"{node['metadata']['name']}: {body.strip()[:120]}")
    if view.missing_members:
        bad.append(f"{view.missing_members} control plane nodes have not joined")
    bad += [f"{name}: pacemaker does not run etcd yet" for name in view.without_pacemaker]
    if bad or not view.masters:
        text = "; ".join(bad) or "no control plane node yet"
        return Finding(False, f"EtcdMembersAvailable: /health of a member is not true: {text}", "EtcdMembersUnhealthy")
    return Finding(True, f"EtcdMembersAvailable: {len(view.etcd_nodes)} members are available (GET :2379/health)")


def kube_apiserver(view: View) -> Finding:
    """Every control plane node's /readyz says ok, and its static pod is Ready."""
    bad = []
    for node in view.masters:
        status, body = _readyz(address(node).strip("[]"), view.kube.ca_file)
        if status != 200:
            bad.append(f"{node['metadata']['name']}: {status or 'no answer'} {body.strip()[:80]}")
    ready, total = _static_pods(view, "openshift-kube-apiserver", "kube-apiserver-")
    total += view.missing_masters
    if bad or not total or ready < total:
        text = "; ".join(bad) or f"{ready} of {total} static pods are Ready"
        return Finding(False, f"StaticPodsAvailable: /readyz and pods: {text}", "StaticPods_NotReady")
    return Finding(True, f"StaticPodsAvailable: {ready} nodes are active (GET :6443/readyz, pods Ready)")


def kube_controller_manager(view: View) -> Finding:
    """Check that the leader renews its lease."""
    lease = view.kube.get(LEASE_API, "Lease", "kube-controller-manager", "kube-system")
    if lease is None or not lease["spec"].get("renewTime"):
        return Finding(False, "Lease kube-system/kube-controller-manager is not there: no leader yet", "NoLeader")
    if (view.now - parse_time(lease["spec"]["renewTime"])).total_seconds() > LEASE_SECONDS:
        return Finding(
            False,
            f"Lease kube-system/kube-controller-manager was last renewed at {lease['spec']['renewTime']}",
            "StaleLease",
        )
    ready, total = _static_pods(view, "openshift-kube-controller-manager", "kube-controller-manager-")
    total += view.missing_masters
    if not total or ready < total:
        return Finding(False, f"{ready} of {total} static pods are Ready", "StaticPods_NotReady")
    return Finding(True, f"{ready} nodes are active (lease kube-system/kube-controller-manager is renewed, pods Ready)")


def machine_config(view: View) -> Finding:
    """Check that the machine-config server answers over TLS, and every pool is updated."""
    status, body = _get("https://localhost:22623/healthz", view.files / "root-ca.crt")
    if status != 200:
        return Finding(False, f"GET https://localhost:22623/healthz: {status or 'no answer'} {body[:120]}", "NoServer")
    if not view.masters:
        return Finding(False, "No control plane node says with which MachineConfig it booted", "NoNodes")
    pools = view.kube.list(machineconfig.API, "MachineConfigPool")
    stale = [
        p["metadata"]["name"] for p in pools if not is_status(p.get("status", {}).get("conditions") or [], "Updated")
    ]
    if stale or not pools:
        return Finding(
            False, f"MachineConfigPools not updated: {', '.join(sorted(stale)) or 'none exist'}", "PoolsUpdating"
        )
    return Finding(True, "GET :22623/healthz is ok and all MachineConfigPools are updated")


def machine_approver(view: View) -> Finding:
    """Check that the approver runs, and no node's CSR has been overlooked."""
    ready = [p for p in view.pods if p["metadata"]["namespace"] == "assisted-installer" and pod_ready(p)]
    if not ready:
        return Finding(False, "No pod in namespace assisted-installer is Ready", "NoApprover")
    waiting = 0
    for csr in view.kube.list("certificates.k8s.io/v1", "CertificateSigningRequest"):
        age = (view.now - parse_time(csr["metadata"]["creationTimestamp"])).total_seconds()
        if not (csr.get("status") or {}).get("conditions") and age > CSR_SECONDS:
            waiting += 1
    if waiting:
        return Finding(False, f"{waiting} CSRs have been pending for more than {CSR_SECONDS} s", "PendingCSRs")
    return Finding(True, f"The approver's pod is Ready and no CSR has been pending for more than {CSR_SECONDS} s")


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


def network(view: View) -> Finding:
    """Every node has pod addresses and is Ready, which it is only with a working CNI."""
    bad = [n["metadata"]["name"] for n in view.nodes if not n["spec"].get("podCIDR") or not node_ready(n)]
    expected = view.config.nodes if view.config else 1
    if bad or len(view.nodes) < expected:
        missing = f"{expected - len(view.nodes)} nodes have not joined" if not bad else ""
        return Finding(False, f"Nodes without pod addresses or not Ready: {', '.join(bad) or missing}", "NodesNotReady")
    return Finding(True, f"{len(view.nodes)} nodes are Ready and have a podCIDR")


def ingress(view: View) -> Finding:
    """Check that the router says it is ready and shows a certificate of the ingress CA."""
    for node in view.routers:
        url = f"http://{address(node)}:1936/healthz/ready"
        status, body = _get(url, False)
        if status != 200:
            return Finding(False, f"GET {url}: {status or 'no answer'} {body[:120]}", "NotReady")
    if not view.routers:
        return Finding(False, "No node has joined that could run the router", "NoNodes")
    status, body = _get(f"https://{view.console_host}/", view.files / "router-ca.crt")
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
    status, body = _get(url, view.files / "router-ca.crt")
    if status != 200:
        return Finding(
            False, f"RouteHealthAvailable: GET {url}: {status or 'no answer'} {body[:80]}", "RouteHealth_StatusError"
        )
    return Finding(True, f"RouteHealthAvailable: GET {url} answers 200")


PROBES: dict[str, Callable[[View], Finding]] = {
    "etcd": etcd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "network": network,
    "dns": dns,
    "machine-config": machine_config,
    "machine-approver": machine_approver,
    "ingress": ingress,
    "console": console,
}
