"""A host as its validations see it: with its inventory, its peers, the cluster and the thresholds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

from installer.assisted import inventory as inv
from installer.assisted.enums import HostStatus, Role, Stage
from installer.assisted.stages import SNO
from installer.common.formats import jsontext
from installer.rendezvous.clock import age
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host, InfraEnv
from installer.rendezvous.validations import networks
from installer.rendezvous.validations.requirements import Requirements, minimum

FORBIDDEN_HOSTNAMES = frozenset(
    {"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6"}
    | {"localhost6.localdomain6"}
)


@lru_cache(4096)
def load_json(text: str) -> Any:
    """Return parsed JSON, or None for empty or broken text. The result is shared: it must not be changed."""
    try:
        return jsontext.parsed(text) if text else None
    except ValueError:
        return None


def same_image(first: str, second: str) -> bool:
    """Return whether two references name the same image, by digest if both have one: mirrors change names only."""
    if "@" in first and "@" in second:
        return first.rsplit("@", 1)[1] == second.rsplit("@", 1)[1]
    return first == second


def inventory_of(host: Host) -> inv.Inventory | None:
    """Return the host's inventory, or None when it has none that can be read."""
    return host.inventory.value


def hostname_of(host: Host, inventory: inv.Inventory | None) -> str:
    """Return the name that the host will have: the user's choice, else what it calls itself."""
    return host.user_hostname or (inventory.hostname if inventory else "") or host.requested_hostname


class Members:
    """All hosts of a cluster with their inventories, and who has which name and address."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts

    @cached_property
    def _pairs(self) -> list[tuple[Host, inv.Inventory | None]]:
        return [(host, inventory_of(host)) for host in self._hosts]

    def __iter__(self) -> Iterator[tuple[Host, inv.Inventory | None]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._hosts)

    @cached_property
    def by_id(self) -> Mapping[str, Host]:
        """Hosts by their ids."""
        return {host.id: host for host, _ in self._pairs}

    @cached_property
    def names(self) -> Mapping[str, Sequence[str]]:
        """Ids of the hosts by hostname."""
        by_name: dict[str, list[str]] = {}
        for host, inventory in self._pairs:
            by_name.setdefault(hostname_of(host, inventory), []).append(host.id)
        return by_name

    @cached_property
    def addresses(self) -> Mapping[str, Sequence[str]]:
        """Ids of the hosts by address, link-local ones left out."""
        by_address: dict[str, list[str]] = {}
        for host, inventory in self._pairs:
            for item in networks.interfaces_of(inventory) if inventory else ():
                if not item.ip.is_link_local and host.id not in by_address.setdefault(str(item.ip), []):
                    by_address[str(item.ip)].append(host.id)
        return by_address

    @cached_property
    def collisions(self) -> Mapping[str, tuple[str, str]]:
        """MACs by address that two machines answered for, as any host saw it."""
        return {ip: macs for host, _ in self._pairs for ip, macs in host.connectivity.findings.collisions.items()}

    @cached_property
    def clashing(self) -> frozenset[str]:
        """Ids of the hosts that share a name or an address with another host or machine."""
        shared = [*self.names.values(), *self.addresses.values()]
        clashing = {host_id for owners in shared if len(owners) > 1 for host_id in owners}
        return frozenset(clashing.union(*(self.addresses.get(ip, ()) for ip in self.collisions)))

    @cached_property
    def _reachable(self) -> dict[str, str]:
        return {
            host.id: f'{{"host_id":{json.dumps(host.id)},"nics":{host.inventory.nics}}}'
            for host, inventory in self._pairs
            if inventory is not None
        }

    @cached_property
    def network_fingerprint(self) -> str:
        """A short text that changes with what hosts are to be asked about each other."""
        return sha256("\0".join(self._reachable.values()).encode()).hexdigest()[:12]

    def peers_of(self, host: Host) -> str | None:
        """JSON list of the other hosts with their addresses, as connectivity-check takes it; None where there are
        none."""
        others = [text for host_id, text in self._reachable.items() if host_id != host.id]
        return f"[{','.join(others)}]" if others else None

    def display_name(self, host_id: str) -> str:
        """Return a host as a user knows it: its name, and the first MAC to tell two of one name apart."""
        host = self.by_id.get(host_id)
        if host is None:
            return host_id
        inventory = inventory_of(host)
        macs = [nic.mac_address for nic in inventory.interfaces if nic.mac_address] if inventory else []
        return f"{hostname_of(host, inventory) or host_id}" + (f" (MAC {macs[0]})" if macs else "")


@dataclass(frozen=True, kw_only=True)
class HostView:
    """One host among its peers at one moment."""

    host: Host
    inventory: inv.Inventory | None
    # The cluster that the host belongs to, if any.
    joined: Cluster | None
    infra_env: InfraEnv | None
    peers: Members
    requirements: Mapping[str, Requirements]
    settings: Settings
    at: datetime
    # When this service started: before that no host could have called in.
    service_since: datetime

    @property
    def cluster(self) -> Cluster:
        """The host's cluster. Raises LookupError when it belongs to none, of which only `UNBOUND` may be asked."""
        if self.joined is None:
            raise LookupError(f"host {self.host.id} belongs to no cluster")
        return self.joined

    @property
    def role(self) -> Role:
        """The chosen role, else the suggested one."""
        return self.host.effective_role

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
        """Return whether the agent has called in lately. After Rebooting nobody asks (installer.md §5.4)."""
        stage = self.host.progress.current_stage
        if stage in (Stage.REBOOTING, Stage.CONFIGURING, Stage.JOINED, Stage.WAITING_IGNITION, Stage.DONE):
            return True
        if self.host.status in (HostStatus.INSTALLED, HostStatus.INSTALLING_PENDING_USER_ACTION):
            return True
        limit = self.settings.host_disconnect + (self.settings.bootstrap_grace if self.host.bootstrap else 0)
        return min(age(self.host.checked_in_at, self.at), (self.at - self.service_since).total_seconds()) <= limit

    @property
    def least(self) -> Requirements:
        """The least that a host needs to be of any use: the lowest of each threshold."""
        return minimum(self.requirements, (Role.MASTER, Role.WORKER))

    def needs(self, role: Role | None = None) -> Requirements:
        """Thresholds of a role (the view's own by default); the lowest of all while none is known."""
        role = self.role if role is None else role
        if self.joined is not None and self.joined.is_sno and not self.host.added:
            return self.requirements[SNO]
        if role in (Role.MASTER, Role.BOOTSTRAP):
            return self.requirements[Role.MASTER]
        if role in (Role.ARBITER, Role.WORKER):
            return self.requirements[role]
        return self.least
