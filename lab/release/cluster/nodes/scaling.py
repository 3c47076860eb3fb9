"""Static pods onto nodes, and etcd's members with them: the part of OpenShift's etcd and static pod operators that the
lab needs (reference/cluster.md §2.3, §2.5).

A control plane node that has joined is given, one node after the other: an etcd member that does not vote yet, then its
own files (a Secret and a ConfigMap), then an installer pod, which writes them onto the node and starts them stage by
stage. As soon as the new member is level with the leader it votes. When the bootstrap is reported as complete and two
other members vote, the bootstrap host's member is removed. An arbiter gets a member of etcd and nothing else;
workers get no static pod.

API servers ask so many members that vote that one answers as long as etcd has its quorum; a revision gives them all of
the list. A learner refuses their requests, so a member joins at an address only when no API server asks there.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from installer.common.certificates import Pair
from lab.release.cluster.errors import ApiError, ClusterError, EtcdError, UnknownKind, WaitError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import is_status, put
from lab.release.cluster.kube.resources import config_map
from lab.release.cluster.nodes import departures, fencing
from lab.release.cluster.nodes.etcdapi import Etcd, Member
from lab.release.cluster.nodes.probes.view import View, address, addresses
from lab.release.cluster.nodes.revisions import ENDPOINTS, OPERATOR, Revisions, Wanted, suffice
from lab.release.cluster.pki import store
from lab.release.cluster.pods import assets, staticpods
from lab.release.cluster.pods.assets import Cluster
from lab.release.cluster.pods.installerpod import (
    CONTROL_PLANE,
    MEMBER_ID,
    NAMESPACE,
    PERSONAL,
    is_busy,
    is_installer,
    resource_secret,
)

log = logging.getLogger(__name__)

BOOTSTRAP_MEMBER = "etcd-bootstrap"
BOOTSTRAP_NOTE = "alpha.installer.openshift.io/etcd-bootstrap"
SIGNER = "etcd-signer"
LEAVE_SECONDS = 120.0


def bootstrap_objects(cluster: Cluster, bootstrap_ip: str) -> list[Object]:
    """Make what the bootstrap host leaves in the API for the operator: common files, all certificates, its own
    address."""
    endpoints = config_map(NAMESPACE, ENDPOINTS, {})
    endpoints["metadata"]["annotations"] = {BOOTSTRAP_NOTE: bootstrap_ip}
    return [
        resource_secret(CONTROL_PLANE, assets.control_plane_files(cluster)),
        *store.objects(cluster.pairs),
        endpoints,
        *fencing.bootstrap_objects(cluster.config),
    ]


def running_nodes(kube: Kube, kind: str) -> int:
    """Count the nodes that an operator.openshift.io object says run revision 1 or later."""
    obj = kube.get(OPERATOR, kind, "cluster")
    statuses = ((obj or {}).get("status") or {}).get("nodeStatuses") or []
    return sum(1 for status in statuses if status.get("currentRevision", 0) >= 1)


def wait_for_control_plane(
    kube: Kube,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
    *,
    servers: int = 2,
) -> None:
    """Wait until etcd reports that it runs in the cluster and so many nodes have an API server (§2.3, §2.2 step 18b).

    Raises WaitError with what was seen last.
    """
    deadline, last_text = clock() + seconds, ""
    while True:
        try:
            etcd = kube.get(OPERATOR, "Etcd", "cluster")
            conditions = ((etcd or {}).get("status") or {}).get("conditions") or []
            running = running_nodes(kube, "KubeAPIServer")
            if is_status(conditions, "EtcdRunningInCluster") and running >= servers:
                return
            etcd_running = [c for c in conditions if c["type"] == "EtcdRunningInCluster"]
            etcd_says = etcd_running[0]["message"] if etcd_running else "no word yet"
            seen = f"{running} of {servers} nodes have an API server; etcd: {etcd_says}"
        except (ApiError, UnknownKind) as error:
            seen = str(error)
        if seen != last_text:
            log.info("Waiting for the control plane: %s", seen)
            last_text = seen
        if clock() > deadline:
            raise WaitError(f"nodes with a control plane, {servers} of them", seconds, seen)
        pause(5.0)


def leave(etcd: Etcd, seconds: float = LEAVE_SECONDS, pause: Callable[[float], None] = time.sleep) -> None:
    """Take the bootstrap host's member out while it still runs: of two members, the other could not do so alone. It
    hands over the lead before, so that the other knows what was agreed. Raises WaitError."""
    deadline, own = time.monotonic() + seconds, etcd.endpoints
    while True:
        try:
            members = etcd.members()
            bootstrap_member = next((m for m in members if m.name == BOOTSTRAP_MEMBER), None)
            others = [m for m in members if m.votes and m is not bootstrap_member]
            if bootstrap_member is None or not others:
                return
            # A member that has been removed does not answer any more: the other says whether it has.
            etcd.endpoints = (*own, *others[0].client_urls)
            etcd.lead(others[0])
            etcd.remove(bootstrap_member)
            log.info("etcd member %s is removed, %s is alone", BOOTSTRAP_MEMBER, others[0].name)
            seen = "it is listed still"
        except EtcdError as error:
            seen = error.seen
            log.info("etcd member %s is not removed yet: %s", BOOTSTRAP_MEMBER, seen)
        if time.monotonic() > deadline:
            raise WaitError(f"etcd without {BOOTSTRAP_MEMBER}", seconds, seen)
        pause(1.0)


def member_of(node: Object, members: list[Member]) -> Member | None:
    """Return the etcd member whose peer address is the node's."""
    url = f"https://{address(node)}:2380"
    return next((m for m in members if url in m.peer_urls), None)


