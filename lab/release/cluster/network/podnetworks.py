"""Gives each node its part of the cluster network, which its kubelet waits for before it is Ready, and says on a Node
that another has its part already.

In OpenShift the network plugin does so. kube-controller-manager's nodeipam could, but waits ten seconds before it looks
at the nodes for the first time, and all other controllers wait with it, the one that signs nodes' CSRs among them
(Kubernetes 1.20, pkg/controller/nodeipam/ipam/cidr_allocator.go, ``nodePollInterval``).
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from ipaddress import ip_network

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import find, put
from lab.release.cluster.kube.events import warn
from lab.release.cluster.kube.resources import read_config

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
#: What Kubernetes' own controllers of routes say about a node, and the reason of this one.
CONDITION = "NetworkUnavailable"
TWICE = "PodCIDRTakenTwice"


def parts(node: Object) -> list[str]:
    """Return a node's parts of the cluster networks, one a family."""
    return [str(part) for part in node["spec"].get("podCIDRs") or [node["spec"].get("podCIDR")] if part]


def overlaps(part: str, others: Iterable[str]) -> bool:
    """Return whether a network has addresses of one of the others."""
    network = ip_network(part)
    return any(network.version == other.version and network.overlaps(other) for other in map(ip_network, others))


def taken_twice(nodes: Sequence[Object]) -> dict[str, str]:
    """Each node that has a part that an older one has already, and which; the API refuses to change it."""
    found: dict[str, str] = {}
    eldest = sorted(nodes, key=lambda n: (str(n["metadata"].get("creationTimestamp", "")), str(n["metadata"]["name"])))
    for index, node in enumerate(eldest):
        for elder in eldest[:index]:
            for part in parts(node):
                if overlaps(part, parts(elder)):
                    name = elder["metadata"]["name"]
                    found.setdefault(node["metadata"]["name"], f"podCIDR {part} overlaps with that of node {name}")
    return found


def _free(cidr: str, prefix: int, used: Collection[str]) -> Iterator[str]:
    return (str(part) for part in ip_network(cidr).subnets(new_prefix=prefix) if str(part) not in used)


def missing(nodes: Sequence[Object], networks: Sequence[tuple[str, int]]) -> Iterator[tuple[str, list[str]]]:
    """(node, its part of each network) for each node that has none, the first free ones; `networks` holds (CIDR, length
    of a part), one a family. Raises ClusterError when none is left."""
    used = {part for node in nodes for part in parts(node)}
    free = [(cidr, prefix, _free(cidr, prefix, used)) for cidr, prefix in networks]
    for node in nodes:
        if node["spec"].get("podCIDR"):
            continue
        name, own = node["metadata"]["name"], []
        for cidr, prefix, left in free:
            part = next(left, None)
            if part is None:
                raise ClusterError(f"cluster network {cidr} has no /{prefix} left for node {name}")
            own.append(part)
        yield name, own


class PodNetworks:
    """The loop; `step` is one look at all nodes, `run` has one after each change of a node."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._warned: set[tuple[str, str]] = set()

    def step(self, nodes: Sequence[Object]) -> None:
        """Give each node its part, and tell those whose part is taken. Raises ClusterError."""
        config = read_config(self._kube)
        if config is None:
            raise ClusterError("the cluster has no configuration yet")
        for name, own in missing(nodes, config.pod_networks):
            patch = {"spec": {"podCIDR": own[0], "podCIDRs": own}}
            self._kube.merge_patch({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, patch)
            log.info("Node %s was given the pod networks %s", name, ", ".join(own))
        twice = taken_twice(nodes)
        for node in nodes:
            self._tell(node, twice.get(node["metadata"]["name"]))

    def _tell(self, node: Object, taken: str | None) -> None:
        """Set the node's condition, and warn of it; one that was never set is not set to say that all is well."""
        conditions = (node.get("status") or {}).get("conditions") or []
        was = find(conditions, CONDITION)
        if taken is None and (was is None or was.get("reason") != TWICE):
            return
        status, reason = ("True", TWICE) if taken else ("False", "PodCIDRIsItsOwn")
        message = taken or "No other node has this node's podCIDR"
        if was is not None and was.get("message") == message:
            return
        new = find(
            put(conditions, CONDITION, status, dt.datetime.now(dt.UTC), reason=reason, message=message), CONDITION
        )
        target: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]}}
        # By type, beside the kubelet, which writes the other conditions.
        kind = "application/strategic-merge-patch+json"
        patch = {"status": {"conditions": [new]}}
        self._kube.request("PATCH", self._kube.object_path(target, "status"), patch, content_type=kind)
        name = str(node["metadata"]["name"])
        if taken and (name, taken) not in self._warned:
            self._warned.add((name, taken))
            # Events of nodes have the name in the place of the UID: kubelets write it so, kubectl looks for it.
            target["metadata"] |= {"uid": name}
            cure = "delete this Node, then /etc/kubernetes/cni/net.d on its host, and reboot that"
            warn(self._kube, target, TWICE, f"{taken}: nobody reaches its pods; {cure}")

    def run(self, stop: threading.Event) -> None:
        """Follow all nodes until ``stop``; what failed is tried again with the nodes as they are then."""
        for objects in self._kube.watch("v1", "Node", stop):
            nodes = list(objects.values())
            while not stop.is_set():
                try:
                    self.step(nodes)
                    break
                except (ClusterError, OSError) as error:
                    log.warning("pod networks: %s", error)
                stop.wait(RETRY_SECONDS)
                try:
                    nodes = self._kube.list("v1", "Node")
                except (ClusterError, OSError) as error:
                    log.warning("pod networks: %s", error)
