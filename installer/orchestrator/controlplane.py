"""Waiting for the control plane: on the bootstrap host through the API, on workers through the service."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from installer.assisted import inventory
from installer.assisted.enums import HostStatus, Role, Stage
from installer.assisted.errors import ClientError
from installer.hostsys.system import HostSystem
from installer.orchestrator.errors import StageError
from installer.orchestrator.kube import KubeApi, Node
from installer.orchestrator.report import Reporter

log = logging.getLogger("assisted-installer")
KUBECONFIG = "/opt/openshift/auth/kubeconfig"
POLL_SECONDS = 5.0
WORKER_POLL_SECONDS = 30.0
CONTROLLER_EVENT = "AssistedControllerIsReady"
NAMESPACE = "assisted-installer"
# The kind of a host that is added to an installed cluster.
ADDED = "AddToExistingClusterHost"
Sleep = Callable[[float], None]


def wanted_masters(control_plane_count: int) -> int:
    """Masters besides this one that must be Ready before the bootstrap host installs itself."""
    return min(2, control_plane_count - 1)


def _node_of(host: dict[str, Any], nodes: list[Node]) -> Node | None:
    """Return the node that a host has become: by name, else by address, as a node may be called by its FQDN."""
    name = str(host.get("requested_hostname") or "").lower()
    if node := next((node for node in nodes if node.name == name), None):
        return node
    try:
        nics = inventory.decode(host.get("inventory") or "{}").interfaces
    except msgspec.DecodeError as error:
        log.warning("inventory of host %s: %s", host["id"], error)
        return None
    own = {text.split("/")[0] for nic in nics for text in (*nic.ipv4_addresses, *nic.ipv6_addresses)}
    return next((node for node in nodes if own.intersection(node.internal_addresses)), None)


def _update_others(reporter: Reporter, hosts: list[dict[str, Any]], nodes: list[Node]) -> None:
    """Report which other hosts have joined: they no longer report for themselves."""
    for host in hosts:
        node = _node_of(host, nodes)
        stage = (host.get("progress") or {}).get("current_stage")
        if node is None or host["id"] == reporter.host_id or stage not in (Stage.REBOOTING, Stage.CONFIGURING):
            continue
        target = Stage.JOINED if node.is_ready else Stage.CONFIGURING
        if target == stage:
            continue
        try:
            reporter.client.report_progress(reporter.infra_env_id, str(host["id"]), target)
        except ClientError as error:
            log.warning("%s", error)


def wait_masters(host: HostSystem, reporter: Reporter, count: int, sleep: Sleep = time.sleep) -> None:
    """Until enough masters are Ready, and an arbiter where there are any; the service's stage timeout bounds it."""
    wanted, last = wanted_masters(count), ""
    api: KubeApi | None = None
    while True:
        try:
            api = api or KubeApi(host.path(KUBECONFIG))
            nodes = api.nodes()
            hosts = reporter.hosts()
            _update_others(reporter, hosts, nodes)
            ready = sum(1 for node in nodes if node.is_master and node.is_ready)
            wants_arbiter = any(host.get("role") == Role.ARBITER for host in hosts)
            arbiter = any(node.is_arbiter and node.is_ready for node in nodes)
            if ready >= wanted and (arbiter or not wants_arbiter):
                api.close()
                return
            state = f"{ready} of {wanted} masters are ready" + (", no arbiter" if wants_arbiter and not arbiter else "")
        except StageError as error:
            state = str(error)
        if state != last:
            log.info("waiting for control plane: %s", state)
            last = state
        sleep(POLL_SECONDS)


def wait_etcd(host: HostSystem, sleep: Sleep = time.sleep) -> None:
    """Until progress.service has ended: etcd no longer needs the bootstrap member."""
    while host.run("systemctl", "is-active", "progress.service", check=False).strip() != "inactive":
        sleep(POLL_SECONDS)


def wait_controller(host: HostSystem, sleep: Sleep = time.sleep) -> None:
    """Until the controller's pod has said that it is ready."""
    api: KubeApi | None = None
    while True:
        try:
            api = api or KubeApi(host.path(KUBECONFIG))
            if api.has_event(NAMESPACE, CONTROLLER_EVENT):
                api.close()
                return
        except StageError as error:
            log.info("waiting for controller: %s", error)
        sleep(POLL_SECONDS)


def wait_workers(reporter: Reporter, sleep: Sleep = time.sleep) -> None:
    """Until no worker needs this service any more: all are past waiting for the control plane."""
    early = (None, Stage.STARTING, Stage.INSTALLING, Stage.WRITING, Stage.WAITING_CONTROL_PLANE)
    while True:
        waiting = [
            str(host.get("requested_hostname"))
            for host in reporter.hosts()
            if host.get("role") == Role.WORKER
            and host.get("status") != HostStatus.ERROR
            and (host.get("progress") or {}).get("current_stage") in early
        ]
        if not waiting:
            return
        log.info("waiting for workers %s to reboot", ", ".join(waiting))
        sleep(WORKER_POLL_SECONDS)


def wait_ready_masters_by_service(reporter: Reporter, sleep: Sleep = time.sleep) -> None:
    """Wait, on a worker, until two control-plane hosts have joined, as the service reports it.

    One that is added to a cluster has nothing to wait for: the control plane is there, and may be of no hosts of the
    service's.
    """
    while True:
        hosts = reporter.hosts()
        joined = [
            host
            for host in hosts
            if host.get("role") in (Role.MASTER, Role.ARBITER)
            and (host.get("progress") or {}).get("current_stage") in (Stage.JOINED, Stage.DONE)
        ]
        added = any(host.get("id") == reporter.host_id and host.get("kind") == ADDED for host in hosts)
        if len(joined) >= 2 or added:
            return
        sleep(POLL_SECONDS)
