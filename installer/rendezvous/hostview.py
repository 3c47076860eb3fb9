"""What a host's validations look at: the host, its inventory, its peers, the cluster and the thresholds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from installer.rendezvous import inventory as inv
from installer.rendezvous import networks
from installer.rendezvous.clock import age
from installer.rendezvous.enums import HostStatus, Role, Stage
from installer.rendezvous.hwreqs import Requirements, minimum
from installer.rendezvous.model import Cluster, Host, InfraEnv
from installer.rendezvous.settings import Settings

FORBIDDEN_HOSTNAMES = frozenset(
    {"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6"}
    | {"localhost6.localdomain6"}
)


def load_json(text: str) -> Any:
    """Parsed JSON, or None for empty or broken text."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def same_image(first: str, second: str) -> bool:
    """Do two references name the same image? By digest where both have one: mirrors change the name only."""
    if "@" in first and "@" in second:
        return first.rsplit("@", 1)[1] == second.rsplit("@", 1)[1]
    return first == second


def inventory_of(host: Host) -> inv.Inventory | None:
    """The host's inventory, or None when it has none that can be read."""
    if not host.inventory:
        return None
    try:
        return inv.decode(host.inventory)
    except msgspec.MsgspecError:
        return None


def hostname_of(host: Host, inventory: inv.Inventory | None) -> str:
    """The name that the host will have: the user's choice, else what it calls itself."""
    return host.user_hostname or (inventory.hostname if inventory else "") or host.requested_hostname


@dataclass(frozen=True)
class HostView:
    """One host among its peers at one moment."""

    host: Host
    inventory: inv.Inventory | None
    cluster: Cluster
    infra_env: InfraEnv | None
    peers: Sequence[tuple[Host, inv.Inventory | None]]
    requirements: Mapping[str, Requirements]
    settings: Settings
    at: datetime
    # When this service started: before that nobody could have called in.
    service_since: datetime

    @property
    def role(self) -> Role:
        """The chosen role, else the suggested one."""
        return self.host.suggested_role if self.host.role is Role.AUTO else self.host.role

    @property
    def hostname(self) -> str:
        """The name that the host will have."""
        return hostname_of(self.host, self.inventory)

    @property
    def machine_cidrs(self) -> list[str]:
        """The cluster's machine networks."""
        return networks.machine_cidrs(self.cluster)

    @property
    def connected(self) -> bool:
        """Has the agent called in lately? After Rebooting nobody asks (installer.md §5.4)."""
        stage = self.host.progress.current_stage
        if stage in (Stage.REBOOTING, Stage.CONFIGURING, Stage.JOINED, Stage.WAITING_IGNITION, Stage.DONE):
            return True
        if self.host.status in (HostStatus.INSTALLED, HostStatus.INSTALLING_PENDING_USER_ACTION):
            return True
        limit = self.settings.host_disconnect + (self.settings.bootstrap_grace if self.host.bootstrap else 0)
        return min(age(self.host.checked_in_at, self.at), (self.at - self.service_since).total_seconds()) <= limit

    def needs(self, role: Role | None = None) -> Requirements:
        """Thresholds of a role (the view's own by default); the lowest of all while none is known."""
        role = self.role if role is None else role
        if self.cluster.is_sno:
            return self.requirements["sno"]
        if role in (Role.MASTER, Role.BOOTSTRAP):
            return self.requirements["master"]
        if role in (Role.ARBITER, Role.WORKER):
            return self.requirements[role.value]
        return minimum(dict(self.requirements), ("master", "worker"))
