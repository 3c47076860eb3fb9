"""The table of probes, on which each ClusterOperator's Available rests."""

from __future__ import annotations

from collections.abc import Callable

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.dns import dns
from lab.release.cluster.nodes.probes.etcd import etcd
from lab.release.cluster.nodes.probes.ingress import console, ingress
from lab.release.cluster.nodes.probes.kube_apiserver import kube_apiserver
from lab.release.cluster.nodes.probes.kube_controller_manager import kube_controller_manager
from lab.release.cluster.nodes.probes.kube_scheduler import kube_scheduler
from lab.release.cluster.nodes.probes.machine_approver import machine_approver
from lab.release.cluster.nodes.probes.machine_config import machine_config
from lab.release.cluster.nodes.probes.network import network
from lab.release.cluster.nodes.probes.storage import storage
from lab.release.cluster.nodes.probes.view import View

#: Each ClusterOperator of the lab and its probe.
PROBES: dict[str, Callable[[View], Finding]] = {
    "etcd": etcd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "kube-scheduler": kube_scheduler,
    "network": network,
    "dns": dns,
    "machine-config": machine_config,
    "machine-approver": machine_approver,
    "ingress": ingress,
    "console": console,
    "storage": storage,
}
