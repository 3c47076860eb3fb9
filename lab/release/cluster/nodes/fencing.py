"""Two nodes are taught to fence each other, and pacemaker gets etcd: what OpenShift's etcd operator does for Two Nodes
with Fencing (cluster-etcd-operator, pkg/tnf).

It begins when both nodes have their static pods and both members of etcd vote. A pod on each node then writes what
pacemaker reads, and ends when pacemaker runs etcd there.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.installconfig import FencingCredential, InstallConfig
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import is_status, put
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.kube.resources import secret
from lab.release.cluster.nodes.probes.view import SETUP, View, address
from lab.release.cluster.pods import pacemaker
from lab.release.cluster.pods.installerpod import NAMESPACE, installer_pod, resource_secret

log = logging.getLogger(__name__)

COROSYNC_KEY = "corosync-authkey"
OPERATOR = "operator.openshift.io/v1"
READY, COMPLETED = "ExternalEtcdReadyForTransition", "ExternalEtcdHasCompletedTransition"


def credential_name(host: str) -> str:
    """Return the Secret with the credentials by which a node is fenced."""
    return f"fencing-credentials-{host}"


def bootstrap_objects(config: InstallConfig) -> list[Object]:
    """Make the bootstrap host's objects for this: credentials as OpenShift's installer does, and corosync's
    key."""
    if not config.fenced:
        return []
    credentials = [
        secret(
            NAMESPACE,
            credential_name(credential.host_name),
            {
                "address": credential.address,
                "username": credential.username,
                "password": credential.password,
                "certificateVerification": "Enabled" if credential.verify else "Disabled",
            },
        )
        for credential in config.fencing
    ]
    return [*credentials, secret(NAMESPACE, COROSYNC_KEY, {"authkey": pacemaker.new_key()})]


class Fencing:
    """The operator's work; `step` does what can be done now."""

    def __init__(self, kube: Kube, config: InstallConfig, images: Images, release_image: str) -> None:
        self._kube = kube
        self._config = config
        self._images = images
        self._release_image = release_image

    def step(self, view: View) -> bool:
        """One step, once both nodes have etcd; True while pacemaker does not run it. Raises ClusterError."""
        nodes = sorted(view.masters, key=lambda node: str(node["metadata"]["name"]))
        missing = view.without_pacemaker
        if len(nodes) != self._config.control_plane_replicas:
            return True
        existing = {pod["metadata"]["name"] for pod in view.pods}
        if any(SETUP + node["metadata"]["name"] not in existing for node in nodes) and missing:
            self._begin(nodes)
        self._report(view.now, done=not missing)
        return bool(missing)

    def _begin(self, nodes: list[Object]) -> None:
        peers = [pacemaker.Peer(str(n["metadata"]["name"]), address(n).strip("[]")) for n in nodes]
        seed = pacemaker.cib(peers, [self._credential(peer.name) for peer in peers])
        key = self._secret(COROSYNC_KEY)["authkey"]
        for index, peer in enumerate(peers):
            files = pacemaker.node_files(self._config, self._images, nodes=peers, index=index, key=key, seed=seed)
            own = resource_secret(f"pacemaker-resources-{peer.name}", files)
            self._kube.create(own)
            pod = installer_pod(peer.name, self._release_image, [own], name=SETUP + peer.name)
            if self._kube.create(pod) is not None:
                log.info("Node %s is taught to fence the other", peer.name)

    def _secret(self, name: str) -> dict[str, str]:
        stored = self._kube.get("v1", "Secret", name, NAMESPACE)
        if stored is None:
            raise ClusterError(f"Secret {NAMESPACE}/{name} is not there: no node can be fenced")
        return {key: base64.b64decode(value).decode() for key, value in stored["data"].items()}

    def _credential(self, node: str) -> FencingCredential:
        secret = self._secret(credential_name(node))
        return FencingCredential(
            host_name=node,
            address=secret["address"],
            username=secret["username"],
            password=secret["password"],
            verify=secret.get("certificateVerification") != "Disabled",
        )

    def _report(self, now: dt.datetime, *, done: bool) -> None:
        obj = self._kube.get(OPERATOR, "Etcd", "cluster")
        if obj is None:
            return
        status = dict(obj.get("status") or {})
        old = list(status.get("conditions") or [])
        text = "pacemaker's resource agent is ready to take etcd over"
        new = put(old, READY, "True", now, reason="PacemakerConfiguredForEtcdTransition", message=text)
        if done or is_status(old, COMPLETED):
            text = "pacemaker's resource agent runs etcd"
            new = put(new, COMPLETED, "True", now, reason="PacemakerResourceAgentIsNowRunningEtcd", message=text)
        if new != old:
            self._kube.replace({**obj, "status": {**status, "conditions": new}}, "status")
