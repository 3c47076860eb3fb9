"""Networks and virtual addresses of a cluster, judged where they come in: at registration, and stricter at a change.

Rules of upstream's service: internal/cluster/validations/validations.go, internal/network (cidr_validations.go,
dual_stack_validations.go, utils.go), internal/bminventory/inventory.go (updateNonDhcpNetworkParams, updateNetworks). At
a change a cluster of one address family gets its machine network from the hosts: the one of its virtual addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations, product
from typing import Any

from installer.assisted.errors import BadRequest
from installer.assisted.inventory import Inventory
from installer.rendezvous.store.model import Cluster
from installer.rendezvous.validations.machinenetworks import network_of_vip
from installer.rendezvous.validations.networks import network_of, overlap, vip_refusal

Net = IPv4Network | IPv6Network
# Bits of addresses that a network must leave, which is 128 addresses for pods and services; of a machine network 16, 4
# with a load balancer of the user's own, 2 on a single node.
POD_BITS, MACHINE_BITS, BALANCED_BITS, SINGLE_BITS = 7, 4, 2, 1
# Hosts for which a cluster network must have room, however few there are.
LEAST_HOSTS = 4


@dataclass(frozen=True, kw_only=True)
class Networks:
    """A cluster's networks and virtual addresses as they would be."""

    machine: Sequence[str] = ()
    service: Sequence[str] = ()
    #: CIDR and host prefix (0: none) of each.
    cluster: Sequence[tuple[str, int]] = ()
    api: Sequence[str] = ()
    ingress: Sequence[str] = ()
    own_balancer: bool = False

    @classmethod
    def of(cls, cluster: Cluster | None, changes: dict[str, Any]) -> Networks:
        """Return the networks of a cluster with changes (fields as the store has them); of the changes alone where no
        cluster is given."""

        def now(name: str) -> Any:
            return changes[name] if name in changes else getattr(cluster, name) if cluster is not None else ()

        balancer = now("load_balancer") or {}
        return cls(
            machine=[item["cidr"] for item in now("machine_networks")],
            service=[item["cidr"] for item in now("service_networks")],
            cluster=[(item["cidr"], item.get("host_prefix", 0)) for item in now("cluster_networks")],
            api=[item["ip"] for item in now("api_vips")],
            ingress=[item["ip"] for item in now("ingress_vips")],
            own_balancer=balancer.get("type") == "user-managed",
        )

    @property
    def lists(self) -> dict[str, list[str]]:
        """The three lists of networks, by the specification's names."""
        pods = [cidr for cidr, _ in self.cluster]
        return {"machine_networks": [*self.machine], "service_networks": [*self.service], "cluster_networks": pods}

    @property
    def is_dual_stack(self) -> bool:
        """Return whether one of the lists has networks of both families."""
        return any(len(_families(cidrs)) > 1 for cidrs in self.lists.values())


def _families(texts: Iterable[str]) -> set[int]:
    return {network_of(text).version for text in texts}


def _check_same_family_first(networks: Networks) -> None:
    """Check that every list begins with the same family."""
    first = {"api_vips": networks.api, "ingress_vips": networks.ingress}
    pair: tuple[str, str] | None = None
    for name, values in ({"machine_networks": networks.machine} | first | networks.lists).items():
        if not values:
            continue
        if pair is None:
            pair = name, values[0]
        elif _families([pair[1]]) != _families([values[0]]):
            raise BadRequest(
                f"Inconsistent IP family order: {pair[0]} first IP is {pair[1]} but {name} first IP is {values[0]}. "
                "All networks must have the same IP family first"
            )


def _check_one_of_each_family(values: Sequence[str], kind: str, unit: str) -> None:
    """Raise BadRequest unless a list is of two networks, one of each family."""
    if len(values) != 2:
        raise BadRequest(f"Expected 2 {kind}, found {len(values)}")
    for family in (4, 6):
        if family not in _families(values):
            raise BadRequest(f"dual-stack {kind} must include exactly one IPv{family} {unit}")


def _check_vips(networks: Networks) -> None:
    """As many of each kind, none twice, one of each family where there are two. Raises BadRequest with all problems."""
    api, ingress, problems = networks.api, networks.ingress, []
    if len(api) != len(ingress):
        problems.append(
            "configuration must include the same number of apiVIPs "
            f"(got {len(api)}) and ingressVIPs (got {len(ingress)})"
        )
    for name, values in (("apiVIPs", api), ("ingressVIPs", ingress)):
        twice = sorted({value for value in values if values.count(value) > 1})
        problems += [f'The IP address "{value}" appears multiple times in {name}' for value in twice]
    if not networks.own_balancer:
        both = sorted(set(api) & set(ingress))
        problems += [f'The IP address "{value}" appears both in apiVIPs and ingressVIPs' for value in both]
    if problems:
        raise BadRequest("; ".join(problems))
    for name, values in (("apiVIPs", api), ("ingressVIPs", ingress)):
        if len(values) == 2:
            _check_one_of_each_family(values, name, "address")


