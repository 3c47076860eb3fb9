"""Gives each node its part of the cluster network, which its kubelet waits for before it is Ready.

In OpenShift the network plugin does so. kube-controller-manager's nodeipam could, but waits ten seconds before it looks
at the nodes for the first time, and all other controllers wait with it, the one that signs nodes' CSRs among them
(Kubernetes 1.20, pkg/controller/nodeipam/ipam/cidr_allocator.go, ``nodePollInterval``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from ipaddress import ip_network

from lab.release.cluster import pace
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.resources import read_config

log = logging.getLogger(__name__)

#: Seconds between two looks: the longest while nodes are missing, and when all have their part.
POLL_SECONDS = 5.0
CALM_SECONDS = 60.0


def _free(cidr: str, prefix: int, used: Collection[str]) -> Iterator[str]:
    return (str(part) for part in ip_network(cidr).subnets(new_prefix=prefix) if str(part) not in used)


def missing(nodes: Sequence[Object], networks: Sequence[tuple[str, int]]) -> Iterator[tuple[str, list[str]]]:
    """(node, its part of each network) for each node that has none, the first free ones; `networks` holds (CIDR, length
    of a part), one a family. Raises ClusterError when none is left."""
    used = {part for node in nodes for part in node["spec"].get("podCIDRs") or [node["spec"].get("podCIDR")] if part}
    free = [(cidr, prefix, _free(cidr, prefix, used)) for cidr, prefix in networks]
    for node in nodes:
        if node["spec"].get("podCIDR"):
            continue
        name, parts = node["metadata"]["name"], []
        for cidr, prefix, left in free:
            part = next(left, None)
            if part is None:
                raise ClusterError(f"cluster network {cidr} has no /{prefix} left for node {name}")
            parts.append(part)
        yield name, parts


class PodNetworks:
    """The loop; `step` is one round, `run` repeats it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def step(self) -> bool:
        """One look; whether all nodes that there are to be have their part. Raises ClusterError."""
        config = read_config(self._kube)
        if config is None:
            return False
        nodes = self._kube.list("v1", "Node")
        for name, parts in missing(nodes, config.pod_networks):
            patch = {"spec": {"podCIDR": parts[0], "podCIDRs": parts}}
            self._kube.merge_patch({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, patch)
            log.info("Node %s was given the pod networks %s", name, ", ".join(parts))
        return len(nodes) >= config.nodes

    def run(self, stop: threading.Event) -> None:
        """Repeat rounds until ``stop``; while the API is unreachable, log it and go on."""
        while not stop.is_set():
            began, calm = time.monotonic(), False
            try:
                calm = self.step()
            except (ClusterError, OSError) as error:
                log.warning("pod networks: %s", error)
            stop.wait(CALM_SECONDS if calm else pace.pause(time.monotonic() - began, POLL_SECONDS))
