"""The resource agent by which pacemaker runs etcd on two nodes, after ClusterLabs' podman-etcd, which OpenShift uses.

Both members vote, so each write is on both, and neither serves alone: a node that is lost takes etcd's quorum with it.
Pacemaker fences the lost node. When that has succeeded, the other's etcd starts anew as a cluster of one
(--force-new-cluster), and `standalone_node`, a property of the cluster, says that from now on only its data count. The
node that comes back throws its own away, joins as a learner, and when it votes the property goes.

A node may begin alone only when the other is known to run nothing, and does not stand alone itself.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from installer.common.secretfiles import write_private
from lab.release.cluster.errors import AgentError, ClusterError, EtcdError
from lab.release.cluster.fencing import host
from lab.release.cluster.nodes import etcdapi, scaling
from lab.release.cluster.pods import nodeinstall, pacemaker, staticpods
from lab.release.cluster.pods.pod import RESOURCES

log = logging.getLogger("podman-etcd")
T = TypeVar("T")

# OCF's exit codes.
SUCCESS, GENERIC, UNIMPLEMENTED, NOT_RUNNING = 0, 1, 3, 7
STANDALONE = "standalone_node"
KUBELET_POD = Path("/etc/kubernetes/manifests/etcd-pod.yaml")
#: Seconds: for etcd to say how it is, which takes longest when it has lost its leader; for kubelet to end its etcd; for
#: the other's etcd to answer; for a learner to be level; for a member that begins alone, and for one that only the
#: other can make whole; for the image.
HEALTH_SECONDS = 5.0
HANDOVER_SECONDS = 180.0
OTHER_SECONDS = 120.0
LEARN_SECONDS = 180.0
ALONE_SECONDS = 120.0
TOGETHER_SECONDS = 60.0
PULL_SECONDS = 300.0
POLL = 1.0

META = f"""<?xml version="1.0"?>
<resource-agent name="podman-etcd" version="1.0">
  <version>1.1</version>
  <longdesc lang="en">Runs etcd in a container of podman's on two nodes that fence each other.</longdesc>
  <shortdesc lang="en">etcd on two nodes</shortdesc>
  <parameters/>
  <actions>
    <action name="start" timeout="{pacemaker.START_TIMEOUT}"/>
    <action name="stop" timeout="{pacemaker.STOP_TIMEOUT}"/>
    <action name="monitor" timeout="{pacemaker.MONITOR_TIMEOUT}" interval="{pacemaker.MONITOR}" depth="0"/>
    <action name="notify" timeout="30s"/>
    <action name="meta-data" timeout="5s"/>
    <action name="validate-all" timeout="30s"/>
  </actions>
</resource-agent>
"""


@dataclass(frozen=True)
class Plan:
    """A plan for this node: its etcd, and the other node's address (pods.pacemaker.plan)."""

    node: str
    url: str
    client: str
    other: str
    other_client: str
    etcd: host.Etcd

    @classmethod
    def load(cls, directory: Path) -> Plan:
        """Read it."""
        plan = json.loads((directory / pacemaker.PLAN).read_text())
        certs = f"{RESOURCES}/etcd-certs"
        etcd = host.Etcd(plan["image"], plan["command"], plan["env"], certs, staticpods.ETCD_DATA)
        return cls(plan["node"], plan["url"], plan["client"], plan["other"], plan["otherClient"], etcd)


