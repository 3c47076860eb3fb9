"""`agent add-nodes monitor`: hosts that are being added, followed until their Nodes are ready.

Three sources tell how far a host is: its rendezvous service, as long as that runs; its kubelet's port; and the
cluster's Nodes and certificate signing requests. The states and their words are upstream's (reference/add-nodes.md §5).
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

from installer.addnodes import access, nodesconfig, target
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Timeouts, address, endpoint
from installer.assisted.enums import HostStatus, Stage
from installer.assisted.errors import ClientError
from installer.common.formats import jsontext
from installer.config.rules.agent import static_addresses
from installer.errors import EXIT_FATAL, ConfigError, WaitError
from installer.hub import spoke
from installer.hub.kube.api import Api, Conflict, KubeError
from installer.hub.kube.kinds import Json
from installer.hub.spoke import CSR, NODE, Joining
from installer.ignition.live import EACH_ITS_OWN, SERVICE_PORT
from installer.observe.service import hosts as hosts_of

log = logging.getLogger(__name__)

KUBELET_PORT = 10250
APPROVED = "The Node is a host that node0 agent add-nodes monitor was told to approve."
POLL_SECONDS = 2.0
ASK_SECONDS = 3.0
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"


class State(StrEnum):
    """The stages of a host, in order."""

    INITIAL = "Initial State"
    SERVICE = "Assisted Service API is available"
    KUBELET = "Kubelet is running"
    FIRST_CSR = "First CSR Pending approval"
    NOT_READY = "Node joined cluster and status is NotReady"
    SECOND_CSR = "Second CSR Pending approval"
    READY = "Node is Ready"


ORDER = tuple(State)


@dataclass(frozen=True)
class Following:
    """The hosts to follow by their addresses; `timeout` in seconds."""

    kubeconfig: Path
    addresses: tuple[str, ...]
    approve: bool
    timeout: float


@dataclass(frozen=True)
class Seen:
    """A host as it was seen in one round: what its service says (empty while nothing answers), whether its kubelet's
    port is open, its Node, and the open requests of its kubelet."""

    host: Json = field(default_factory=dict)
    serves: bool = False
    kubelet: bool = False
    node: Json | None = None
    requests: tuple[Json, ...] = ()

    def state(self) -> State:
        """Return how far the host is."""
        if self.node is not None and spoke.stage_of(self.node) is Stage.DONE:
            return State.READY
        signers = {str(request["spec"].get("signerName")) for request in self.requests}
        if SERVING in signers:
            return State.SECOND_CSR
        if self.node is not None:
            return State.NOT_READY
        if CLIENT in signers:
            return State.FIRST_CSR
        if self.kubelet and not self.serves:
            return State.KUBELET
        return State.SERVICE if self.serves else State.INITIAL


def problems_of(host: Json) -> list[str]:
    """Return the failed validations that keep a host from being added, or the reason why its installation failed."""
    if host.get("status") == HostStatus.ERROR:
        return [f"its installation failed: {host.get('status_info', '')}"]
    if host.get("status") != HostStatus.INSUFFICIENT:
        return []
    try:
        groups = jsontext.loads(host.get("validations_info") or "{}")
    except ValueError:
        return []
    entries = [entry for group in groups.values() for entry in group if isinstance(entry, dict)]
    failing = [entry for entry in entries if entry.get("status") in ("failure", "error")]
    return [f"validation {entry.get('id')} failed: {entry.get('message', '')}" for entry in failing]


def joining_of(at: str, host: Json, names: Mapping[str, str]) -> Joining | None:
    """Return the Node that a host is to become; None while its name is unknown to its service and to `names`, hostnames
    by static address."""
    addresses = {at}
    name = names.get(at, "")
    if host:
        name = str(host.get("requested_hostname") or name)
        try:
            inventory = jsontext.loads(host.get("inventory") or "{}")
        except ValueError:
            inventory = {}
        for nic in inventory.get("interfaces") or ():
            for key in ("ipv4_addresses", "ipv6_addresses"):
                addresses |= {str(text).partition("/")[0] for text in nic.get(key) or ()}
    return Joining(name.lower(), frozenset(addresses)) if name else None


def unclaimed(requests: Iterable[Json], owned: Iterable[Json]) -> list[Json]:
    """Return the kubelets' open requests that no followed host is known to have made."""
    known = {request["metadata"]["name"] for request in owned}
    return [
        request
        for request in requests
        if request["metadata"]["name"] not in known and request["spec"].get("signerName") in (CLIENT, SERVING)
    ]


def shown(request: Json) -> str:
    """Return the line on a request that waits."""
    spec = request["spec"]
    return (
        f"CSR {request['metadata']['name']} with signerName {spec.get('signerName')} and username "
        f"{spec.get('username')} is Pending and awaiting approval"
    )


def _static_names(directory: Path) -> dict[str, str]:
    """Return the names of hosts by their static addresses, where the directory has their nodes-config.yaml."""
    if not (directory / nodesconfig.FILE).exists():
        return {}
    config, _ = nodesconfig.read(directory, nodesconfig.OneHost())
    return {text: host.hostname for host in config.hosts if host.hostname for text in static_addresses(host)}


def _by_dns(at: str) -> Joining | None:
    """Return the Node that DNS calls this address, by the first label; None where it has no name for it."""
    try:
        return Joining(socket.gethostbyaddr(at)[0].partition(".")[0].lower(), frozenset([at]))
    except OSError:
        return None


