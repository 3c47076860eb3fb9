"""The cluster's validations as one table (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from installer.assisted.enums import HostStatus, Role
from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.validation_ids import OPERATORS, of_operator
from installer.assisted.validation_ids import ClusterValidation as V
from installer.rendezvous.store.documents import Info
from installer.rendezvous.validations import machinenetworks, networks
from installer.rendezvous.validations.cluster import networks as net
from installer.rendezvous.validations.cluster.networks import ClusterView
from installer.rendezvous.validations.connectivity import with_fencing
from installer.rendezvous.validations.host import ignored, operator_verdict
from installer.rendezvous.validations.verdict import (
    Verdict,
    Verdicts,
    as_info,
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
# The clocks of hosts in these statuses are not known.
WITHOUT_CLOCK = (HostStatus.DISCONNECTED, HostStatus.RESETTING_PENDING_USER_ACTION, HostStatus.DISCOVERING)
TWO_NODES = 2
# Ids of the API that upstream does not report: odf's first name, and a part of openshift-ai.
UNREPORTED = ("ocs", "openshift-ai-gpu")
READY_HOST = (
    HostStatus.KNOWN,
    HostStatus.PREPARING,
    HostStatus.PREPARING_SUCCESSFUL,
    HostStatus.INSTALLING,
    HostStatus.INSTALLING_IN_PROGRESS,
    HostStatus.INSTALLED,
)
THIRD_PARTY = ("Cilium", "Calico", "CiscoACI", "None")


def _all_ready(view: ClusterView) -> Verdict:
    waiting = [f"{net.shown_name(host)} is {host.status}" for host, _ in view.hosts if host.status not in READY_HOST]
    if waiting:
        return failure(f"The cluster has hosts that are not ready to install: {', '.join(waiting)}.")
    return success("All hosts in the cluster are ready to install.")


def _masters(view: ClusterView) -> Verdict:
    want = view.cluster.control_plane_count
    count = {role: sum(1 for host, _ in view.hosts if host.effective_role is role) for role in Role}
    astray = [
        f"{net.shown_name(host)} ({host.effective_role})"
        for host, _ in view.hosts
        if host.bootstrap and host.effective_role != Role.MASTER
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
        net.shown_name(host): host.clock_gap
        for host, _ in view.hosts
        if host.clock_gap is not None and host.status not in WITHOUT_CLOCK
    }
    limit = int(view.settings.max_clock_gap // 60)
    # Whole minutes, as upstream counts.
    if gaps and (max(gaps.values()) - min(gaps.values())) // 60 > limit:
        fastest, slowest = max(gaps, key=lambda name: gaps[name]), min(gaps, key=lambda name: gaps[name])
        minutes = (gaps[fastest] - gaps[slowest]) / 60
        return failure(
            f"Hosts' clocks are not synchronized (there's more than a {limit} minutes gap between clocks), please "
            f"configure an NTP server via DHCP or set clocks manually: {fastest} is {minutes:.1f} minutes ahead of "
            f"{slowest}."
        )
    return success("No ntp problems found")


def _network_type_valid(view: ClusterView) -> Verdict:
    kind = view.cluster.network_type
    if kind not in NETWORK_TYPES:
        return failure(f"The network type {kind} is not valid; the valid network types are {', '.join(NETWORK_TYPES)}")
    if kind == "OpenShiftSDN":
        if any(":" in cidr for name in ("machine", "cluster", "service") for cidr in view.cidrs(name)):
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
    """Judge the machine network: of a cluster that holds VIPs it must be exactly a subnet of the hosts."""
    if networks.user_managed(view.cluster):
        return success("The Cluster Machine CIDR is not required: User Managed Networking")
    if networks.own_load_balancer(view.cluster):
        return success("Calculating machine network CIDR is not enabled: User Managed Load Balancer")
    vips = machinenetworks.vip_pairs(view.cluster)
    if not vips:
        return pending("The Machine Network CIDR, API virtual IPs, or Ingress virtual IPs are undefined.")
    if not view.discovered:
        return pending(net.NOT_DISCOVERED)
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
    kind = net.network_type(view)
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
    return lambda view: operator_verdict(view.cluster, name, UNREPORTED)


class Validation(NamedTuple):
    """One line of the table."""

    id: str
    category: Category
    check: Callable[[ClusterView], Verdict]


TABLE: tuple[Validation, ...] = (
    Validation(V.MACHINE_CIDR_DEFINED, Category.NETWORK, net.machine_cidr_defined),
    Validation(V.CLUSTER_CIDR_DEFINED, Category.NETWORK, net.cidr_defined("cluster")),
    Validation(V.SERVICE_CIDR_DEFINED, Category.NETWORK, net.cidr_defined("service")),
    Validation(V.NO_CIDRS_OVERLAPPING, Category.NETWORK, net.no_overlap),
    Validation(V.NETWORKS_SAME_ADDRESS_FAMILIES, Category.NETWORK, net.same_families),
    Validation(V.NETWORK_PREFIX_VALID, Category.NETWORK, net.prefix_valid),
    Validation(V.MACHINE_CIDR_EQUALS_TO_CALCULATED_CIDR, Category.NETWORK, _calculated),
    Validation(V.API_VIPS_DEFINED, Category.NETWORK, net.vips_defined("api")),
    Validation(V.API_VIPS_VALID, Category.NETWORK, net.vips_valid("api")),
    Validation(V.INGRESS_VIPS_DEFINED, Category.NETWORK, net.vips_defined("ingress")),
    Validation(V.INGRESS_VIPS_VALID, Category.NETWORK, net.vips_valid("ingress")),
    Validation(V.ALL_HOSTS_ARE_READY_TO_INSTALL, Category.HOSTS_DATA, _all_ready),
    Validation(V.SUFFICIENT_MASTERS_COUNT, Category.HOSTS_DATA, _masters),
    Validation(V.DNS_DOMAIN_DEFINED, Category.NETWORK, _dns_domain),
    Validation(V.PULL_SECRET_SET, Category.CONFIGURATION, _pull_secret),
    Validation(V.NTP_SERVER_CONFIGURED, Category.NETWORK, _ntp),
    Validation(V.NETWORK_TYPE_VALID, Category.NETWORK, _network_type_valid),
    Validation(V.CUSTOM_MANIFESTS_REQUIREMENTS_SATISFIED, Category.CONFIGURATION, _manifests),
    Validation(V.PLATFORM_REQUIREMENTS_SATISFIED, Category.CONFIGURATION, _platform),
    *(Validation(of_operator(name), Category.OPERATORS, _operator(name)) for name in (*OPERATORS, "openshift-ai-gpu")),
)
_CATEGORIES = {line.id: line.category for line in TABLE}


def evaluate(view: ClusterView) -> Verdicts:
    """Verdicts by id, in the table's order. Ignored validations turn a failure into ``disabled``."""
    skipped = ignored(view.cluster.ignored_cluster_validations)
    return {line.id: overridden(line.id, line.check(view), skipped, NOT_IGNORABLE) for line in TABLE}


def info_of(verdicts: Verdicts) -> Info:
    """Return the verdicts as the API shows them."""
    return as_info(verdicts, _CATEGORIES)
