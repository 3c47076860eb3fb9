"""What the cluster's validations look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from installer.assisted.inventory import Inventory
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host


@dataclass(frozen=True)
class ClusterView:
    """The cluster with its hosts, and how many manifests the user has given."""

    cluster: Cluster
    hosts: Sequence[tuple[Host, Inventory | None]]
    settings: Settings
    manifests: int = 0

    @property
    def discovered(self) -> bool:
        """Has any host told what it is?"""
        return any(inventory is not None for _, inventory in self.hosts)

    def cidrs(self, which: str) -> list[str]:
        """CIDRs of ``machine``, ``cluster`` or ``service`` networks."""
        items = getattr(self.cluster, f"{which}_networks")
        return [str(item["cidr"]) for item in items if item.get("cidr")]

    def vips(self, which: str) -> list[str]:
        """Addresses of ``api`` or ``ingress`` VIPs."""
        return [str(item["ip"]) for item in getattr(self.cluster, f"{which}_vips") if item.get("ip")]
