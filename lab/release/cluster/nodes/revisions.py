"""Revisions of the control plane's static pods: numbered, onto a node after the other, and back by themselves
(docs/certificates.md; OpenShift's library-go staticpod, kubeadm's phases/upgrade/staticpods.go).

Manifests, images, files that are read at a start alone, the members of etcd that the API servers ask, and
`spec.forceRedeploymentReason` make up the wanted content.
When its hash differs from that of the latest revision, there is a new one. A node gets it by an installer pod, which
takes it back when it does not answer in time; the next node follows when the pods of the one before have the new
content and are Ready. All static pods share one number, and a pod whose own content is the same goes on running.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from installer.common.formats import yamltext
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import Finding, put
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import config_map
from lab.release.cluster.nodes.probes.view import View, address, node_ready, pod_ready
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.assets import READ_AT_START
from lab.release.cluster.pods.installerpod import (
    CONTROL_PLANE,
    INSTALLER,
    NAMESPACE,
    PERSONAL,
    files_of,
    installer_pod,
    is_busy,
    is_installer,
    manifests,
    pods_map_name,
    resource_secret,
)
from lab.release.cluster.pods.pod import CONTENT, Stage

log = logging.getLogger(__name__)

OPERATOR = "operator.openshift.io/v1"
STATUS = "revision-status-"
#: The annotation of a node's manifests that says which members its etcd has joined.
PEERS = "node0.example/initial-cluster"
#: The ConfigMap with the addresses of etcd's voting members; and what says which of them a revision's API servers
#: ask, as a key of its status, and which a node's asks, as an annotation of its manifests.
ENDPOINTS, SERVERS, ASKED = "etcd-endpoints", "etcd-servers", "node0.example/etcd-servers"
#: Revisions whose objects stay, as OpenShift's operators keep them.
KEPT = 5
#: The operators whose static pods these are, with the pod of each that is looked at.
KINDS = {"Etcd": "etcd", "KubeAPIServer": "kube-apiserver"}


@dataclass(frozen=True)
class Wanted:
    """The desired cluster."""

    config: InstallConfig
    images: Images
    release_image: str


def is_revision(obj: Object) -> bool:
    """Return whether a ConfigMap has what one of a revision has."""
    data = obj.get("data") or {}
    return data.keys() >= {"revision", "hash", "reason"} and str(data["revision"]).isdecimal()


def at_start(files: Mapping[str, str]) -> dict[str, str]:
    """Return those of the files that make a revision."""
    return {path: text for path, text in files.items() if path in READ_AT_START}


def suffice(servers: Collection[str], members: int) -> bool:
    """Return whether an API server that asks these of so many members has an answer while most of them answer."""
    return len(servers) > (members - 1) // 2


def digest(wanted: Wanted, files: Mapping[str, str], reason: str, servers: Sequence[str] = ()) -> str:
    """Return the hash of a revision: the same for all nodes, so made for one that has no name and no address."""
    stages = staticpods.control_plane(wanted.config, wanted.release_image, "192.0.2.1", "node", servers=servers)
    texts = manifests(stages, wanted.images, at_start(files), reason)
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class NodeState:
    """A node's revisions: the current one, the one being installed (0: none), and the last that was rolled back."""

    current: int = 0
    target: int = 0
    failed: int = 0
    reasons: tuple[str, ...] = ()

    @classmethod
    def read(cls, status: Mapping[str, object]) -> NodeState:
        """Return the state that an entry of `status.nodeStatuses` describes."""

        def number(key: str) -> int:
            return int(str(status.get(key) or 0))

        reasons = status.get("lastFailedRevisionErrors")
        return cls(
            number("currentRevision"),
            number("targetRevision"),
            number("lastFailedRevision"),
            tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        )

    def entry(self, node: str) -> Object:
        """Return the entry of `status.nodeStatuses`."""
        entry: Object = {"nodeName": node, "currentRevision": self.current}
        if self.target:
            entry["targetRevision"] = self.target
        if self.failed:
            entry |= {"lastFailedRevision": self.failed, "lastFailedReason": "InstallerFailed"}
            entry["lastFailedRevisionErrors"] = list(self.reasons)
        return entry


