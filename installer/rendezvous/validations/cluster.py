"""The cluster's validations as one table (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import combinations, product
from typing import NamedTuple

from installer.assisted.enums import HostStatus, Role, VipVerification
from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.inventory import Inventory
from installer.assisted.validation_ids import ClusterValidation as V
from installer.rendezvous.settings import Settings
from installer.rendezvous.states.host import OPERATORS
from installer.rendezvous.store.documents import Info
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import machinenetworks, networks
from installer.rendezvous.validations.connectivity import with_fencing
from installer.rendezvous.validations.host import ignored, operator_of
from installer.rendezvous.validations.hostview import load_json
from installer.rendezvous.validations.verdict import (
    SUPPRESSED,
    Verdict,
    Verdicts,
    as_info,
    error,
    failure,
    overridden,
    pending,
    success,
)

# Without these no install-config can be written.
NOT_IGNORABLE = frozenset(
    {
        *(V.MACHINE_CIDR_DEFINED, V.CLUSTER_CIDR_DEFINED, V.SERVICE_CIDR_DEFINED, V.DNS_DOMAIN_DEFINED),
        *(V.PULL_SECRET_SET, V.API_VIPS_DEFINED, V.INGRESS_VIPS_DEFINED, V.ALL_HOSTS_ARE_READY_TO_INSTALL),
        V.SUFFICIENT_MASTERS_COUNT,
    }
)
NETWORK_TYPES = ("OpenShiftSDN", "OVNKubernetes", "Cilium", "Calico", "CiscoACI", "None")
# Of these nobody knows the time.
WITHOUT_CLOCK = (HostStatus.DISCONNECTED, HostStatus.RESETTING_PENDING_USER_ACTION, HostStatus.DISCOVERING)
TWO_NODES = 2
# Ids of the API that upstream says nothing of: odf's first name, and a part of openshift-ai.
UNTOLD = ("ocs", "openshift-ai-gpu")
READY_HOST = (
    HostStatus.KNOWN,
    HostStatus.PREPARING,
    HostStatus.PREPARING_SUCCESSFUL,
    HostStatus.INSTALLING,
    HostStatus.INSTALLING_IN_PROGRESS,
    HostStatus.INSTALLED,
)


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


UNDEFINED = "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined."
NOT_DISCOVERED = "Hosts have not been discovered yet"
TOO_SMALL = ". The machine network range is too small for the cluster. Please redefine the network."
VIP_NAMES = {"api": "API", "ingress": "Ingress"}
# Room for 128 addresses in each host's part (upstream's MinMaskDelta).
HOST_BITS = 7
# Networks of hosts that count even where they are not there yet.
LEAST_HOSTS = 4
# Others need not look at host_prefix; then these hold.
WITH_HOST_PREFIX = ("OVNKubernetes", "OpenShiftSDN")
USUAL_PREFIX = {4: 23, 6: 64}
THIRD_PARTY = ("Cilium", "Calico", "CiscoACI", "None")


def _machine_cidr_defined(view: ClusterView) -> Verdict:
    if not networks.machine_network_needed(view.cluster):
        return success("No Machine Network CIDR needed: User Managed Networking")
    if view.cidrs("machine"):
        return success("The Machine Network CIDR is defined.")
    if not view.discovered:
        return pending(NOT_DISCOVERED)
    if view.cluster.is_sno:
        return failure(
            "The Machine Network CIDR is undefined; Setting Machine Network CIDR is required for single node cluster"
        )
    return failure(
        "The Machine Network CIDR is undefined; the Machine Network CIDR can be defined by setting either the API or "
        "Ingress virtual IPs."
    )


def _defined(which: str) -> Callable[[ClusterView], Verdict]:
    name = f"The {which.capitalize()} Network CIDR"

    def check(view: ClusterView) -> Verdict:
        return success(f"{name} is defined.") if view.cidrs(which) else failure(f"{name} is undefined.")

    return check


def _networks_open(view: ClusterView) -> Verdict | None:
    """What is said while a network that is needed is missing."""
    needed = networks.machine_network_needed(view.cluster)
    if view.cidrs("cluster") and view.cidrs("service") and (not needed or view.cidrs("machine")):
        return None
    return pending(UNDEFINED.replace("Machine Network, ", "") if networks.user_managed(view.cluster) else UNDEFINED)


def _no_overlap(view: ClusterView) -> Verdict:
    missing = _networks_open(view)
    if missing is not None:
        return missing
    if len(view.cidrs("cluster")) != len(view.cidrs("service")):
        return error("A mismatch between the number of Cluster and Service networks")
    kinds = (
        ("machine", "cluster", "service") if networks.machine_network_needed(view.cluster) else ("cluster", "service")
    )
    for first, second in combinations(kinds, 2):
        for one, other in product(view.cidrs(first), view.cidrs(second)):
            if networks.overlapping((one, other)):
                names = f"{first.capitalize()} Network and {second.capitalize()} Network"
                return failure(f"CIDRS Overlapping: {names}: CIDRS {one} and {other} overlap.")
    return success("No CIDRS are overlapping.")


def _same_families(view: ClusterView) -> Verdict:
    missing = _networks_open(view)
    if missing is not None:
        return missing
    kinds = ["service", "cluster"]
    if networks.machine_network_needed(view.cluster):
        kinds.insert(0, "machine")
    told = {which: networks.families(view.cidrs(which)) for which in kinds}
    if any(versions != told["service"] for versions in told.values()):
        names = ", ".join(f"{which.capitalize()}Networks" for which in kinds)
        seen = ", ".join(f"{which}: {'/'.join(f'IPv{v}' for v in versions)}" for which, versions in told.items())
        return failure(f"Address families of networks ({names}) are not the same: {seen}.")
    return success("Same address families for all networks.")


def _prefix_valid(view: ClusterView) -> Verdict:
    if not view.cluster.cluster_networks:
        return pending("The Cluster Network CIDR is undefined.")
    count = len(view.hosts)
    ignored_here = _network_type(view) not in WITH_HOST_PREFIX
    for item in view.cluster.cluster_networks:
        network = networks.network_of(str(item.get("cidr")))
        prefix = USUAL_PREFIX[network.version] if ignored_here else int(item.get("host_prefix") or 0)
        if prefix < 1:
            return failure(f"Invalid Cluster Network prefix: Host prefix, now {prefix}, must be a positive integer.")
        longest = network.max_prefixlen - HOST_BITS
        if prefix > longest:
            return failure(
                f"Host prefix, now {prefix}, must be less than or equal to {longest} to allow at least "
                f"{2**HOST_BITS} addresses"
            )
        if 2 ** max(prefix - network.prefixlen, 0) < (1 if count == 1 else max(LEAST_HOSTS, count)):
            return failure(
                f"Cluster network CIDR prefix {network.prefixlen} does not contain enough addresses for {count} hosts "
                f"each one with {prefix} prefix ({2 ** (network.max_prefixlen - prefix)} addresses)"
            )
    return success("The Cluster Network prefix is valid.")


def _vips_defined(which: str) -> Callable[[ClusterView], Verdict]:
    name = f"{VIP_NAMES[which]} virtual IPs are"

    def check(view: ClusterView) -> Verdict:
        if networks.user_managed(view.cluster):
            return success(f"{name} not required: User Managed Networking")
        if view.vips(which):
            return success(f"{name} defined.")
        return failure(f"{name} undefined and must be provided.")

    return check


def _told(host: Host) -> str:
    return host.requested_hostname or host.id


def _vip_in_use(vip: str, view: ClusterView) -> str | None:
    """Who says that a VIP is taken, empty when somebody looked and found it free, None while nobody has looked.

    verify-vips asks for this one address; a scan for free addresses that covered it counts as well.
    """
    looked = False
    wanted = ip_address(vip)
    for host, inventory in view.hosts:
        if inventory and any(item.ip == wanted for item in networks.interfaces_of(inventory)):
            return f"by host {_told(host)}"
    for host, _ in view.hosts:
        for seen in host.verified_vips.value or []:
            if seen.vip == vip and seen.verification == VipVerification.FAILED:
                return f"as host {_told(host)} sees"
            looked = looked or (seen.vip == vip and seen.verification == VipVerification.SUCCEEDED)
    if looked:
        return ""
    for host, _ in view.hosts:
        for scanned in host.free_addresses.value or []:
            if scanned.network and networks.in_any(wanted, [scanned.network]):
                if vip not in (scanned.free_addresses or []):
                    return f"as host {_told(host)} sees"
                looked = True
    return "" if looked else None


def _wrong_place(vip: str, what: str, cidr: str) -> str:
    """Why a VIP cannot be in a machine network, empty when it can."""
    if not cidr:
        return f"{what} <{vip}> cannot be set if Machine Network CIDR is empty"
    address, network = ip_address(vip), networks.network_of(cidr)
    if address not in network:
        return f"{what} <{vip}> does not belong to machine-network-cidr <{cidr}>"
    if address.version == 4 and address == network.broadcast_address:
        return f"{what} <{vip}> is the broadcast address of machine-network-cidr <{cidr}>"
    return ""


def _vips_valid(which: str) -> Callable[[ClusterView], Verdict]:
    name = VIP_NAMES[which]

    def check(view: ClusterView) -> Verdict:
        if networks.user_managed(view.cluster):
            return success(f"{name} virtual IPs are not required: User Managed Networking")
        if not view.vips(which):
            return pending(f"{name} virtual IPs are undefined.")
        if not view.discovered or not view.cidrs("machine"):
            return pending(NOT_DISCOVERED)
        if networks.own_load_balancer(view.cluster):
            return _with_own_load_balancer(view, which)
        return _with_our_load_balancer(view, which)

    return check


def _with_own_load_balancer(view: ClusterView, which: str) -> Verdict:
    vip, what = view.vips(which)[0], f"{which} vip"
    wrong = [_wrong_place(vip, what, cidr) for cidr in view.cidrs("machine")]
    if all(wrong):
        return failure(
            f"{what} '{vip}' failed verification: none of the machine networks is satisfying the requirements: "
            f"{'; '.join(wrong)}"
        )
    return success(f"{what} {vip} is valid")


def _with_our_load_balancer(view: ClusterView, which: str) -> Verdict:
    what, other = f"{which} vips", "ingress" if which == "api" else "api"
    cidrs, bad, unverified = view.cidrs("machine"), [], []
    for index, vip in enumerate(view.vips(which)):
        cidr = cidrs[index] if index < len(cidrs) else ""
        wrong = _wrong_place(vip, what, cidr)
        user = "" if wrong else _vip_in_use(vip, view)
        if wrong:
            bad.append(wrong)
        elif vip in view.vips(other):
            bad.append(f"{what} <{vip}> appears both in apiVIPs and ingressVIPs")
        elif user:
            small = _room(cidr, len(view.hosts)) < 0
            hint = (
                ". The machine network range is too small for the cluster. Please redefine the network."
                if small
                else ""
            )
            bad.append(f"{what} <{vip}> is already in use in cidr {cidr}, {user}{hint}")
        elif user is None and not {"verify-vips", "free-network-addresses"} <= view.settings.disabled_steps:
            unverified.append(f"{what} <{vip}> are not verified yet.")
    if bad:
        return failure("; ".join(bad))
    if unverified:
        return pending("; ".join(unverified))
    return success(f"{what} {', '.join(view.vips(which))} belongs to the Machine CIDR and is not in use.")


def _room(cidr: str, hosts: int) -> int:
    """Addresses of a network that are left after its hosts, two VIPs and the two that are no hosts'."""
    network = networks.network_of(cidr)
    return int(network.num_addresses) - hosts - 4


