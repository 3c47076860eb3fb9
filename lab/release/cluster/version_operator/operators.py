"""The lab's operators: one loop that probes the cluster and writes what it sees (reference/cluster.md §5.3, §9.4)."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.release.cluster import pace
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.ignition.machineconfig import PREFIX
from lab.release.cluster.kube.apply import apply
from lab.release.cluster.kube.client import METADATA, Kube, Object
from lab.release.cluster.kube.conditions import Finding, operator_status, put
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import CONFIG, config_map, read_config
from lab.release.cluster.nodes.probes.table import PROBES
from lab.release.cluster.nodes.probes.view import View, node_ready, pod_ready
from lab.release.cluster.nodes.scaling import Scaling, Wanted

log = logging.getLogger(__name__)

#: Seconds between rounds: while nodes are being given their parts; at most, while something is not good; when all is.
SCALING_SECONDS = 4.0
BUSY_SECONDS = 5.0
CALM_SECONDS = 40.0
#: Between two looks at everything while nodes are being given their parts: each read asks all etcd members, which are
#: starting meanwhile.
LOOK_SECONDS = 30.0
OPERATOR = "operator.openshift.io/v1"


def view(kube: Kube, files: Path, before: View | None = None) -> View:
    """Read the cluster once; names and configuration, which stay, only where `before` lacks them. Raises ApiError."""
    nodes, pods, now = kube.list("v1", "Node"), kube.list("v1", "Pod"), dt.datetime.now(dt.UTC)
    if before is not None and before.domain and before.apps_domain and before.config is not None:
        return replace(before, nodes=nodes, pods=pods, now=now)
    dns = kube.get(CONFIG, "DNS", "cluster") or {"spec": {}}
    ingress = kube.get(CONFIG, "Ingress", "cluster") or {"spec": {}}
    return View(
        kube=kube,
        files=files,
        now=now,
        nodes=nodes,
        pods=pods,
        config=read_config(kube),
        domain=str(dns["spec"].get("baseDomain", "")),
        apps_domain=str(ingress["spec"].get("domain", "")),
    )


def node_patch(node: Object, schedulable_masters: bool) -> Object:
    """Return the labels, MachineConfig annotations and taint that a node's role requires and it lacks; else {} (§4).

    The kubelet may not give itself roles, but reports with which rendered config it booted.
    """
    labels = node["metadata"].get("labels") or {}
    role, current = machineconfig.role_of(node), labels.get(machineconfig.CURRENT)
    if not role or not current:
        return {}
    roles = {"master": ["master", "control-plane"]}.get(role, [role])
    if role == "master" and schedulable_masters:
        roles.append("worker")
    want = {f"node-role.kubernetes.io/{name}": "" for name in roles}
    notes = {f"{PREFIX}/currentConfig": current, f"{PREFIX}/desiredConfig": current, f"{PREFIX}/state": "Done"}
    patch: Object = {}
    meta: Object = {}
    if missing := {k: v for k, v in want.items() if k not in labels}:
        meta["labels"] = missing
    if stale := {k: v for k, v in notes.items() if (node["metadata"].get("annotations") or {}).get(k) != v}:
        meta["annotations"] = stale
    if meta:
        patch["metadata"] = meta
    taint = {"key": f"node-role.kubernetes.io/{role}", "effect": "NoSchedule"}
    taints = node["spec"].get("taints") or []
    reserved = role == "arbiter" or (role == "master" and not schedulable_masters)
    if reserved and not any(t["key"] == taint["key"] for t in taints):
        patch["spec"] = {"taints": [*taints, taint]}
    return patch


def pool_status(pool: Object, nodes: list[Object], configs: list[Object], now: dt.datetime) -> Object:
    """Return the status of a MachineConfigPool from its nodes' annotations and all MachineConfigs.

    Nothing here renders again what was rendered for the installation: a pool whose MachineConfigs have changed since is
    degraded, and not updated, whatever its nodes run.
    """
    name, wanted = pool["metadata"]["name"], pool["spec"]["configuration"]["name"]
    of_pool = [n for n in nodes if machineconfig.role_of(n) == name]
    current = [n for n in of_pool if (n["metadata"].get("annotations") or {}).get(f"{PREFIX}/currentConfig") == wanted]
    ready = [n for n in current if node_ready(n)]
    changes = machineconfig.unrendered(pool, configs)
    updated = len(current) == len(of_pool) and not changes
    conditions = list((pool.get("status") or {}).get("conditions") or [])
    text = f"All nodes are updated with MachineConfig {wanted}" if updated else ""
    conditions = put(conditions, "Updated", "True" if updated else "False", now, reason="", message=text)
    conditions = put(conditions, "Updating", str(not updated and not changes), now)
    degraded, reason, text = "False", "", ""
    if changes:
        rule = "machine configs are rendered for the installation alone"
        degraded, reason, text = "True", "NotRendered", f"{', '.join(changes)} since {wanted} was rendered: {rule}"
    conditions = put(conditions, "NodeDegraded", "False", now)
    for kind in ("RenderDegraded", "Degraded"):
        conditions = put(conditions, kind, degraded, now, reason=reason, message=text)
    return {
        **(pool.get("status") or {}),
        "conditions": conditions,
        "configuration": pool["spec"]["configuration"],
        "machineCount": len(of_pool),
        "updatedMachineCount": len(current),
        "readyMachineCount": len(ready),
        "unavailableMachineCount": len(of_pool) - len(ready),
        "degradedMachineCount": 0,
    }


class Operators:
    """The loop; `step` is one round, `run` repeats it."""

    def __init__(self, kube: Kube, files: Path, images: Images, release_image: str) -> None:
        self._kube = kube
        self._files = files
        self._images = images
        self._release_image = release_image
        self._versions = [{"name": "operator", "version": images.version}]
        self._bad_since: dict[str, float] = {}
        self._findings: dict[str, Finding] = {}
        self._looked = -LOOK_SECONDS
        self._seen: View | None = None
        self._scaling: Scaling | None = None
        self.good = False
        self.scaling = False

    def _write_status(self, obj: Object, status: Mapping[str, Any]) -> None:
        if (obj.get("status") or {}) != status:
            self._kube.replace({**obj, "status": dict(status)}, "status")

    def _roles(self, seen: View) -> None:
        """Give nodes their roles, which pods wait for that run on workers only."""
        schedulable = seen.config is not None and seen.config.schedulable_masters
        for node in seen.nodes if seen.config else ():
            if patch := node_patch(node, schedulable):
                self._kube.merge_patch({"apiVersion": "v1", "kind": "Node", "metadata": node["metadata"]}, patch)
                log.info("Node %s was given its role: %s", node["metadata"]["name"], sorted(patch))

    def _pools(self, seen: View) -> None:
        configs = self._kube.list(machineconfig.API, "MachineConfig", accept=METADATA)
        for pool in self._kube.list(machineconfig.API, "MachineConfigPool"):
            full = {"apiVersion": machineconfig.API, "kind": "MachineConfigPool", **pool}
            self._write_status(full, pool_status(pool, seen.nodes, configs, seen.now))

    def _scale(self, seen: View) -> bool:
        """Control plane and ingress onto nodes that joined; True while that goes on. A cluster of one needs none."""
        if seen.config is None or seen.config.single_node:
            return False
        if self._scaling is None:
            self._scaling = Scaling(self._kube, self._files, Wanted(seen.config, self._images, self._release_image))
        try:
            return self._scaling.step(seen)
        except (ClusterError, OSError) as error:
            log.warning("scaling: %s", error)
            return True

    def _static_pod_operators(self, seen: View) -> None:
        """etcds/cluster and kubeapiservers/cluster: which nodes run revision 1 (§2.3, §2.5)."""
        for kind, name in (("Etcd", "etcd"), ("KubeAPIServer", "kube-apiserver")):
            obj = self._kube.get(OPERATOR, kind, "cluster")
            if obj is None:
                continue
            running = sorted(
                str(p["spec"]["nodeName"])
                for p in seen.pods
                if p["metadata"]["namespace"] == f"openshift-{name}"
                and p["metadata"]["name"].startswith(f"{name}-")  # not what installs it
                and pod_ready(p)
                and p["spec"].get("nodeName")
            )
            status = dict(obj.get("status") or {})
            status["nodeStatuses"] = [{"nodeName": node, "currentRevision": 1} for node in running]
            if kind == "Etcd" and self._scaling is None:
                enough = "True" if running else "False"
                reason = "EnoughEtcdMembers" if running else "NotEnoughEtcdMembers"
                status["conditions"] = put(
                    status.get("conditions") or [], "EtcdRunningInCluster", enough, seen.now, reason=reason
                )
            self._write_status(obj, status)

    def step(self) -> dict[str, Finding]:
        """One round: nodes' roles and scaling, then pools and every operator that exists; the last findings.

        While nodes are being given their parts only each LOOK_SECONDS more than these. Raises ApiError when the API is
        away.
        """
        seen = self._seen = view(self._kube, self._files, self._seen)
        self._roles(seen)
        self.scaling = self._scale(seen)
        self._static_pod_operators(seen)
        now = time.monotonic()
        if not self.scaling or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._findings = self._look(seen)
        return self._findings

    def _look(self, seen: View) -> dict[str, Finding]:
        self._pools(seen)
        findings: dict[str, Finding] = {}
        for listed in self._kube.list(CONFIG, "ClusterOperator"):
            name = listed["metadata"]["name"]
            probe = PROBES.get(name)
            if probe is None:
                continue
            finding = probe(seen)
            findings[name] = finding
            if finding.good:
                self._bad_since.pop(name, None)
            elif name not in self._bad_since:
                self._bad_since[name] = time.monotonic()
                log.info("%s: %s", name, finding.message)
            bad_seconds = time.monotonic() - self._bad_since.get(name, time.monotonic())
            if name == "ingress":
                self._ingress(seen, finding.good)
            full = {"apiVersion": CONFIG, "kind": "ClusterOperator", **listed}
            status = operator_status(
                listed.get("status") or {}, finding, bad_seconds, seen.now, versions=self._versions
            )
            self._write_status(full, status)
        self.good = len(findings) == len(PROBES) and all(f.good for f in findings.values())
        return findings

    def _ingress(self, seen: View, good: bool) -> None:
        if good:
            # before the operator is Available: installers read it right after (§5.4)
            ca = (self._files / "router-ca.crt").read_text()
            apply(self._kube, config_map("openshift-config-managed", "default-ingress-cert", {"ca-bundle.crt": ca}))

    def run(self, stop: threading.Event) -> None:
        """Repeat rounds until ``stop``; while the API is unreachable, log it and go on."""
        while not stop.is_set():
            started, worked = time.monotonic(), time.process_time()
            try:
                self.step()
            except ClusterError as error:
                log.warning("operators: %s", error)
            except (KeyError, TypeError, ValueError, OSError):
                # one malformed object must not end the loop that reports on the whole cluster
                log.exception("operators: this round failed")
            stop.wait(self.pause(time.monotonic() - started, time.process_time() - worked))

    def pause(self, took: float, worked: float) -> float:
        """Seconds until the next round, after one of ``took`` seconds in which this process worked for ``worked``."""
        if not self.scaling and not self.good:
            # Twice: whom it asks works about as much. What it waited for, such as an answer of a DNS server, does not
            # count: all wait for the last operator.
            return pace.pause(2 * worked, BUSY_SECONDS)
        return max((SCALING_SECONDS if self.scaling else CALM_SECONDS) - took, 2.0)
