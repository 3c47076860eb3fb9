"""The controller's other half: reports the progress of nodes and cluster to a service that outlives the bootstrap.

As assisted-installer-controller does it (reference/cluster.md §8.2, installer.md §7.2): hosts become Joined with their
node and Done when it is Ready; then console and cvo are reported until both are available; then the ingress CA goes
into the user's kubeconfig and the installation is complete. A cluster that was installed by its own agent image
(invoker agent-installer) has nobody to report to: its service ended with the reboot.
"""

from __future__ import annotations

import atexit
import base64
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import requests

from lab.release.cluster.errors import ClusterError, ServiceError
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.kube.conditions import is_status

log = logging.getLogger(__name__)

NAMESPACE = "assisted-installer"
CONFIG_MAP = "assisted-installer-controller-config"
SECRET = "assisted-installer-controller-secret"
AGENT_INVOKER = "agent-installer"
BASE = "/api/assisted-install/v2"
#: The real one polls every 30 s (nodes) and 60 s (operators); a poll costs three small requests.
POLL_SECONDS = 15.0
OPERATORS_SECONDS = 10 * 3600.0
REQUEST_SECONDS = 60.0
UNAUTHORIZED_LIMIT = 3
OVER = ("installed", "cancelled", "error")
AFTER_REBOOT = ("Rebooting", "Waiting for ignition", "Configuring", "Joined")
CONFIG = "config.openshift.io/v1"


@dataclass(frozen=True)
class Target:
    """A report's destination and subject, as the bootstrap host left them in the cluster."""

    url: str
    ca_pem: str
    insecure: bool
    token: str = field(repr=False)
    cluster_id: str
    attempt: str = ""


def target(kube: Kube) -> Target | None:
    """Return the service to report to; None when there is none. Raises ApiError."""
    invoked = kube.get("v1", "ConfigMap", "openshift-install-manifests", "openshift-config")
    if invoked is None or (invoked.get("data") or {}).get("invoker") == AGENT_INVOKER:
        return None
    config = kube.get("v1", "ConfigMap", CONFIG_MAP, NAMESPACE)
    secret = kube.get("v1", "Secret", SECRET, NAMESPACE)
    if config is None or secret is None:
        return None
    data = config["data"]
    return Target(
        url=data["inventory-url"].rstrip("/"),
        ca_pem=data.get("ca-cert", ""),
        insecure=data.get("skip-cert-verification") == "true",
        token=base64.b64decode(secret["data"]["pull-secret-token"]).decode(),
        cluster_id=data["cluster-id"],
        attempt=data.get("installation-attempt", ""),
    )


class Service:
    """The service's API with an agent's token."""

    def __init__(self, where: Target) -> None:
        self._base = where.url + BASE
        self._session = requests.Session()
        self._session.trust_env = False  # the service is on the nodes' own network
        self._session.headers["X-Secret-Key"] = where.token
        if where.attempt:
            self._session.headers["X-Installation-Attempt"] = where.attempt
        self._session.verify = not where.insecure
        if where.ca_pem and not where.insecure:
            keep = tempfile.TemporaryDirectory(prefix="service-")
            atexit.register(keep.cleanup)
            bundle = Path(keep.name) / "ca.crt"
            bundle.write_text(where.ca_pem)
            self._session.verify = str(bundle)

    def call(self, method: str, path: str, body: object = None) -> Object | list[Object]:
        """One request. Raises ServiceError, with status 0 when there was no answer."""
        try:
            answer = self._session.request(
                method,
                self._base + path,
                json=body,
                timeout=REQUEST_SECONDS,
                # requests takes only the header Authorization off a request that is sent on to another host.
                allow_redirects=False,
            )
        except (requests.RequestException, OSError) as error:
            raise ServiceError(method, path, 0, str(error)) from error
        if answer.status_code >= 300:
            raise ServiceError(method, path, answer.status_code, answer.text[:300])
        content: Object | list[Object] = answer.json() if answer.content else {}
        return content


def addresses(host: Object) -> set[str]:
    """All addresses in a host's inventory, without prefix lengths."""
    inventory = json.loads(host.get("inventory") or "{}")
    nics = inventory.get("interfaces") or []
    texts = [text for nic in nics for key in ("ipv4_addresses", "ipv6_addresses") for text in nic.get(key) or []]
    return {text.split("/")[0] for text in texts}


def node_of(host: Object, nodes: list[Object]) -> Object | None:
    """Return the node that a host has become, by name, else by address."""
    name = str(host.get("requested_hostname") or "").lower()
    for node in nodes:
        node_addresses = (node.get("status") or {}).get("addresses") or []
        internal = {item["address"] for item in node_addresses if item["type"] == "InternalIP"}
        if node["metadata"]["name"] == name or internal & addresses(host):
            return node
    return None


def operator_status(conditions: list[Object]) -> tuple[str, str]:
    """(status, message) for the service: the first condition that says something decides (cluster.md §8.2)."""
    for item in conditions:
        kind, holds = item.get("type"), item.get("status") == "True"
        if kind == "Available":
            return ("available" if holds else "failed"), item.get("message", "")
        if kind == "Progressing" and holds:
            return "progressing", item.get("message", "")
        if kind == "Degraded" and holds:
            return "failed", item.get("message", "")
    return "progressing", ""


