"""Gives each node its part of the cluster network, which its kubelet waits for before it is Ready.

In OpenShift the network plugin does so. kube-controller-manager's nodeipam could, but waits ten seconds before it looks
at the nodes for the first time, and all other controllers wait with it, the one that signs nodes' CSRs among them
(Kubernetes 1.20, pkg/controller/nodeipam/ipam/cidr_allocator.go, ``nodePollInterval``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from ipaddress import ip_network

from lab.release.cluster import pace
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.resources import read_config

log = logging.getLogger(__name__)

#: Seconds between two looks: the longest while nodes are missing, and when all have their part.
POLL_SECONDS = 5.0
CALM_SECONDS = 60.0


def family(networks: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The network that pods are given addresses of, as (CIDR, length of a node's part): IPv4's if there is one."""
    return next((item for item in networks if ":" not in item[0]), networks[0])


def missing(nodes: Sequence[Object], networks: Sequence[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    """(node, its part) for each node that has none, the first free ones. Raises ClusterError when none is left."""
    cidr, prefix = family(networks)
    used = {str(node["spec"]["podCIDR"]) for node in nodes if node["spec"].get("podCIDR")}
    free = (str(part) for part in ip_network(cidr).subnets(new_prefix=prefix) if str(part) not in used)
    for node in nodes:
        if not node["spec"].get("podCIDR"):
            part = next(free, None)
            if part is None:
                raise ClusterError(f"cluster network {cidr} has no /{prefix} left for node {node['metadata']['name']}")
            yield node["metadata"]["name"], part


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
        for name, part in missing(nodes, config.cluster_networks):
            patch = {"spec": {"podCIDR": part, "podCIDRs": [part]}}
            self._kube.merge_patch({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, patch)
            log.info("Node %s was given the pod network %s", name, part)
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
