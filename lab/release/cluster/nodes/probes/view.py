"""The view of a cluster that all probes share, and their way to ask."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import requests

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Changed, is_status
from lab.release.cluster.kube.lease import parse_time
from lab.release.cluster.pods.installerpod import is_busy

#: Seconds within which a part must answer.
SECONDS = 20.0
#: For how long a node that has joined may be starting, as for a DaemonSet that awaits it (reference/cluster.md §5.5).
STARTING_SECONDS = 600.0
#: The label of nodes that run users' pods.
WORKER = "node-role.kubernetes.io/worker"
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
    #: Whether the installation is complete. From then on the cluster has the nodes that it has, not those asked for.
    installed: bool = False

    @property
    def routers(self) -> list[Object]:
        """Nodes that answer for *.apps: the workers, control plane nodes among them where they are workers too."""
        return [n for n in self.nodes if WORKER in (n["metadata"].get("labels") or {})]

    def _missing(self, wanted: int, joined: Sequence[Object]) -> int:
        return 0 if self.installed else max(wanted - len(joined), 0)

    @property
    def missing_nodes(self) -> int:
        """Count the nodes that the installation still waits for."""
        return self._missing(self.config.nodes if self.config else 1, self.nodes)

    @property
    def missing_masters(self) -> int:
        """Count the control plane nodes that the installation still waits for."""
        return self._missing(self.config.control_plane_replicas if self.config else 1, self.masters)

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
        """Count the nodes with a member of etcd that the installation still waits for."""
        return self._missing(self.config.etcd_members if self.config else 1, self.etcd_nodes)

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

    @property
    def canary_host(self) -> str:
        """The host name of the Route by which the routers are probed."""
        return f"canary-openshift-ingress-canary.{self.apps_domain}"


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


def condition(view: View, nodes: Sequence[Object], lacking: Iterable[str]) -> Changed:
    """Return the condition that tells of a part that runs on each of ``nodes`` and does not serve on those ``lacking``
    it, by name: a node that starts, or whose static pods are being replaced, makes nothing worse."""
    names, busy = set(lacking), {pod["spec"].get("nodeName") for pod in view.pods if is_busy(pod)}
    lack = [node for node in nodes if node["metadata"]["name"] in names]
    if len(lack) == len(nodes):
        return "Available"
    lasting = [node for node in lack if node["metadata"]["name"] not in busy]
    ages = [(view.now - parse_time(node["metadata"]["creationTimestamp"])).total_seconds() for node in lasting]
    return "Progressing" if lack and max(ages, default=0.0) < STARTING_SECONDS else "Degraded"


def pod_ready(pod: Object) -> bool:
    """Return whether the pod's condition Ready is True."""
    return is_status(pod.get("status", {}).get("conditions") or [], "Ready")


def get(url: str, verify: Path | bool, cert: tuple[str, str] | None = None, *, post: object = None) -> tuple[int, str]:
    """Return status and body of a GET, or of ``post`` as JSON; 0 and the error when there is no answer. No proxy, no
    redirect."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.request(
                "GET" if post is None else "POST",
                url,
                json=post,
                verify=str(verify) if verify else False,
                cert=cert,
                timeout=SECONDS,
                allow_redirects=False,
            )
        except (requests.RequestException, OSError) as error:
            return 0, f"{type(error).__name__}: {str(error).rsplit(':', maxsplit=1)[-1].strip(' )')}"
        return answer.status_code, answer.text


@contextmanager
def localhost_at(
    ip: str, port: int, ca_file: Path | str, cert: tuple[str, str] | None = None, *, name: str = "localhost"
) -> Iterator[HTTPConnection]:
    """Provide a connection to a server at an address, which shows the certificate for ``name`` when asked for it."""
    context = ssl.create_default_context(cafile=ca_file)
    if cert is not None:
        context.load_cert_chain(*cert)
    with (
        socket.create_connection((ip, port), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        connection = HTTPConnection(name, timeout=SECONDS)
        connection.sock = secure
        yield connection


def asked(connection: HTTPConnection, method: str, path: str) -> str:
    """Ask; return nothing for a 200, else the request and its answer. Raises OSError, HTTPException."""
    connection.request(method, path)
    answer = connection.getresponse()
    body = " ".join(answer.read().decode(errors="replace").split())
    return "" if answer.status == 200 else f"{method} {path}: {answer.status} {body[:80]}".strip()


def masters_without(view: View, namespace: str, name: str) -> list[str]:
    """Return the control plane nodes, by name, that do not have this static pod Ready."""
    return sorted(
        {str(n["metadata"]["name"]) for n in view.masters}
        - {
            pod["spec"].get("nodeName")
            for pod in view.pods
            if pod["metadata"]["namespace"] == namespace and pod["metadata"]["name"].startswith(name) and pod_ready(pod)
        }
    )