def _check_stacks(networks: Networks) -> None:
    """One network of each family in every list, or one machine network only."""
    if networks.is_dual_stack:
        for name, cidrs in networks.lists.items():
            if cidrs:
                _check_one_of_each_family(cidrs, name.replace("_", " "), "subnet")
    elif len(networks.machine) > 1 and not networks.own_balancer:
        raise BadRequest("Single-stack cluster cannot contain multiple Machine Networks")


def _check_no_vips(networks: Networks) -> None:
    for name, values in (("API", networks.api), ("Ingress", networks.ingress)):
        if values:
            raise BadRequest(f"{name} VIPs cannot be set with User Managed Networking")


def _check_vips_within(networks: Networks, machine: Sequence[str], *, needed: bool = False) -> None:
    """Each pair in the machine network of its place, or with a load balancer of the user's own in any.

    ``needed``: of each kind there must be one.
    """
    problems: list[str] = []
    for name, values in (("api-vip", networks.api), ("ingress-vip", networks.ingress)):
        for index, vip in enumerate(values or ([""] if needed else [])):
            tried = machine if networks.own_balancer else machine[index : index + 1]
            complaints = [vip_refusal(vip, name, cidr) for cidr in tried]
            if all(complaints):
                problems += complaints
    if problems:
        raise BadRequest("; ".join(problems))


def check_registration(networks: Networks, defaults: Networks, *, user_managed: bool) -> None:
    """Judge a new cluster's networks as they were given, and with the defaults. Raises BadRequest."""
    if defaults.is_dual_stack:
        _check_same_family_first(defaults)
    _check_vips(networks)
    _check_stacks(networks)
    if user_managed:
        _check_no_vips(networks)
    if networks.machine:
        _check_vips_within(networks, networks.machine)
    elif networks.is_dual_stack and not networks.own_balancer:
        raise BadRequest("Dual-stack cluster cannot be created with empty Machine Networks")


def consequences(
    cluster: Cluster, changes: dict[str, Any], inventories: Sequence[Inventory], *, user_managed: bool, named: bool
) -> dict[str, Any]:
    """Return what a change means for networks and virtual addresses, as fields of the store. Raises BadRequest.

    ``user_managed``: after the change; ``named``: it asks for that by name, not by a platform that has it so.
    """
    networks = Networks.of(cluster, changes)
    requested = {name for name in ("api_vips", "ingress_vips") if name in changes}
    before, own = Networks.of(cluster, {}), Networks.of(None, changes)
    if before.is_dual_stack or own.is_dual_stack:
        _check_same_family_first(networks if before.is_dual_stack else own)
    if networks.is_dual_stack and not networks.machine and not networks.own_balancer:
        raise BadRequest("Dual-stack cluster cannot be created with empty Machine Networks")
    follows: dict[str, Any] = {}
    if user_managed:
        if named and (networks.api or networks.ingress):
            kind = "API" if networks.api else "Ingress"
            raise BadRequest(f"User Managed Networking cannot be set with {kind} VIPs")
        _check_no_vips(Networks(api=networks.api if "api_vips" in requested else (),
                               ingress=networks.ingress if "ingress_vips" in requested else ()))  # fmt: skip
        follows = {name: [] for name in ("api_vips", "ingress_vips") if getattr(cluster, name)}
        if not cluster.user_managed_networking and "machine_networks" not in changes:
            follows["machine_networks"] = []
        _check_stacks(networks)
    else:
        _check_vips(networks)
        _check_stacks(networks)
        follows = _cluster_managed(networks, changes, inventories, asked=bool(requested))
    _check_sizes(cluster, {**changes, **follows}, hosts=len(inventories), user_managed=user_managed)
    return follows


