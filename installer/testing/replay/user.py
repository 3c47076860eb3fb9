"""The user of a site: registers a cluster, chooses disks, installs, and does what users do when it takes long."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any, TypeVar

from installer.agent.swarm.command import PULL_SECRET
from installer.agent.swarm.host import API, INGRESS
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient, path_of
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import ClusterStatus, HostStatus
from installer.assisted.errors import ClientError
from installer.testing.replay.faults import CALM, Plan
from installer.testing.replay.invariants import BEFORE, Invariants
from installer.testing.replay.machines import DISKS, URL, Machine
from installer.testing.replay.site import Cluster

C = ClusterStatus
ENDED = (C.INSTALLED, C.ERROR, C.CANCELLED)
#: How often a preparation that failed is begun anew.
TRIES = 4
LOOK, SELDOM = 15.0, 120.0
#: How long after the last fault everything must have come to an end, s: beyond each of the service's time-outs.
PATIENCE = 6 * 3600.0
T = TypeVar("T")


class User:
    """One user with one cluster on all machines of a site."""

    def __init__(self, plan: Plan, cluster: Cluster, invariants: Invariants, token: str) -> None:
        self._plan, self._cluster, self._invariants = plan, cluster, invariants
        self._network: IPv4Network = cluster.machines[0].site.network
        self._workers, self._loop = cluster.workers, cluster.workers.loop
        self._client = AssistedClient(endpoint(URL), Scheme.USER, token)
        self._id = self._infra_env_id = ""

    def work(self) -> None:
        """Install, again where that fails, and come to an end."""
        self._register()
        for machine in self._cluster.machines:
            machine.infra_env_id = self._infra_env_id
            self._loop.call_soon(machine.boot_live)
        for attempt in range(self._plan.attempts):
            if attempt:
                self._act("reset")
                self._workers.sleep(20.0)
                for machine in self._cluster.machines:
                    self._loop.call_soon(machine.boot_live)
            hurry = self._plan.impatience[attempt] if attempt < len(self._plan.impatience) else None
            if self._install(hurry) == C.INSTALLED:
                break
        # What is under way has to come to its end by itself.
        self._watch(*ENDED, *BEFORE)
        # Machines that were told late, and judgements that wait for the next look.
        self._workers.sleep(60.0)
        self._client.close()

    def _install(self, hurry: tuple[float, str] | None) -> str:
        status = ""
        for _ in range(TRIES):
            status = self._watch(C.READY, *ENDED, until=max(CALM, self._loop.time()) + 1800.0)
            if status != C.READY:
                return status
            self._choose_disks()
            self._act("install")
            if hurry is not None:
                self._watch(*ENDED, *BEFORE, until=self._loop.time() + hurry[0])
                self._cluster.luck.struck[hurry[1]] += 1
                self._act("reset" if hurry[1] == "reset user" else "cancel")
                self._workers.sleep(LOOK)
            status = self._watch(*ENDED, *BEFORE)
            if status in ENDED:
                return status
            if hurry is not None:
                return status
        return status

    def _ask(self, call: Callable[[], T]) -> T:
        """Ask until there is an answer. Raises ClientError for a refusal."""
        while True:
            try:
                return call()
            except ClientError as error:
                if not error.is_passing:
                    raise
                self._workers.sleep(5.0)

    def _register(self) -> None:
        network, size = self._network, self._plan.size
        body: dict[str, Any] = {
            "name": "replay",
            "base_dns_domain": "swarm.invalid",
            "openshift_version": "4.18.0",
            "pull_secret": PULL_SECRET,
            "machine_networks": [{"cidr": str(network)}],
            "control_plane_count": 1 if size == 1 else 3,
            "platform": {"type": "none" if size == 1 else "baremetal"},
        }
        if size > 1:
            body |= {"api_vips": [{"ip": str(network[API])}], "ingress_vips": [{"ip": str(network[INGRESS])}]}
        self._id = self._invariants.wanted = str(self._ask(lambda: self._client.register_cluster(body))["id"])
        body = {"name": "replay", "pull_secret": PULL_SECRET, "cluster_id": self._id}
        self._infra_env_id = str(self._ask(lambda: self._client.register_infra_env(body))["id"])

    def _watch(self, *statuses: str, until: float | None = None) -> str:
        """Poll until the cluster is in one of these statuses, or until a time (s); the last status seen."""
        end = max(CALM, self._loop.time()) + PATIENCE if until is None else until
        begin, pause = self._loop.time(), LOOK
        while True:
            status = str(self._ask(lambda: self._client.cluster(self._id))["status"])
            if status in statuses or self._loop.time() >= end:
                return status
            if status == C.INSTALLING_PENDING_USER_ACTION:
                self._help()
            if self._loop.time() - begin > 1800.0:
                pause = SELDOM
            self._workers.sleep(min(pause, max(0.1, end - self._loop.time())))

    def _help(self) -> None:
        """Boot from their disks the hosts that wait for that."""
        for host in self._ask(lambda: self._client.hosts(self._infra_env_id)):
            if host["status"] == HostStatus.INSTALLING_PENDING_USER_ACTION:
                machine = next(item for item in self._cluster.machines if item.id == host["id"])
                self._loop.call_soon(self._cluster.boot_disk, machine)

    def _choose_disks(self) -> None:
        for number, disk in sorted(self._plan.chosen.items()):
            machine = self._cluster.machines[number]
            key = DISKS[disk]
            if self._invariants.chosen.get(machine.id) != key and self._choose(machine, key):
                self._invariants.chosen[machine.id] = key

    def _choose(self, machine: Machine, key: str) -> bool:
        body = {"disks_selected_config": [{"id": key, "role": "install"}]}
        try:
            self._ask(lambda: self._client.update_host(self._infra_env_id, machine.id, body))
        except ClientError as error:
            self._cluster.note("user", f"the disk of {machine.name} is refused: {error.reason}")
            return False
        return True

    def _act(self, action: str) -> None:
        """POST an action of the cluster; a refusal is noted."""
        path = path_of("clusters", self._id, "actions", action)
        self._cluster.note("user", action)
        try:
            self._ask(lambda: self._client.call("POST", path))
        except ClientError as error:
            self._cluster.note("user", f"{action} is refused: {error.reason}")