def _until(check: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


class Agent:
    """The actions."""

    def __init__(
        self, plan: Plan, directory: Path, data: Path = Path(staticpods.ETCD_DATA), kubelet_pod: Path = KUBELET_POD
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._resources = directory.parent
        self._data = data
        self._kubelet_pod = kubelet_pod
        self._force = directory / "begin-alone"

    # -- what is so ------------------------------------------------------------------------------------------------

    def healthy(self) -> bool:
        """Return whether etcd here votes and follows a leader."""
        certs = self._resources / "etcd-certs"
        pair = (certs / "server.crt", certs / "server.key")
        return not nodeinstall.answers(f"{self._plan.client}/health", certs / "ca.crt", pair, HEALTH_SECONDS)

    def _members(self, endpoint: str) -> etcdapi.Etcd:
        certs = self._resources / "etcd-certs"
        pair = (str(certs / "server.crt"), str(certs / "server.key"))
        return etcdapi.Etcd([endpoint], str(certs / "ca.crt"), pair)

    def _of_kubelet(self) -> bool:
        """Return whether kubelet has etcd yet."""
        ours = (self._directory / pacemaker.POD).read_bytes()
        return self._kubelet_pod.exists() and self._kubelet_pod.read_bytes() != ours

    # -- actions ---------------------------------------------------------------------------------------------------

    def start(self) -> int:
        """Start etcd in the way that the other's state asks for."""
        if self._plan.etcd.active():
            return SUCCESS
        self._plan.etcd.pull(PULL_SECONDS)
        standalone = host.attribute(STANDALONE)
        if self._of_kubelet():
            self._take_over()
            self._together()
        elif standalone == self._plan.other:
            self._join()
        elif standalone == self._plan.node:
            self._alone() if self._force.exists() else self._together()
        elif not host.node(self._plan.other).gone:
            self._together()
        else:
            self._claim()
            self._alone()
        (self._directory / pacemaker.RUNNING).touch()
        return SUCCESS

    def _take_over(self) -> None:
        temporary = self._kubelet_pod.with_name(f".{self._kubelet_pod.name}.new")
        write_private(temporary, (self._directory / pacemaker.POD).read_bytes())
        temporary.rename(self._kubelet_pod)
        log.info("kubelet has been told to end its etcd")
        if not _until(lambda: not _listens(self._plan.client), HANDOVER_SECONDS):
            raise AgentError("kubelet", f"its etcd still answers at {self._plan.client}")

    def _together(self) -> None:
        """As the member that it is. Whether it becomes whole is up to the other, which may be starting too."""
        self._plan.etcd.start()
        if not _until(self.healthy, TOGETHER_SECONDS):
            log.warning("etcd runs, and does not follow a leader yet")
        if not self._plan.etcd.active():
            raise AgentError("etcd", "ended as soon as it was started: journalctl -u etcd")

    def _claim(self) -> None:
        """From now on this node's data count alone. The file tells a start that comes later that this has not been
        carried out yet."""
        self._force.touch()
        host.set_attribute(STANDALONE, self._plan.node)
        log.warning("%s is gone: %s begins alone", self._plan.other, self._plan.node)

    def _alone(self) -> None:
        self._plan.etcd.start("--force-new-cluster=true")
        if not _until(self.healthy, ALONE_SECONDS):
            self._plan.etcd.stop()
            raise AgentError("etcd", f"did not begin alone within {ALONE_SECONDS:.0f} s")
        self._force.unlink(missing_ok=True)

    def _join(self) -> None:
        """As a member of the other's cluster, with the other's data."""
        others = self._members(self._plan.other_client)
        members = _patiently(others.members, OTHER_SECONDS)
        own_members = [m for m in members if self._plan.url in m.peer_urls]
        if any(m.votes for m in own_members):  # it had become whole before the property could be taken away
            self._together()
            host.set_attribute(STANDALONE, "")
            return
        for stale in own_members:
            others.remove(stale)
        _patiently(lambda: others.add_learner(self._plan.url), OTHER_SECONDS)
        peers = scaling.peers_for(self._plan.node, self._plan.url, others.members())
        self._forget()
        self._plan.etcd.start(f"--initial-cluster={peers}", "--initial-cluster-state=existing")
        log.info("%s learns from %s", self._plan.node, self._plan.other)
        if not _until(lambda: self._settle(others), LEARN_SECONDS):
            log.warning("etcd runs, and does not vote yet")

    def _forget(self) -> None:
        """Put the member's data aside; the last ones are kept."""
        before = self._data / "before"
        shutil.rmtree(before, ignore_errors=True)
        if (self._data / "member").exists():
            (self._data / "member").rename(before)
        self._force.unlink(missing_ok=True)

    def _settle(self, asked: etcdapi.Etcd) -> bool:
        """Let learners vote that are level; whether two vote, so that no node stands alone any more."""
        try:
            for member in asked.members():
                if member.learner and member.name:
                    asked.promote(member)
                    log.info("etcd member %s votes now", member.name)
            whole = sum(1 for member in asked.members() if member.votes) == 2
        except EtcdError as error:
            log.info("%s", error)
            return False
        if whole:
            host.set_attribute(STANDALONE, "")
        return whole

    def monitor(self) -> int:
        """Return whether etcd runs. A lost leader is a failure when the other node is gone: then it begins alone."""
        if not self._plan.etcd.active():
            return NOT_RUNNING
        standalone = host.attribute(STANDALONE)
        if self.healthy():
            if standalone == self._plan.node:
                self._settle(self._members(self._plan.client))
            return SUCCESS
        if standalone in ("", self._plan.node) and host.node(self._plan.other).gone:
            self._claim()
            return GENERIC
        log.warning("etcd runs, and does not follow a leader")
        return SUCCESS

    def stop(self) -> int:
        """Stop etcd. A member that leaves the other behind takes itself out, so that the other goes on."""
        if self._plan.etcd.active():
            if _others_stay() and not host.attribute(STANDALONE) and self.healthy():
                self._leave()
            self._plan.etcd.stop()
        return SUCCESS

    def _leave(self) -> None:
        own_etcd = self._members(self._plan.client)
        host.set_attribute(STANDALONE, self._plan.other)
        try:
            for member in own_etcd.members():
                if self._plan.url in member.peer_urls:
                    own_etcd.remove(member)
        except EtcdError as error:
            log.warning("leaving etcd: %s", error)
            host.set_attribute(STANDALONE, "")


def _others_stay() -> bool:
    """Return whether the other's etcd runs and is not about to stop, by pacemaker's word on the clone (notify)."""
    words = {
        what: os.environ.get(f"OCF_RESKEY_CRM_meta_notify_{what}_uname", "").split() for what in ("active", "stop")
    }
    return len(words["active"]) == 2 and len(words["stop"]) == 1


def _listens(url: str) -> bool:
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname, place.port), timeout=5):
            return True
    except OSError:
        return False


def _patiently(ask: Callable[[], T], seconds: float) -> T:
    """Ask etcd until it answers, and return its answer. Raises EtcdError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except EtcdError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL)


def main() -> int:
    """Return the agent's command line: one action, with OCF's exit codes."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s: %(message)s")
    action = sys.argv[1] if len(sys.argv) == 2 else ""
    if action == "meta-data":
        sys.stdout.write(META)
        return SUCCESS
    if action in ("notify", "validate-all"):
        return SUCCESS
    directory = Path(pacemaker.DIRECTORY)
    try:
        agent = Agent(Plan.load(directory), directory)
        actions = {"start": agent.start, "stop": agent.stop, "monitor": agent.monitor, "status": agent.monitor}
        return actions[action]() if action in actions else UNIMPLEMENTED
    except (ClusterError, OSError) as error:
        log.error("%s", error)
        return GENERIC


if __name__ == "__main__":
    sys.exit(main())
