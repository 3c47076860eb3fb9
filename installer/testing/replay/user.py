"""The user of a site: registers a cluster, chooses disks, installs, and does what users do when it takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from installer.agent.swarm.command import PULL_SECRET
from installer.agent.swarm.host import API, INGRESS
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient, path_of
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import ClusterStatus
from installer.assisted.errors import ClientError
from installer.testing.replay.machines import URL, Machine
from installer.testing.replay.turns import Workers

C = ClusterStatus
TERMINAL = (C.INSTALLED, C.ERROR, C.CANCELLED)
T = TypeVar("T")


class User:
    """One user with one cluster."""

    def __init__(self, workers: Workers, token: str, network: Any, note: Callable[[str, str], None]) -> None:
        self._workers, self._network, self._note = workers, network, note
        self.client = AssistedClient(endpoint(URL), Scheme.USER, token)
        self.cluster_id = ""
        self.infra_env_id = ""

    def ask(self, call: Callable[[], T]) -> T:
        """Ask until there is an answer. Raises ClientError for a refusal."""
        while True:
            try:
                return call()
            except ClientError as error:
                if not error.is_passing:
                    raise
                self._workers.sleep(5.0)

    def register(self, size: int) -> None:
        """Register the cluster and its infra-env."""
        network = self._network
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
        self.cluster_id = str(self.ask(lambda: self.client.register_cluster(body))["id"])
        body = {"name": "replay", "pull_secret": PULL_SECRET, "cluster_id": self.cluster_id}
        self.infra_env_id = str(self.ask(lambda: self.client.register_infra_env(body))["id"])

    def status(self) -> str:
        """Return the cluster's status."""
        return str(self.ask(lambda: self.client.cluster(self.cluster_id))["status"])

    def wait_for(self, *statuses: str, seconds: float) -> str:
        """Poll until the cluster is in one of these statuses, for so long at most; the last status seen."""
        end = self._workers.loop.time() + seconds
        while (status := self.status()) not in statuses and self._workers.loop.time() < end:
            self._workers.sleep(15.0)
        return status

    def choose(self, machine: Machine, disk: str) -> None:
        """Choose a host's installation disk. Raises ClientError."""
        body = {"disks_selected_config": [{"id": disk, "role": "install"}]}
        self.ask(lambda: self.client.update_host(self.infra_env_id, machine.id, body))

    def act(self, action: str) -> bool:
        """POST an action of the cluster; returns whether it was taken."""
        path = path_of("clusters", self.cluster_id, "actions", action)
        try:
            self.ask(lambda: self.client.call("POST", path))
        except ClientError as error:
            self._note("user", f"{action} is refused: {error.reason}")
            return False
        return True