def _all_ready(view: ClusterView) -> Verdict:
    waiting = [f"{_told(host)} is {host.status}" for host, _ in view.hosts if host.status not in READY_HOST]
    if waiting:
        return failure(f"The cluster has hosts that are not ready to install: {', '.join(waiting)}.")
    return success("All hosts in the cluster are ready to install.")


def _role(host: Host) -> Role:
    return host.suggested_role if host.role is Role.AUTO else host.role


def _masters(view: ClusterView) -> Verdict:
    want = view.cluster.control_plane_count
    count = {role: sum(1 for host, _ in view.hosts if _role(host) is role) for role in Role}
    astray = [
        f"{_told(host)} ({_role(host)})" for host, _ in view.hosts if host.bootstrap and _role(host) != Role.MASTER
    ]
    if astray:
        return failure(f"The rendezvous host must be a control plane node, it has another role: {', '.join(astray)}")
    if view.cluster.is_sno and (count[Role.MASTER] != want or count[Role.WORKER]):
        return failure(
            "Single-node clusters must have a single control plane node and no workers: found "
            f"{count[Role.MASTER]} and {count[Role.WORKER]}."
        )
    lone = want == TWO_NODES and not count[Role.ARBITER] and not with_fencing(view.cluster, [h for h, _ in view.hosts])
    if count[Role.MASTER] != want or lone:
        more = " and at least 1 arbiter node or the control plane nodes must have fencing credentials" if lone else ""
        return failure(
            f"The cluster must have exactly {want} dedicated control plane nodes{more}, found {count[Role.MASTER]}. "
            "Add or remove hosts, or change their roles configurations to meet the requirement."
        )
    return success("The cluster has the exact amount of dedicated control plane nodes.")