def _phase(installers: Mapping[str, Object], number: int, node: str) -> str:
    pod = installers.get(f"{INSTALLER}{number}-{node}") or {}
    return str((pod.get("status") or {}).get("phase", ""))


def next_node(states: Mapping[str, NodeState], ready: Sequence[str], latest: int) -> str:
    """Return the node that is to have the latest revision next; empty while another is given one, when one has taken
    this one back (it would be no better elsewhere), and when there is none."""
    if any(state.target or state.failed == latest for state in states.values()):
        return ""
    old = [name for name in ready if 0 < states[name].current < latest]
    return min(old, key=lambda name: (states[name].current, name), default="")


def progress(states: Mapping[str, NodeState]) -> str:
    """Return how many nodes are at which revision, in OpenShift's words."""
    counts: dict[int, int] = {}
    for state in states.values():
        counts[state.current] = counts.get(state.current, 0) + 1
    return "; ".join(
        f"{count} node{' is' if count == 1 else 's are'} at revision {number}"
        for number, count in sorted(counts.items())
    )


class Revisions:
    """The operator's work; `step` does what can be done now."""

    def __init__(self, kube: Kube, wanted: Wanted) -> None:
        self._kube = kube
        self._wanted = wanted
        self._latest: Object | None = None
        self._inputs: tuple[dict[str, str], str, Sequence[str]] | None = None
        self._digest = ""
        self._states: dict[str, NodeState] = {}

    @property
    def latest(self) -> int:
        """The number of the latest revision; 0 before the first."""
        return int(self._latest["data"]["revision"]) if self._latest else 0

    def step(self, view: View) -> bool:
        """One step; True while a revision is on its way to a node. Raises ClusterError."""
        objects = {kind: self._kube.get(OPERATOR, kind, "cluster") or {} for kind in KINDS}
        entries = (objects["Etcd"].get("status") or {}).get("nodeStatuses") or []
        self._states = {str(entry["nodeName"]): NodeState.read(entry) for entry in entries}
        reasons = [str((obj.get("spec") or {}).get("forceRedeploymentReason") or "") for obj in objects.values()]
        self._renew("\n".join(filter(None, reasons)))
        nodes = {str(node["metadata"]["name"]): node for node in view.etcd_nodes}
        self._states = {name: self._follow(view, name, self._states.get(name, NodeState())) for name in nodes}
        ready = [name for name, node in nodes.items() if node_ready(node)]
        joining = any(is_busy(pod) for pod in view.pods)
        if (chosen := next_node(self._states, ready, self.latest)) and not joining:
            self._states[chosen] = self._begin(nodes[chosen], self._states[chosen])
        for kind, obj in objects.items():
            if obj:  # its definition may be on its way
                self._report(view, kind, obj)
        return any(state.target for state in self._states.values())

    def _renew(self, reason: str) -> None:
        """Make a new revision when what is wanted differs from the latest."""
        listed = self._kube.list("v1", "ConfigMap", NAMESPACE, "node0.example/revision")
        statuses = sorted(filter(is_revision, listed), key=lambda obj: int(obj["data"]["revision"]))
        self._latest = statuses[-1] if statuses else None
        stored = self._kube.get("v1", "Secret", CONTROL_PLANE, NAMESPACE)
        if stored is None:
            return
        files = files_of(stored)
        endpoints = self._kube.get("v1", "ConfigMap", ENDPOINTS, NAMESPACE) or {}
        servers = sorted((endpoints.get("data") or {}).values())
        latest = self._latest["data"] if self._latest else {}
        asked = [ip for ip in latest.get(SERVERS, "").split(",") if ip]
        if not set(asked) <= set(servers) or not suffice(asked, len(servers)):
            asked = servers
        # A longer list alone is worth no restart: it comes with the next revision.
        if latest.get("hash") == self._hash(files, reason, asked):
            return
        wanted = self._hash(files, reason, servers)
        number = self.latest + 1
        content = {"revision": str(number), "hash": wanted, "reason": reason, SERVERS: ",".join(servers)}
        status = config_map(NAMESPACE, f"{STATUS}{number}", content)
        status["metadata"]["labels"] = {"node0.example/revision": ""}
        # First what belongs to it: once the revision is there, nothing of it is missing.
        self._kube.create(resource_secret(f"{CONTROL_PLANE}-{number}", at_start(files)))
        if self._kube.create(status) is not None:
            log.info("Revision %d of the static pods: %s", number, reason or "their content has changed")
        self._latest = status
        at_work = {state.target for state in self._states.values()}
        for old in statuses[: max(len(statuses) + 1 - KEPT, 0)]:
            if (forgotten := int(old["data"]["revision"])) not in at_work:
                self._forget(forgotten)

    def _hash(self, files: Mapping[str, str], reason: str, servers: Sequence[str]) -> str:
        """Return a revision's hash, which takes 20 ms to find; the last is kept."""
        inputs = (at_start(files), reason, servers)
        if inputs != self._inputs:
            self._inputs, self._digest = inputs, digest(self._wanted, files, reason, servers)
        return self._digest

    def _forget(self, number: int) -> None:
        """Remove the objects of an old revision; installer pods stay as long as they are a node's only ones."""
        for node, state in self._states.items():
            if state.current != number:
                self._kube.delete("v1", "ConfigMap", pods_map_name(node, number), NAMESPACE)
                self._kube.delete("v1", "Pod", f"{INSTALLER}{number}-{node}", NAMESPACE)
                self._kube.delete("v1", "Secret", f"{PERSONAL}{node}-{number}", NAMESPACE)
        self._kube.delete("v1", "Secret", f"{CONTROL_PLANE}-{number}", NAMESPACE)
        self._kube.delete("v1", "ConfigMap", f"{STATUS}{number}", NAMESPACE)

    def install(
        self,
        node: Object,
        stages: Sequence[Stage],
        sources: Sequence[Object],
        peers: str,
        *,
        servers: Sequence[str] = (),
    ) -> None:
        """Give a node that joins its first static pods, of the latest revision, and the files of these Secrets; its
        API server asks ``servers``, addresses of etcd's voters now. Raises ClusterError."""
        if self._latest is None:
            raise ClusterError(f"Secret {NAMESPACE}/{CONTROL_PLANE} is not there: no node can be given static pods")
        name = str(node["metadata"]["name"])
        self._create(name, stages, sources, {PEERS: peers, ASKED: ",".join(servers)}, before=0)
        log.info("Node %s gets its static pods: %s", name, ", ".join(p.name for s in stages for p in s.pods))

    def asking(self, view: View, address_: str) -> list[str]:
        """Return the Ready nodes whose API servers ask the member of etcd at an address."""
        names = [str(node["metadata"]["name"]) for node in view.masters if node_ready(node)]
        return [name for name in names if address_ in self._asked(name, self._states.get(name, NodeState()))]

    def _asked(self, node: str, state: NodeState) -> set[str]:
        maps = [
            self._kube.get("v1", "ConfigMap", pods_map_name(node, number), NAMESPACE)
            for number in (state.current, state.target)
            if number
        ]
        notes = [found["metadata"].get("annotations") or {} for found in maps if found]
        return {ip for note in notes for ip in note.get(ASKED, "").split(",")}

    def _create(
        self, name: str, stages: Sequence[Stage], sources: Sequence[Object], notes: dict[str, str], *, before: int
    ) -> None:
        assert self._latest is not None
        number, reason = self.latest, self._latest["data"]["reason"]
        files = {path: text for source in sources for path, text in files_of(source).items()}
        texts = manifests(stages, self._wanted.images, at_start(files), reason)
        pods = config_map(NAMESPACE, pods_map_name(name, number), texts)
        pods["metadata"]["annotations"] = notes
        self._kube.create(pods)
        pod = installer_pod(name, self._wanted.release_image, sources, revision=number, before=before)
        self._kube.create(pod)

    def _stages(self, node: Object, peers: str, servers: Sequence[str]) -> list[Stage]:
        name, ip = str(node["metadata"]["name"]), address(node).strip("[]")
        wanted = self._wanted
        if machineconfig.role_of(node) == "arbiter":
            return staticpods.arbiter(wanted.config, ip, name, peers)
        stages = staticpods.control_plane(wanted.config, wanted.release_image, ip, name, peers=peers, servers=servers)
        if wanted.config.fenced:
            stages[0] = Stage("etcd", [staticpods.etcd_tools()])  # pacemaker runs etcd
        return stages

    def _begin(self, node: Object, state: NodeState) -> NodeState:
        """Give a node the latest revision. One whose manifests are gone has lost its member of etcd, and joins anew
        before that; those of one node's first revision came with its Ignition config."""
        assert self._latest is not None
        name, ip = str(node["metadata"]["name"]), address(node).strip("[]")
        before = self._kube.get("v1", "ConfigMap", pods_map_name(name, state.current), NAMESPACE)
        if before is None and not (self._wanted.config.single_node and state.current == 1):
            return NodeState()
        peers = ((before or {"metadata": {}})["metadata"].get("annotations") or {}).get(PEERS, "")
        source = self._kube.get("v1", "Secret", f"{CONTROL_PLANE}-{self.latest}", NAMESPACE)
        if source is None:
            raise ClusterError(f"Secret {NAMESPACE}/{CONTROL_PLANE}-{self.latest} is not there: node {name} waits")
        servers = [other for other in self._latest["data"].get(SERVERS, "").split(",") if other not in ("", ip)]
        stages = self._stages(node, peers, servers)
        if machineconfig.role_of(node) == "arbiter":
            # Nothing else writes its own certificate, which may have been renewed.
            own = files_of(self._kube.get("v1", "Secret", PERSONAL + name, NAMESPACE) or {"metadata": {}})
            own |= {path: text for path, text in files_of(source).items() if path.startswith("etcd-certs/")}
            source = resource_secret(f"{PERSONAL}{name}-{self.latest}", own)
            self._kube.create(source)
        self._create(name, stages, [source], {PEERS: peers, ASKED: ",".join(servers)}, before=state.current)
        log.info("Node %s gets revision %d of its static pods", name, self.latest)
        return NodeState(state.current, self.latest, state.failed, state.reasons)

    def _follow(self, view: View, name: str, state: NodeState) -> NodeState:
        """Return a node's state by its installer pod, and by what it runs."""
        installers = {p["metadata"]["name"]: p for p in view.pods if is_installer(p)}
        if not state.current and not state.target:
            done = [n for n in range(1, self.latest + 1) if _phase(installers, n, name) == "Succeeded"]
            # One node's first revision came with its Ignition config.
            number = done[-1] if done else 1 if self._wanted.config.in_place and self.latest else 0
            return NodeState(number) if number and self._runs(view, name, KINDS["Etcd"]) else state
        if not state.target:
            return state
        pod, phase = installers.get(f"{INSTALLER}{state.target}-{name}", {}), _phase(installers, state.target, name)
        if not pod:  # somebody has deleted it, or its making failed
            return NodeState(state.current, 0, state.failed, state.reasons)
        if phase == "Succeeded" and self._all_run(view, name, state.target):
            log.info("Node %s runs revision %d", name, state.target)
            return NodeState(state.target)
        if phase != "Failed":
            return state
        last_words = [
            (status.get("state") or {}).get("terminated", {}).get("message", "")
            for status in pod["status"].get("containerStatuses") or []
        ]
        if not any("rolled back" in text for text in last_words):
            # It lost its power, or its disk was full: the pod does again what is not done.
            log.warning("%s failed and is made anew: %s", pod["metadata"]["name"], last_words)
            self._kube.delete("v1", "Pod", pod["metadata"]["name"], NAMESPACE)
            return NodeState(state.current, 0, state.failed, state.reasons)
        log.error("Node %s: %s", name, last_words)
        return NodeState(state.current, 0, state.target, tuple(text.strip() for text in last_words))

    def _runs(self, view: View, node: str, pod: str) -> bool:
        return any(
            p["spec"].get("nodeName") == node and p["metadata"]["name"] == f"{pod}-{node}" and pod_ready(p)
            for p in view.pods
        )

    def _all_run(self, view: View, node: str, number: int) -> bool:
        """Return whether the node's static pods are Ready and have the content of a revision."""
        stored = self._kube.get("v1", "ConfigMap", pods_map_name(node, number), NAMESPACE) or {"data": {}}
        wanted = {}
        for text in stored["data"].values():
            meta = yamltext.load(text)["metadata"]
            wanted[(meta["namespace"], f"{meta['name']}-{node}")] = meta["annotations"][CONTENT]
        running = {
            (p["metadata"]["namespace"], p["metadata"]["name"]): (p["metadata"].get("annotations") or {}).get(CONTENT)
            for p in view.pods
            if pod_ready(p)
        }
        return bool(wanted) and all(running.get(key) == content for key, content in wanted.items())

    def _report(self, view: View, kind: str, obj: Object) -> None:
        """Write an operator's nodeStatuses, and how far the latest revision has come."""
        masters = {str(node["metadata"]["name"]) for node in view.masters}
        states = {name: state for name, state in self._states.items() if kind == "Etcd" or name in masters}
        entries = []
        for name, state in sorted(states.items()):
            first = state.current or (self.latest if self._runs(view, name, KINDS[kind]) else 0)
            if first:
                entries.append(NodeState(first, state.target, state.failed, state.reasons).entry(name))
        status = dict(obj.get("status") or {})
        status |= {"latestAvailableRevision": self.latest, "nodeStatuses": entries}
        failure, conditions = self.failure, status.get("conditions") or []
        moving, reason = str(self._moving), "InstallerPodFailed" if failure else ""
        conditions = put(conditions, "NodeInstallerProgressing", moving, view.now, message=progress(states))
        degraded = str(bool(failure))
        conditions = put(conditions, "NodeInstallerDegraded", degraded, view.now, reason=reason, message=failure)
        status["conditions"] = conditions
        if status != (obj.get("status") or {}):
            self._kube.replace({**obj, "apiVersion": OPERATOR, "kind": kind, "status": status}, "status")

    @property
    def _moving(self) -> bool:
        return any(state.target for state in self._states.values())

    @property
    def failure(self) -> str:
        """The words of nodes that took the latest revision back; empty when none has."""
        failing = {name: state for name, state in self._states.items() if state.failed and state.failed == self.latest}
        if not failing:
            return ""
        texts = "; ".join(f"{name}: {' '.join(state.reasons)}" for name, state in sorted(failing.items()))
        return f"{len(failing)} nodes are failing on revision {self.latest}: {texts}"

    def finding(self, found: Finding) -> Finding:
        """Return what an operator's probe has found, with what its revision does to it."""
        if self.failure and found.good:
            text = f"{found.message}; NodeInstallerDegraded: {self.failure}"
            return Finding(True, text, "NodeInstaller_InstallerPodFailed", "Degraded")
        if self._moving and (found.good or found.condition != "Available"):
            achieved = sum(state.current == self.latest for state in self._states.values())
            new = f"{achieved} nodes have achieved new revision {self.latest}"
            text = f"NodeInstallerProgressing: {progress(self._states)}; {new}"
            return Finding(False, text, "NodeInstaller", "Progressing")
        return found
