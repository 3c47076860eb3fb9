"""The assisted-installer-controller of the lab release: approves the CSRs of nodes that belong here, and reports to the
service that installs the cluster (servicereport.py).

OpenShift's approves everything that is pending; this one checks first (the rules of cluster-machine-approver as far as
they apply without Machine objects, reference/cluster.md §4): the exact requester, subject and usages of a kubelet; no
more nodes than the install-config asks for, and none by itself once the cluster is installed; and for a serving
certificate only names and addresses that the Node object has.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from lab.release.cluster import pace
from lab.release.cluster.controller import servicereport
from lab.release.cluster.errors import ApiError, ClusterError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import stamp
from lab.release.cluster.kube.lease import renew
from lab.release.cluster.kube.resources import is_installed, read_config
from lab.release.cluster.tls import BOOTSTRAPPER, BOOTSTRAPPER_GROUPS

log = logging.getLogger(__name__)

API = "certificates.k8s.io/v1"
CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
NAMESPACE = "assisted-installer"
#: An approver's Lease, before its node's name: renewed after a look at all CSRs, each so many seconds.
LEASE_PREFIX = "assisted-installer-controller-"
BEAT_SECONDS = 30.0
#: The invoker of an installation whose machines a user boots (`openshift-install-manifests`).
USER_INVOKER = "user"
#: The longest pause, in which a node waits. CSRs are looked at when one changes, and with each beat.
POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Request:
    """A CSR, its PEM request decoded."""

    name: str
    signer: str
    user: str
    groups: frozenset[str]
    usages: frozenset[str]
    common_name: str
    organizations: tuple[str, ...]
    names: frozenset[str]
    other_names: int


def read_request(csr: Object) -> Request:
    """Decode a CertificateSigningRequest. Raises ValueError when its request is not one."""
    spec = csr["spec"]
    decoded = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    if not decoded.is_signature_valid:
        raise ValueError("its signature does not fit its key")
    subject = decoded.subject
    common = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    names: list[str] = []
    others = 0
    try:
        san = decoded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*san.get_values_for_type(x509.DNSName), *(str(ip) for ip in san.get_values_for_type(x509.IPAddress))]
        others = len(list(san)) - len(names)
    except x509.ExtensionNotFound:
        pass
    return Request(
        name=csr["metadata"]["name"],
        signer=spec["signerName"],
        user=spec.get("username", ""),
        groups=frozenset(spec.get("groups") or []),
        usages=frozenset(spec.get("usages") or []),
        common_name=common[0] if len(common) == 1 else "",
        organizations=tuple(str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)),
        names=frozenset(names),
        other_names=others,
    )


def refusal(request: Request, nodes: Mapping[str, Object], expected_nodes: int | None) -> str:
    """Return the reason why this request must not be approved; empty when it may be.

    `expected_nodes`: how many the installation waits for; None once the cluster is installed, where nothing but a
    person knows of a node that is added.
    """
    node = request.common_name.removeprefix("system:node:")
    if not request.common_name.startswith("system:node:") or not node:
        return f"its common name is {request.common_name!r}, not system:node:<name>"
    if request.organizations != ("system:nodes",):
        return f"its organization is {request.organizations!r}, not system:nodes alone"
    if request.other_names:
        return "it asks for names that are neither DNS names nor addresses"
    allowed = {"digital signature", "key encipherment"}
    if request.signer == CLIENT:
        if request.user != BOOTSTRAPPER or not request.groups >= set(BOOTSTRAPPER_GROUPS):
            return f"{request.user!r} is not the node bootstrapper"
        if not {"client auth"} <= request.usages <= allowed | {"client auth"}:
            return f"its usages are {sorted(request.usages)}"
        if request.names:
            return "a client certificate carries no names"
        if node in nodes:
            return f"node {node} has joined already"
        if expected_nodes is None:
            return f"the cluster is installed: only an administrator can let node {node} join"
        if len(nodes) >= expected_nodes:
            return f"all {expected_nodes} nodes that were asked for have joined"
        return ""
    if request.signer == SERVING:
        if request.user != request.common_name or "system:nodes" not in request.groups:
            return f"{request.user!r} asks for {request.common_name!r}"
        if not {"server auth"} <= request.usages <= allowed | {"server auth"}:
            return f"its usages are {sorted(request.usages)}"
        if node not in nodes:
            return f"node {node} is not there yet"
        node_names = {a["address"] for a in (nodes[node].get("status") or {}).get("addresses") or []} | {node}
        if not request.names or not request.names <= node_names:
            return f"names {sorted(request.names - node_names)} are not the node's"
        return ""
    return f"signer {request.signer} is not a kubelet's"


def approval(csr: Object, now: dt.datetime) -> Object:
    """Return the CSR with the condition Approved."""
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "NodeCSRApprove",
        "message": "This CSR was approved by the assisted-installer-controller",
        "lastUpdateTime": stamp(now),
    }
    return {"apiVersion": API, "kind": "CertificateSigningRequest", **csr, "status": {"conditions": [condition]}}


class Approver:
    """The loop over pending CSRs."""

    def __init__(self, kube: Kube, expected_nodes: int) -> None:
        self._kube = kube
        self._expected: int | None = expected_nodes
        self._refused: dict[str, str] = {}
        #: Whether to look again though nothing changes: the last look failed, or refused what may be approved later.
        self.waiting = True

    def step(self) -> int:
        """Check every pending CSR once; returns how many were approved. Raises ApiError."""
        self.waiting = True
        listed = self._kube.list(API, "CertificateSigningRequest")
        pending = [c for c in listed if not (c.get("status") or {}).get("conditions")]
        if not pending:
            self.waiting = False
            return 0
        nodes = {n["metadata"]["name"]: n for n in self._kube.list("v1", "Node")}
        if self._expected is not None and is_installed(self._kube):
            self._expected = None
        approved = 0
        for csr in pending:
            name = csr["metadata"]["name"]
            try:
                why = refusal(read_request(csr), nodes, self._expected)
            except (ValueError, KeyError) as error:
                why = f"it cannot be read: {error}"
            if why:
                if self._refused.get(name) != why:
                    log.warning("CSR %s is not approved: %s", name, why)
                    self._refused[name] = why
                continue
            try:
                self._kube.replace(approval(csr, dt.datetime.now(dt.UTC)), "approval")
            except ApiError as error:
                if error.status != 409:
                    raise
                continue  # the approver of another node was first
            log.info("CSR %s of %s (%s) is approved", name, csr["spec"]["username"], csr["spec"]["signerName"])
            approved += 1
        self.waiting = approved < len(pending)
        return approved


def expected_nodes(kube: Kube) -> int | None:
    """Return the number of nodes that may join by themselves; None while the install-config is not in the cluster.

    They are all that it asks for where hosts were discovered. Of a user's own infrastructure nobody but the user knows
    a worker (reference/upi.md §3).
    """
    config = read_config(kube)
    if config is None:
        return None
    invoked = kube.get("v1", "ConfigMap", "openshift-install-manifests", "openshift-config") or {}
    by_user = (invoked.get("data") or {}).get("invoker") == USER_INVOKER
    return config.etcd_members if by_user else config.nodes


def ready_event(kube: Kube) -> None:
    """Send the event by which the bootstrap host knows that this controller runs (§8.2)."""
    now = stamp(dt.datetime.now(dt.UTC))
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "AssistedControllerIsReady", "namespace": NAMESPACE},
            "involvedObject": {"kind": "Namespace", "name": NAMESPACE, "namespace": NAMESPACE},
            "reason": "AssistedControllerIsReady",
            "message": "The assisted-installer-controller is ready",
            "source": {"component": "assisted-installer-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Normal",
        }
    )


def run(kube: Kube, stop: threading.Event, *, announce: bool = True, until: Path | None = None) -> None:
    """Approve until ``stop`` is set or the file ``until`` exists; while the API is unreachable, wait for it."""
    approver: Approver | None = None
    seen, beat = "", -BEAT_SECONDS
    changed = threading.Event()

    def follow() -> None:
        for _ in kube.watch(API, "CertificateSigningRequest", stop):
            changed.set()

    while not stop.is_set() and not (until and until.exists()):
        began = time.monotonic()
        try:
            if approver is None:
                count = expected_nodes(kube)
                if count is not None:
                    if announce:
                        ready_event(kube)
                    log.info("Approving the CSRs of up to %d nodes", count)
                    approver = Approver(kube, count)
                    threading.Thread(target=follow, name="CSRs", daemon=True).start()
            due = began - beat >= BEAT_SECONDS
            if approver is not None and (changed.is_set() or approver.waiting or due):
                changed.clear()
                approver.step()
                if announce and due:
                    renew(kube, NAMESPACE, LEASE_PREFIX + socket.gethostname(), now=dt.datetime.now(dt.UTC))
                beat = began if due else beat
        except (ClusterError, OSError) as error:
            if str(error) != seen:
                log.warning("%s", error)
                seen = str(error)
        stop.wait(pace.pause(time.monotonic() - began, POLL_SECONDS))


def main(argv: Sequence[str] | None = None) -> int:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="assisted-installer-controller")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--until", type=Path, help="the bootstrap host's: end when this file is there, and do not announce"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        kube = Kube.from_kubeconfig(arguments.kubeconfig)
        if arguments.until is None:
            # In a thread of its own: a service that is slow or unreachable holds up no node.
            threading.Thread(target=servicereport.run, args=(kube, stop), name="service", daemon=True).start()
        run(kube, stop, announce=arguments.until is None, until=arguments.until)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
