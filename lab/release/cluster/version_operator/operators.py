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
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Finding, operator_status, put
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import CONFIG, config_map, is_installed, read_config
from lab.release.cluster.nodes.probes.etcd import etcd
from lab.release.cluster.nodes.probes.kube_apiserver import kube_apiserver
from lab.release.cluster.nodes.probes.table import PROBES
from lab.release.cluster.nodes.probes.view import View, pod_ready
from lab.release.cluster.nodes.revisions import OPERATOR, Revisions, Wanted
from lab.release.cluster.nodes.scaling import Scaling
from lab.release.cluster.version_operator import rollout as parts
from lab.release.cluster.version_operator.sync import Rollout, namespaces
from lab.release.cluster.version_operator.topology import Transition

log = logging.getLogger(__name__)

#: Seconds between rounds: while nodes are being given their parts; at most, while something is not good; when all is.
SCALING_SECONDS = 4.0
BUSY_SECONDS = 5.0
CALM_SECONDS = 40.0
#: The same while a release is rolled out: each operator's turn ends with a look.
ROLLOUT_SECONDS = 3.0
#: Between two looks at everything while nodes are being given their parts: each read asks all etcd members, which are
#: starting meanwhile.
LOOK_SECONDS = 30.0
#: The operators that tell of the static pods' revisions.
REVISED = ("etcd", "kube-apiserver")


def view(kube: Kube, files: Path, before: View | None = None) -> View:
    """Read the cluster once; names and configuration, which stay, only where `before` lacks them. Raises ApiError."""
    nodes, pods, now = kube.list("v1", "Node"), kube.list("v1", "Pod"), dt.datetime.now(dt.UTC)
    installed = (before is not None and before.installed) or is_installed(kube)
    if before is not None and before.domain and before.apps_domain and before.config is not None:
        return replace(before, nodes=nodes, pods=pods, now=now, installed=installed)
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
        installed=installed,
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
    have = node["metadata"].get("annotations") or {}
    patch: Object = {}
    meta: Object = {}
    if missing := {k: v for k, v in want.items() if k not in labels}:
        meta["labels"] = missing
    if f"{PREFIX}/currentConfig" not in have:  # from then on the machine-config controller and daemon say
        meta["annotations"] = notes
    if meta:
        patch["metadata"] = meta
    taint = {"key": f"node-role.kubernetes.io/{role}", "effect": "NoSchedule"}
    taints = node["spec"].get("taints") or []
    reserved = role == "arbiter" or (role == "master" and not schedulable_masters)
    if reserved and not any(t["key"] == taint["key"] for t in taints):
        patch["spec"] = {"taints": [*taints, taint]}
    return patch


def control_plane(kube: Kube, files: Path) -> str:
    """Return what the control plane lacks, for whoever is about to take one of its nodes away; nothing when every
    member of etcd and every API server serves. Raises ApiError."""
    seen = view(kube, files)
    return "; ".join(finding.message for finding in (etcd(seen), kube_apiserver(seen)) if not finding.good)


