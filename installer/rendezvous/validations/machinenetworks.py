"""Machine networks that nobody gave: those of the hosts in which the VIPs lie, or of the single node.

Upstream's autoAssignMachineNetworkCidr (internal/cluster/cluster.go).
"""

from __future__ import annotations

from collections.abc import Sequence

from installer.assisted.enums import ClusterStatus
from installer.assisted.inventory import Inventory
from installer.rendezvous.store.model import Cluster
from installer.rendezvous.validations import networks

# Statuses of a cluster in which machine networks are still derived.
OPEN = (ClusterStatus.PENDING_FOR_INPUT, ClusterStatus.INSUFFICIENT)


def computed(cluster: Cluster, inventories: Sequence[Inventory]) -> list[str]:
    """Return the machine networks that the cluster is to have: as they are when nothing better can be told."""
    current = networks.machine_cidrs(cluster)
    if cluster.status not in OPEN or not inventories:
        return current
    if cluster.is_sno:
        return current or _of_single_node(cluster, inventories)
    if cluster.user_managed_networking or networks.own_load_balancer(cluster) or cluster.vip_dhcp_allocation:
        return current
    return _of_vips(cluster, inventories, current)


def network_of_vip(vip: str, inventories: Sequence[Inventory]) -> str:
    """Return the first of the hosts' networks that a VIP lies in, empty when it lies in none."""
    address = networks.address_of(vip)
    for inventory in inventories:
        for item in networks.interfaces_of(inventory):
            if item.version == address.version and address in item.network:
                return str(item.network)
    return ""


def vip_pairs(cluster: Cluster) -> list[str]:
    """Return the VIPs from which the networks follow: the API's, or the Ingress's where that is missing."""
    api, ingress = ([str(vip["ip"]) for vip in vips] for vips in (cluster.api_vips, cluster.ingress_vips))
    return [*api, *ingress[len(api) :]]


def _of_vips(cluster: Cluster, inventories: Sequence[Inventory], current: list[str]) -> list[str]:
    networks_of_vips = [network_of_vip(vip, inventories) for vip in vip_pairs(cluster)[:2]]
    primary, secondary = [*networks_of_vips, "", ""][:2]
    dual_stack = len(set(networks.families(current))) > 1
    if not primary and dual_stack:
        return current
    before = [*(str(networks.network_of(cidr)) for cidr in current), "", ""]
    if primary == before[0] and secondary in ("", before[1]):
        return current
    return [cidr for cidr in (primary, secondary) if cidr]


def _of_single_node(cluster: Cluster, inventories: Sequence[Inventory]) -> list[str]:
    """One network a family: the only one, else that of the default route. None when the families do not agree."""
    wanted = networks.families(str(item["cidr"]) for item in cluster.cluster_networks)
    if wanted != networks.families(str(item["cidr"]) for item in cluster.service_networks):
        return []
    chosen = []
    for version in wanted:
        items = [item for inventory in inventories for item in networks.interfaces_of(inventory)]
        candidates = sorted({item.network for item in items if item.version == version and not item.ip.is_link_local})
        if not candidates:
            return []
        if len(candidates) > 1:
            route = networks.best_default_route(inventories[0], version)
            # IPv6 gateways are mostly link-local, which says nothing of the network.
            candidates = [network for network in candidates if route and networks.address_of(route.gateway) in network]
            if not candidates:
                return []
        chosen.append(str(candidates[0]))
    return chosen