class _Host:
    """A host that is followed, with its state between rounds and the lines that have been logged of it."""

    def __init__(self, at: str, tokens: access.Access) -> None:
        self.at = at
        server = replace(endpoint(f"https://{address(at)}:{SERVICE_PORT}", ca_pem=tokens.ca), server_name=EACH_ITS_OWN)
        timeouts = Timeouts(connect=ASK_SECONDS, silence=ASK_SECONDS, request=2 * ASK_SECONDS)
        self.service = AssistedClient(server, Scheme.WATCHER, tokens.tokens.watcher, timeouts=timeouts)
        self.state = State.INITIAL
        self.joining: Joining | None = None
        self.requests: list[Json] = []
        self.said: set[str] = set()
        self.failed = ""

    def say(self, level: int, text: str) -> None:
        """Log a line on this host, once."""
        if text not in self.said:
            self.said.add(text)
            log.log(level, "Node %s: %s", self.at, text)

    def ask(self) -> tuple[Json, bool]:
        """Return what the host's service says of it, and whether it answers as the cluster's last image does."""
        try:
            infra_envs = self.service.infra_envs()
            found = hosts_of(self.service, str(infra_envs[0]["id"])) if infra_envs else []
            return (dict(found[0]) if found else {}), True
        except ClientError as error:
            if error.status in (401, 403):
                self.say(logging.WARNING, f"its service refuses the tokens that the cluster has: {error}")
            elif "certificate" in str(error):
                self.say(logging.WARNING, "its service has a certificate of another image, or of another cluster's")
            return {}, False

    def has_kubelet(self) -> bool:
        """Return whether anything listens at the kubelet's port."""
        try:
            with socket.create_connection((self.at, KUBELET_PORT), ASK_SECONDS):
                return True
        except OSError:
            return False


def monitor(following: Following, directory: Path) -> None:
    """Follow hosts until all their Nodes are ready. Raises WaitError, ConfigError where the cluster cannot be asked."""
    names = _static_names(directory)
    with target.connected(following.kubeconfig) as api:
        tokens = access.watching(api, datetime.now(UTC))
        hosts = [_Host(at, tokens) for at in following.addresses]
        deadline = time.monotonic() + following.timeout
        try:
            while _round(api, hosts, names, following):
                if time.monotonic() >= deadline:
                    last = "; ".join(f"{host.at}: {host.state}" for host in hosts if host.state is not State.READY)
                    raise WaitError(f"not all nodes were ready within {following.timeout:g} s: {last}", EXIT_FATAL)
                time.sleep(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))
        finally:
            for host in hosts:
                host.service.close()


def _round(api: Api, hosts: list[_Host], names: Mapping[str, str], following: Following) -> bool:
    """Look at all hosts once, and log changes; False when all their Nodes are ready. Raises WaitError."""
    try:
        nodes, requests = api.list(NODE)[0], [item for item in api.list(CSR)[0] if spoke.is_open(item)]
    except KubeError as error:
        if not _passes(error):
            raise
        log.warning("The cluster does not answer: %s", error)
        return True
    # All at once: a host that is off costs seconds.
    with ThreadPoolExecutor(len(hosts)) as pool:
        looks = pool.map(partial(_look, nodes=nodes, requests=requests, names=names), hosts)
        owned = [request for own in looks for request in own]
    for host in hosts if following.approve else ():
        for request in host.requests:
            _approve(api, host, request)
    for request in unclaimed(requests, owned):
        hosts[0].say(logging.INFO, f"{shown(request)}; it is not known to be of a host that is followed")
    if failed := [host for host in hosts if host.failed]:
        raise WaitError("; ".join(f"host {host.at}: {host.failed}" for host in failed), EXIT_FATAL)
    return any(host.state is not State.READY for host in hosts)


def _look(host: _Host, nodes: list[Json], requests: list[Json], names: Mapping[str, str]) -> list[Json]:
    """Look at a host; return its kubelet's open requests."""
    node = next((item for item in nodes if host.at in target.addresses_of(item)), None)
    seen = Seen(node=node)
    if node is None:
        said, serves = host.ask()
        if said or host.joining is None:
            host.joining = joining_of(host.at, said, names) or _by_dns(host.at)
        seen = replace(seen, host=said, serves=serves, kubelet=not serves and host.has_kubelet())
    else:
        host.joining = Joining(str(node["metadata"]["name"]), target.addresses_of(node))
    mine = tuple(item for item in requests if host.joining is not None and spoke.is_of(item, host.joining))
    seen = replace(seen, requests=mine)
    for line in problems_of(seen.host):
        host.say(logging.WARNING, line)
    if seen.host.get("status") == HostStatus.ERROR:
        host.failed = problems_of(seen.host)[0]
    if stage := str((seen.host.get("progress") or {}).get("current_stage") or ""):
        # Its service calls it done as soon as it reboots, after which it learns nothing more.
        host.say(logging.INFO, Stage.REBOOTING if stage == Stage.DONE else stage)
    state = seen.state()
    # A host that reboots answers nowhere for a while, and a request that is approved waits no more: neither is a step
    # back.
    if ORDER.index(state) > ORDER.index(host.state):
        host.state = state
        log.info("Node %s: %s", host.at, state)
    for request in mine:
        host.say(logging.INFO, shown(request))
    host.requests = list(mine)
    return host.requests


def _passes(error: KubeError) -> bool:
    """Return whether to ask again: the only API server of a small cluster may well be away, or busy, for a moment."""
    return error.status in (0, 429) or error.status >= 500


def _approve(api: Api, host: _Host, request: Json) -> None:
    try:
        api.approve(CSR, spoke.approved(request, datetime.now(UTC), APPROVED))
    except Conflict:
        return  # somebody else was first
    except KubeError as error:
        text = f"CSR {request['metadata']['name']} of host {host.at} cannot be approved: {error}"
        if not _passes(error):
            raise ConfigError(text) from error
        log.warning("%s", text)
        return
    host.say(logging.INFO, f"CSR {request['metadata']['name']} is approved")