def _cluster_managed(
    networks: Networks, changes: dict[str, Any], inventories: Sequence[Inventory], *, asked: bool
) -> dict[str, Any]:
    """Networking that the cluster manages: its machine network comes from its hosts, where it has one family."""
    if networks.is_dual_stack:
        if asked:
            _check_one_of_each_family(networks.machine, "machine networks", "subnet")
            _check_vips_within(networks, networks.machine, needed=True)
        return {}
    if changes.get("machine_networks") and not networks.own_balancer:
        raise BadRequest(
            "Setting the Machine Network CIDR is forbidden when the cluster is neither in VIP DHCP allocation mode "
            "nor using a user-managed load balancer"
        )
    if not asked:
        return {}
    if networks.own_balancer:
        if not networks.machine:
            vip = next(iter((*networks.api, *networks.ingress)), "")
            raise BadRequest(f"no machine networks to verify VIP: {vip} with")
        _check_vips_within(networks, networks.machine, needed=True)
        return {}
    vip = next(iter((*networks.api, *networks.ingress)), "")
    if not vip:
        return {}
    cidr = network_of_vip(vip, inventories)
    if not cidr:
        raise BadRequest(f"Calculate machine network CIDR: No suitable matching CIDR found for VIP {vip}")
    _check_vips_within(networks, [cidr])
    return {"machine_networks": [{"cidr": cidr}]}


def _check_sizes(cluster: Cluster, changes: dict[str, Any], *, hosts: int, user_managed: bool) -> None:
    """Check that networks that change are large enough, networks of their own, and apart from each other."""
    networks, before = Networks.of(cluster, changes), Networks.of(cluster, {})
    if _normal(networks.cluster) != _normal(before.cluster):
        for cidr, prefix in networks.cluster:
            _check_subnet(cidr, POD_BITS, "Cluster network CIDR")
            if prefix < 1:
                raise BadRequest(f"Cluster network host prefix {prefix}: it must be a positive integer")
            _check_room(cidr, prefix, hosts)
    if _normal((cidr, 0) for cidr in networks.service) != _normal((cidr, 0) for cidr in before.service):
        for cidr in networks.service:
            _check_subnet(cidr, POD_BITS, "Service network CIDR")
    if _normal((cidr, 0) for cidr in networks.machine) != _normal((cidr, 0) for cidr in before.machine):
        bits = SINGLE_BITS if cluster.is_sno else BALANCED_BITS if networks.own_balancer else MACHINE_BITS
        for cidr in networks.machine:
            _check_subnet(cidr, bits, "Machine network CIDR")
    if any(f"{kind}_networks" in changes for kind in ("machine", "service", "cluster")):
        _check_apart(networks, with_machine=user_managed)


def _check_apart(networks: Networks, *, with_machine: bool) -> None:
    """Raise BadRequest where networks of two kinds overlap; others than these are the validations' to judge."""
    kinds = {"ServiceNetworkCidr": networks.service, "ClusterNetworkCidr": [cidr for cidr, _ in networks.cluster]}
    if with_machine:
        kinds = {"MachineNetworkCIDR": networks.machine, **kinds}
    for (first, cidrs), (second, others) in combinations(kinds.items(), 2):
        for cidr, other in product(cidrs, others):
            if overlap(cidr, other):
                raise BadRequest(f"{first} and {second}: CIDRS {cidr} and {other} overlap")


def _normal(networks: Iterable[tuple[str, int]]) -> list[tuple[Net, int]]:
    return [(network_of(cidr), prefix) for cidr, prefix in networks]


def _check_subnet(cidr: str, bits: int, kind: str) -> None:
    network = network_of(cidr)
    longest = network.max_prefixlen - bits
    if not 1 <= network.prefixlen <= longest:
        raise BadRequest(
            f"{kind} {cidr}: Address mask size must be between 1 to {longest} and must include at least {1 << bits} "
            "addresses"
        )
    if network.network_address.is_unspecified:
        raise BadRequest(f"{kind} {cidr}: it is no network of its own: its address is unspecified")


def _check_room(cidr: str, prefix: int, hosts: int) -> None:
    """Check that each host has a network of 128 addresses or more, and that there is one for each."""
    network = network_of(cidr)
    longest = network.max_prefixlen - POD_BITS
    if prefix > longest:
        raise BadRequest(
            f"Cluster CIDR size: Host prefix, now {prefix}, must be less than or equal to {longest} to allow at least "
            f"{1 << POD_BITS} addresses"
        )
    wanted = 1 if hosts == 1 else max(LEAST_HOSTS, hosts)
    if wanted > 1 << max(0, prefix - network.prefixlen):
        raise BadRequest(
            f"Cluster CIDR size: Cluster network CIDR prefix {network.prefixlen} does not contain enough addresses for "
            f"{hosts} hosts each one with {prefix} prefix"
        )