def peers_for(node_name: str, node_url: str, members: list[Member]) -> str:
    """Return etcd's --initial-cluster for a member that was just added and has no name yet."""
    entries = [f"{m.name}={url}" for m in members for url in m.peer_urls if m.name and url != node_url]
    return ",".join([*sorted(entries), f"{node_name}={node_url}"])


def voters(members: Iterable[Member]) -> dict[str, str]:
    """Return the addresses of the members that vote, but the bootstrap host's, by the hexadecimal id."""
    chosen = [m for m in members if m.votes and m.name != BOOTSTRAP_MEMBER]
    return {f"{int(m.id):x}": str(urlsplit(m.peer_urls[0]).hostname) for m in chosen}


class Scaling:
    """The operator's work; `step` does what can be done now."""

    def __init__(self, kube: Kube, files: Path, wanted: Wanted, revisions: Revisions) -> None:
        self._kube = kube
        self._files = files
        self._wanted = wanted
        self._revisions = revisions
        self._client: Etcd | None = None
        self._tidied: set[str] | None = None
        self._enough = wanted.config.enough_members
        config = wanted.config
        self._fencing = fencing.Fencing(kube, config, wanted.images, wanted.release_image) if config.fenced else None

    def etcd(self, view: View) -> Etcd:
        """Return a client of the members that there are: the bootstrap host's and those of all nodes that have one."""
        others = [f"https://{address(node)}:2379" for node in view.etcd_nodes if address(node)]
        endpoints = ("https://localhost:2379", *others)
        if self._client is None or self._client.endpoints != endpoints:
            cert = (str(self._files / "etcd-client.crt"), str(self._files / "etcd-client.key"))
            self._client = Etcd(endpoints, str(self._files / "etcd-ca.crt"), cert)
        return self._client

    def step(self, view: View) -> bool:
        """One step; True while there is work left that only needs time. Raises ApiError, EtcdError."""
        etcd = self.etcd(view)
        members = etcd.members()
        for learner in (m for m in members if m.learner and m.name):
            try:
                etcd.promote(learner)
                log.info("etcd member %s votes now", learner.name)
                members = etcd.members()
            except EtcdError as error:
                log.info("etcd member %s does not vote yet: %s", learner.name, error.seen)
        members = self._remove_bootstrap(etcd, members)
        refused = ""
        # Where pacemaker runs etcd, it says who is a member.
        if self._fencing is None:
            members, refused = departures.remove(etcd, members, view.nodes)
        self._report(members, view.now, refused)
        installed = {p["spec"].get("nodeName") for p in view.pods if is_installer(p)}
        self._tidy(view, members)
        pending = [n for n in view.etcd_nodes if address(n) and self._is_pending(n, members, installed)]
        joining = sorted(pending, key=lambda n: str(n["metadata"]["name"]))
        # One node at a time to the very end: API servers that start together starve each other, and etcd, of CPU.
        busy = [p for p in view.pods if is_busy(p)]
        self._list(members, calm=not pending, missing=view.missing_members)
        if joining and not busy:
            self._add_control_plane(view, etcd, members, joining)
        if pending or any(not m.votes for m in members) or view.missing_nodes:
            return True
        # Only then: from now on pacemaker says who is a member.
        return self._fencing is not None and (bool(busy) or self._fencing.step(view))

    def _is_pending(self, node: Object, members: list[Member], installed: Collection[str]) -> bool:
        """Return whether a node still lacks static pods. Those of a node that began the cluster alone came with its
        Ignition config, without an installer pod: its member says that they are there."""
        member = member_of(node, members)
        named = member is not None and member.name not in ("", BOOTSTRAP_MEMBER)
        return node["metadata"]["name"] not in installed and not named

    def _tidy(self, view: View, members: list[Member]) -> None:
        """Delete what was made for nodes that are gone, and for those that have lost their member: they join anew."""
        names = {str(node["metadata"]["name"]) for node in view.nodes}
        if self._fencing is None:
            names -= {str(n["metadata"]["name"]) for n in view.etcd_nodes if address(n) and not member_of(n, members)}
        if self._tidied is None or self._tidied - names:
            departures.tidy(self._kube, names)
        self._tidied = names

    def _list(self, members: list[Member], *, calm: bool, missing: int) -> None:
        """Keep etcd-endpoints, by which API servers know the members: one that has gone leaves at once, and those that
        have come are added when all vote. The first list has enough for all members that an installation waits for, so
        that its revision rolls out while the bootstrap host starts anew. Where pacemaker runs etcd, each API server
        asks its own node's alone: the other may be a learner at any time."""
        stored = self._kube.get("v1", "ConfigMap", ENDPOINTS, NAMESPACE)
        if stored is None or self._fencing is not None:
            return
        before, found = stored.get("data") or {}, voters(members)
        enough = before or suffice(found.values(), len(found) + missing)
        calm = calm and len(found) == len(members) and bool(enough)
        listed = found if calm else {key: ip for key, ip in before.items() if key in found}
        if listed != before:
            self._kube.replace({**stored, "apiVersion": "v1", "kind": "ConfigMap", "data": listed})
            log.info("API servers are to ask etcd at %s", ", ".join(sorted(listed.values())) or "their own nodes")

    def _add_control_plane(self, view: View, etcd: Etcd, members: list[Member], joining: list[Object]) -> None:
        """Begin with the first node that may; one member at a time becomes a voter."""
        started = [n for n in joining if (m := member_of(n, members)) is not None and m.name != BOOTSTRAP_MEMBER]
        node = (started or joining)[0]
        url = f"https://{address(node)}:2380"
        if not started:
            if any(not m.votes for m in members) or member_of(node, members) is not None:
                return  # another member is still on its way, or the bootstrap host's has this address
            if asking := self._revisions.asking(view, address(node).strip("[]")):
                log.info("%s waits: API servers still ask etcd there, those of %s", url, ", ".join(asking))
                return
            etcd.add_learner(url)
            members = etcd.members()
            log.info("etcd has a new member at %s", url)
        name, ip = node["metadata"]["name"], address(node).strip("[]")
        signer = self._kube.get("v1", "Secret", SIGNER, NAMESPACE)
        if signer is None:
            raise ClusterError(f"Secret {NAMESPACE}/{SIGNER} is not there: no node can be given an etcd certificate")
        data = {key: base64.b64decode(value).decode() for key, value in signer["data"].items()}
        own = assets.etcd_files(Pair(data["tls.crt"], data["tls.key"]), name, addresses(node))
        if member := member_of(node, members):
            own[MEMBER_ID] = member.id
        wanted, peers = self._wanted, peers_for(name, url, members)
        if machineconfig.role_of(node) == "arbiter":
            # It votes, and no more: it gets no key but its own, and the CA by which it knows the others.
            own |= {"etcd-certs/ca.crt": data["tls.crt"]}
        personal = resource_secret(PERSONAL + name, own)
        self._kube.create(personal)
        if machineconfig.role_of(node) == "arbiter":
            self._revisions.install(node, staticpods.arbiter(wanted.config, ip, name, peers), [personal], peers)
            return
        common = self._kube.get("v1", "Secret", CONTROL_PLANE, NAMESPACE)
        if common is None:
            raise ClusterError(f"Secret {NAMESPACE}/{CONTROL_PLANE} is not there: node {name} cannot be installed")
        servers = sorted(set(voters(members).values()) - {ip}) if self._fencing is None else []
        stages = staticpods.control_plane(wanted.config, wanted.release_image, ip, name, peers=peers, servers=servers)
        self._revisions.install(node, stages, [common, personal], peers, servers=servers)

    def _remove_bootstrap(self, etcd: Etcd, members: list[Member]) -> list[Member]:
        bootstrap = next((m for m in members if m.name == BOOTSTRAP_MEMBER), None)
        if bootstrap is None or sum(1 for m in members if m.votes) < self._enough:
            return members
        progress = self._kube.get("v1", "ConfigMap", "bootstrap", "kube-system")
        if ((progress or {}).get("data") or {}).get("status") != "complete":
            return members
        own, etcd.endpoints = etcd.endpoints, bootstrap.client_urls
        try:
            # Without a leader, the others would fail all requests until they elect one, up to 15 s later.
            etcd.lead(next(m for m in members if m.votes and m is not bootstrap))
        except EtcdError as error:
            log.info("etcd member %s does not hand over the lead: %s", BOOTSTRAP_MEMBER, error.seen)
        finally:
            etcd.endpoints = own
        etcd.remove(bootstrap)
        log.info("etcd member %s is removed", BOOTSTRAP_MEMBER)
        return etcd.members()

    def _report(self, members: list[Member], now: dt.datetime, refused: str) -> None:
        """etcds/cluster: whether etcd runs in the cluster, and whether the bootstrap member is gone (§2.5)."""
        obj = self._kube.get(OPERATOR, "Etcd", "cluster")
        if obj is None:
            return
        voters = [m.name for m in members if m.votes]
        gone = BOOTSTRAP_MEMBER not in [m.name for m in members]
        if gone:
            enough, reason = True, "BootstrapAlreadyRemoved"
        else:
            enough = len(voters) >= self._enough
            reason = "EnoughEtcdMembers" if enough else "NotEnoughEtcdMembers"
        text = f"{len(voters)} members vote: {', '.join(sorted(voters))}"
        status = dict(obj.get("status") or {})
        conditions = list(status.get("conditions") or [])
        conditions = put(
            conditions, "EtcdRunningInCluster", "True" if enough else "False", now, reason=reason, message=text
        )
        if gone:
            conditions = put(
                conditions, "EtcdBootstrapMemberRemoved", "True", now, reason="BootstrapMemberRemoved", message=text
            )
        conditions = departures.put_condition(conditions, refused, now)
        if conditions != (status.get("conditions") or []):
            self._kube.replace({**obj, "status": {**status, "conditions": conditions}}, "status")