class Operators:
    """The loop; `step` is one round, `run` repeats it."""

    def __init__(
        self, kube: Kube, files: Path, images: Images, release_image: str, *, rollout: Rollout | None = None
    ) -> None:
        self._kube = kube
        self._rollout = rollout or Rollout(begun=None)
        self._files = files
        self._images = images
        self._release_image = release_image
        self._versions = [{"name": "operator", "version": images.version}]
        self._bad_since: dict[str, float] = {}
        self._findings: dict[str, Finding] = {}
        self._looked = -LOOK_SECONDS
        self._seen: View | None = None
        self._scaling: Scaling | None = None
        self._transition = Transition(kube)
        self._revisions: Revisions | None = None
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

    def _scale(self, seen: View) -> bool:
        """Control plane and ingress onto nodes that joined, and revisions of static pods onto all; True while that
        goes on."""
        if seen.config is None:
            return False
        wanted = Wanted(seen.config, self._images, self._release_image)
        if self._revisions is None:
            self._revisions = Revisions(self._kube, wanted)
        try:
            begun = self._rollout.begun
            # A release's static pods come at the turn of the first operator that has any.
            revising = (begun is None or REVISED[0] in begun) and self._revisions.step(seen)
            if seen.config.in_place and len(seen.etcd_nodes) < 2 and self._scaling is None:
                return revising
            if self._scaling is None:
                self._scaling = Scaling(self._kube, self._files, wanted, self._revisions)
            return self._scaling.step(seen) or revising
        except (ClusterError, OSError) as error:
            log.warning("scaling: %s", error)
            return True

    def _etcd_runs(self, seen: View) -> None:
        """etcds/cluster of one node: that it runs in the cluster (§2.5)."""
        obj = self._kube.get(OPERATOR, "Etcd", "cluster") if self._scaling is None else None
        if obj is None:
            return
        running = any(
            p["metadata"]["namespace"] == "openshift-etcd"
            and p["metadata"]["name"].startswith("etcd-")
            and pod_ready(p)
            for p in seen.pods
        )
        enough, reason = ("True", "EnoughEtcdMembers") if running else ("False", "NotEnoughEtcdMembers")
        status = dict(obj.get("status") or {})
        status["conditions"] = put(
            status.get("conditions") or [], "EtcdRunningInCluster", enough, seen.now, reason=reason
        )
        self._write_status(obj, status)

    def step(self) -> dict[str, Finding]:
        """One round: nodes' roles and scaling, then every operator that exists; the last findings.

        While nodes are being given their parts only each LOOK_SECONDS more than these. Raises ApiError when the API is
        away.
        """
        seen = self._seen = view(self._kube, self._files, self._seen)
        self._roles(seen)
        self.scaling = self._scale(seen)
        self._etcd_runs(seen)
        now = time.monotonic()
        if not self.scaling or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._findings = self._look(seen)
        return self._findings

    def _look(self, seen: View) -> dict[str, Finding]:
        findings: dict[str, Finding] = {}
        workloads = self._workloads()
        for listed in self._kube.list(CONFIG, "ClusterOperator"):
            name = listed["metadata"]["name"]
            probe = PROBES.get(name)
            if probe is None:
                continue
            finding = probe(seen)
            if self._revisions is not None and name in REVISED:
                finding = self._revisions.finding(finding)
            lag = self._lag(listed, seen, workloads)
            # A pod that is being replaced makes nobody Degraded; a revision that was taken back does.
            replaced = finding.condition == "Degraded" and not finding.good and name not in REVISED
            if lag and (replaced or (finding.good and finding.condition == "Available")):
                bad = parts.stuck(seen.pods, namespaces(listed))
                text = "; ".join(lag) + (f": {bad}" if bad else "")
                reason = "RolloutStuck" if bad else "RolloutInProgress"
                finding = Finding(False, text, reason, "Degraded" if bad else "Progressing")
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
            old = listed.get("status") or {}
            begun = self._rollout.begun
            reached = begun is None or (name in begun and not lag)
            versions = self._versions if reached else old.get("versions") or []
            status = operator_status(old, finding, bad_seconds, seen.now, versions=versions)
            self._write_status(full, status)
        self._transition.step(seen, findings)
        self.good = len(findings) == len(PROBES) and all(f.good for f in findings.values())
        return findings

    def _workloads(self) -> list[tuple[str, Object]]:
        """Read the Deployments and DaemonSets while a release is rolled out, and the rest of the time none."""
        if self._rollout.begun is None:
            return []
        return [(kind, obj) for kind in ("Deployment", "DaemonSet") for obj in self._kube.list("apps/v1", kind)]

    def _lag(self, operator: Object, seen: View, workloads: list[tuple[str, Object]]) -> list[str]:
        """Return how far an operator whose turn has come is from the release that is rolled out; empty when it is
        there, and while none is."""
        begun = self._rollout.begun
        if begun is None or operator["metadata"]["name"] not in begun or seen.config is None:
            return []
        own = namespaces(operator)
        lag = [
            text
            for kind, obj in workloads
            if obj["metadata"]["namespace"] in own and (text := parts.workload_lag(kind, obj))
        ]
        wanted = Wanted(seen.config, self._images, self._release_image)
        outdated = parts.outdated(wanted, seen.nodes, seen.pods, own)
        return lag + [f"{mirror['metadata']['name']} is of another release" for *_, mirror in outdated]

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
        if self._rollout.begun is not None:
            return pace.pause(2 * worked, ROLLOUT_SECONDS)
        if not self.scaling and not self.good:
            # Twice: whom it asks works about as much. What it waited for, such as an answer of a DNS server, does not
            # count: all wait for the last operator.
            return pace.pause(2 * worked, BUSY_SECONDS)
        return max((SCALING_SECONDS if self.scaling else CALM_SECONDS) - took, 2.0)