class Reporter:
    """One cluster's reports; call ``step`` until it returns that there is nothing left to report."""

    def __init__(self, kube: Kube, where: Target, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._cluster = f"/clusters/{where.cluster_id}"
        self._service = Service(where)
        self._clock = clock
        self._told: dict[str, object] = {}
        self._since: float | None = None

    def step(self) -> bool:
        """Report what has changed; returns whether reporting is over. Raises ApiError, ServiceError."""
        cluster = self._service.call("GET", self._cluster)
        assert isinstance(cluster, dict)
        if cluster["status"] in OVER:
            log.info("The service calls the cluster %s", cluster["status"])
            return True
        hosts = self._service.call("GET", f"{self._cluster}/hosts?with-inventory=true")
        assert isinstance(hosts, list)
        self._nodes(hosts)
        return cluster["status"] == "finalizing" and self._finalize()

    def _nodes(self, hosts: list[Object]) -> None:
        waiting = [h for h in hosts if (h.get("progress") or {}).get("current_stage") in AFTER_REBOOT]
        nodes = self._kube.list("v1", "Node") if waiting else []
        for host in waiting:
            node = node_of(host, nodes)
            if node is None:
                continue
            if host["progress"]["current_stage"] != "Joined":
                self._stage(host, "Joined")
            if is_status((node.get("status") or {}).get("conditions") or [], "Ready"):
                self._stage(host, "Done")

    def _stage(self, host: Object, stage: str) -> None:
        path = f"/infra-envs/{host['infra_env_id']}/hosts/{host['id']}/progress"
        if self._tell("PUT", path, {"current_stage": stage}):
            log.info("Host %s is %s", host.get("requested_hostname"), stage)

    def _tell(self, method: str, path: str, body: object) -> bool:
        """Report, and return whether the service accepted it; another node's controller may have been first (409)."""
        try:
            self._service.call(method, path, body)
        except ServiceError as error:
            if error.status != 409:
                raise
            return False
        return True

    def _once(self, path: str, body: Object) -> None:
        """Report a state, unless it is the one that was reported last."""
        key = f"{path} {body.get('name', '')}"
        if self._told.get(key) != body:
            self._tell("PUT", path, body)
            self._told[key] = body

    def _finalize(self) -> bool:
        since = self._since = self._clock() if self._since is None else self._since
        progress = f"{self._cluster}/progress"
        if not self._told:
            self._once(progress, {"finalizing_stage": "Waiting for cluster operators"})
        waiting = [f"{name}: {text}" for name, status, text in self._operators() if status != "available"]
        ca = self._kube.get("v1", "ConfigMap", "default-ingress-cert", "openshift-config-managed")
        if ca is None:
            waiting.append("ConfigMap default-ingress-cert is not there")
        if waiting or ca is None:
            if self._clock() - since < OPERATORS_SECONDS:
                return False
            return self._complete(f"not within {OPERATORS_SECONDS / 3600:.0f} h: {'; '.join(waiting)}")
        self._once(progress, {"finalizing_stage": "Adding router ca"})
        self._service.call("POST", f"{self._cluster}/uploads/ingress-cert", ca["data"]["ca-bundle.crt"])
        self._once(progress, {"finalizing_stage": "Done"})
        return self._complete("")

    def _operators(self) -> list[tuple[str, str, str]]:
        """(name, status, message) of console and cvo, which are also reported to the service."""
        states = []
        version = self._kube.get(CONFIG, "ClusterVersion", "version")
        console = self._kube.get(CONFIG, "ClusterOperator", "console")
        for name, item in (("console", console), ("cvo", version)):
            state = (item or {}).get("status") or {}
            status, message = operator_status(state.get("conditions") or [])
            history = state.get("history") or state.get("versions") or [{}]
            body = {"name": name, "status": status, "status_info": message, "version": history[0].get("version", "")}
            self._once(f"{self._cluster}/monitored-operators", body)
            states.append((name, status, message))
        return states

    def _complete(self, problem: str) -> bool:
        body = {"is_success": not problem, "error_info": problem}
        self._tell("POST", f"{self._cluster}/actions/complete-installation", body)
        log.info("The installation is complete%s", f", but failed: {problem}" if problem else "")
        return True


def run(kube: Kube, stop: threading.Event, poll: float = POLL_SECONDS) -> None:
    """Report until there is nothing left to report, or no service to report to, or ``stop`` is set."""
    reporter: Reporter | None = None
    seen, refused = "", 0
    while not stop.is_set():
        try:
            if reporter is None:
                where = target(kube)
                if where is None:
                    return
                log.info("Reporting to %s", where.url)
                reporter = Reporter(kube, where)
            if reporter.step():
                return
            refused = 0
        except (ClusterError, OSError) as error:
            if str(error) != seen:
                log.warning("%s", error)
                seen = str(error)
            status = error.status if isinstance(error, ServiceError) else 0
            refused = refused + 1 if status in (401, 403) else 0
            # 409: the attempt to install that made this cluster is over.
            if status in (404, 409) or refused >= UNAUTHORIZED_LIMIT:
                log.warning("The service no longer knows this cluster: nothing is reported to it any more")
                return
        stop.wait(poll)