def _dns_domain(view: ClusterView) -> Verdict:
    if view.cluster.base_dns_domain:
        return success("The base domain is defined.")
    return failure("The base domain is undefined and must be provided.")


def _pull_secret(view: ClusterView) -> Verdict:
    return success("The pull secret is set.") if view.cluster.pull_secret else failure("The pull secret is not set.")


def _ntp(view: ClusterView) -> Verdict:
    """Hosts whose clocks differ by more than the limit cannot trust each other's certificates."""
    gaps = {
        _told(host): host.clock_gap
        for host, _ in view.hosts
        if host.clock_gap is not None and host.status not in WITHOUT_CLOCK
    }
    limit = int(view.settings.max_clock_gap // 60)
    # Whole minutes, as upstream counts.
    if gaps and (max(gaps.values()) - min(gaps.values())) // 60 > limit:
        ahead, behind = max(gaps, key=lambda name: gaps[name]), min(gaps, key=lambda name: gaps[name])
        minutes = (gaps[ahead] - gaps[behind]) / 60
        return failure(
            f"Hosts' clocks are not synchronized (there's more than a {limit} minutes gap between clocks), please "
            f"configure an NTP server via DHCP or set clocks manually: {ahead} is {minutes:.1f} minutes ahead of "
            f"{behind}."
        )
    return success("No ntp problems found")


def _network_type(view: ClusterView) -> str:
    """The cluster's network type, as an override of the install-config may have changed it."""
    overrides = load_json(view.cluster.install_config_overrides)
    networking = overrides.get("networking") if isinstance(overrides, dict) else None
    wanted = networking.get("networkType") if isinstance(networking, dict) else None
    return str(wanted or view.cluster.network_type)


def _network_type_valid(view: ClusterView) -> Verdict:
    kind = view.cluster.network_type
    if kind not in NETWORK_TYPES:
        return failure(f"The network type {kind} is not valid; the valid network types are {', '.join(NETWORK_TYPES)}")
    if kind == "OpenShiftSDN":
        if any(":" in cidr for which in ("machine", "cluster", "service") for cidr in view.cidrs(which)):
            return failure(
                "The cluster is configured with IPv6 which is not supported by OpenShiftSDN; use OVNKubernetes instead"
            )
        if view.cluster.is_sno:
            return failure(
                "Control Plane Count '1' (SNO) is not supported by OpenShiftSDN; use another network type instead"
            )
    if kind == "OVNKubernetes" and view.cluster.vip_dhcp_allocation:
        return failure("VIP DHCP allocation is not supported when the cluster is configured to use OVNKubernetes.")
    return success("The cluster has a valid network type")


def _calculated(view: ClusterView) -> Verdict:
    """Where VIPs are held, the machine network must be the very subnet that the hosts have there."""
    if networks.user_managed(view.cluster):
        return success("The Cluster Machine CIDR is not required: User Managed Networking")
    if networks.own_load_balancer(view.cluster):
        return success("Calculating machine network CIDR is not enabled: User Managed Load Balancer")
    vips = machinenetworks.vip_pairs(view.cluster)
    if not vips:
        return pending("The Machine Network CIDR, API virtual IPs, or Ingress virtual IPs are undefined.")
    if not view.discovered:
        return pending(NOT_DISCOVERED)
    inventories = [inventory for _, inventory in view.hosts if inventory is not None]
    cidrs, bad = view.cidrs("machine"), []
    for index, vip in enumerate(vips[: len(view.vips("api"))]):
        calculated = machinenetworks.network_of_vip(vip, inventories)
        if not calculated:
            bad.append(f"No suitable matching CIDR found for VIP {vip}")
        elif cidrs:
            cidr = cidrs[index] if index < len(cidrs) else ""
            if not cidr or str(networks.network_of(cidr)) != calculated:
                bad.append(f"The Cluster Machine CIDR {cidr} is different than the calculated CIDR {calculated}.")
    if bad:
        return failure("; ".join(bad))
    return success("The Cluster Machine CIDR is equivalent to the calculated CIDR.")


def _manifests(view: ClusterView) -> Verdict:
    kind = _network_type(view)
    if kind not in THIRD_PARTY:
        return success("No custom manifests are required")
    if view.manifests:
        return success("Custom manifests are uploaded")
    return failure(
        f"Custom manifests are required for: {kind} network type. Please upload manifests via the custom manifests API."
    )


def _platform(view: ClusterView) -> Verdict:
    external = view.cluster.platform.get("external") or {}
    if (
        view.cluster.platform.get("type") == "external"
        and external.get("platform_name") == "oci"
        and not view.manifests
    ):
        return failure(
            "The custom manifest required for Oracle Cloud Infrastructure platform integration has not been added. Add "
            "a custom manifest to continue."
        )
    return success("Platform requirements satisfied")


def _operator(name: str) -> Callable[[ClusterView], Verdict]:
    plain = operator_of(name)
    absent = SUPPRESSED if plain in UNTOLD else success(f"{plain} is disabled")

    def check(view: ClusterView) -> Verdict:
        if any(item.get("name") == plain for item in view.cluster.olm_operators):
            return failure(f"Operator {plain} cannot be installed by this service")
        return absent

    return check


class Validation(NamedTuple):
    """One line of the table."""

    id: V
    category: Category
    check: Callable[[ClusterView], Verdict]


TABLE: tuple[Validation, ...] = (
    Validation(V.MACHINE_CIDR_DEFINED, Category.NETWORK, _machine_cidr_defined),
    Validation(V.CLUSTER_CIDR_DEFINED, Category.NETWORK, _defined("cluster")),
    Validation(V.SERVICE_CIDR_DEFINED, Category.NETWORK, _defined("service")),
    Validation(V.NO_CIDRS_OVERLAPPING, Category.NETWORK, _no_overlap),
    Validation(V.NETWORKS_SAME_ADDRESS_FAMILIES, Category.NETWORK, _same_families),
    Validation(V.NETWORK_PREFIX_VALID, Category.NETWORK, _prefix_valid),
    Validation(V.MACHINE_CIDR_EQUALS_TO_CALCULATED_CIDR, Category.NETWORK, _calculated),
    Validation(V.API_VIPS_DEFINED, Category.NETWORK, _vips_defined("api")),
    Validation(V.API_VIPS_VALID, Category.NETWORK, _vips_valid("api")),
    Validation(V.INGRESS_VIPS_DEFINED, Category.NETWORK, _vips_defined("ingress")),
    Validation(V.INGRESS_VIPS_VALID, Category.NETWORK, _vips_valid("ingress")),
    Validation(V.ALL_HOSTS_ARE_READY_TO_INSTALL, Category.HOSTS_DATA, _all_ready),
    Validation(V.SUFFICIENT_MASTERS_COUNT, Category.HOSTS_DATA, _masters),
    Validation(V.DNS_DOMAIN_DEFINED, Category.NETWORK, _dns_domain),
    Validation(V.PULL_SECRET_SET, Category.CONFIGURATION, _pull_secret),
    Validation(V.NTP_SERVER_CONFIGURED, Category.NETWORK, _ntp),
    Validation(V.NETWORK_TYPE_VALID, Category.NETWORK, _network_type_valid),
    Validation(V.CUSTOM_MANIFESTS_REQUIREMENTS_SATISFIED, Category.CONFIGURATION, _manifests),
    Validation(V.PLATFORM_REQUIREMENTS_SATISFIED, Category.CONFIGURATION, _platform),
    *(
        Validation(V(name), Category.OPERATORS, _operator(name))
        for name in (*OPERATORS, V.OPENSHIFT_AI_GPU_REQUIREMENTS_SATISFIED)
    ),
)


def evaluate(view: ClusterView) -> Verdicts:
    """Verdicts by id, in the table's order. Ignored validations turn a failure into ``disabled``."""
    skipped = ignored(view.cluster.ignored_cluster_validations)
    return {line.id: overridden(line.id, line.check(view), skipped, NOT_IGNORABLE) for line in TABLE}


def info_of(verdicts: Verdicts) -> Info:
    """The verdicts as the API shows them."""
    return as_info(verdicts, TABLE)
