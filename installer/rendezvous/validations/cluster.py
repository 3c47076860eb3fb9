"""The cluster's validations as one table (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from installer.assisted.enums import HostStatus, Role, VipVerification
from installer.assisted.enums import ValidationCategory as Category
from installer.assisted.inventory import Inventory
from installer.rendezvous.settings import Settings
from installer.rendezvous.states.host import OPERATORS
from installer.rendezvous.store.documents import Info
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import networks
from installer.rendezvous.validations.host import ignored
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
        *("machine-cidr-defined", "cluster-cidr-defined", "service-cidr-defined", "dns-domain-defined"),
        *("pull-secret-set", "api-vips-defined", "ingress-vips-defined", "all-hosts-are-ready-to-install"),
        "sufficient-masters-count",
    }
)
NETWORK_TYPES = ("OVNKubernetes", "OpenShiftSDN", "CiscoACI", "Cilium", "Calico", "None")
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
    def own_load_balancer(self) -> bool:
        """The user's own load balancer holds the VIPs: they may lie anywhere, and are in use by it."""
        return (self.cluster.load_balancer or {}).get("type") == "user-managed"

    def cidrs(self, which: str) -> list[str]:
        """CIDRs of ``machine``, ``cluster`` or ``service`` networks."""
        items = getattr(self.cluster, f"{which}_networks")
        return [str(item["cidr"]) for item in items if item.get("cidr")]

    def vips(self, which: str) -> list[str]:
        """Addresses of ``api`` or ``ingress`` VIPs."""
        return [str(item["ip"]) for item in getattr(self.cluster, f"{which}_vips") if item.get("ip")]


def _defined(which: str) -> Callable[[ClusterView], Verdict]:
    def check(view: ClusterView) -> Verdict:
        if view.cidrs(which):
            return success(f"The {which.capitalize()} Network CIDR is defined")
        if which == "machine" and view.cluster.user_managed_networking and not view.cluster.is_sno:
            return success("No Machine Network CIDR needed: user managed networking")
        return pending(f"The {which.capitalize()} Network CIDR is undefined")

    return check


def _no_overlap(view: ClusterView) -> Verdict:
    pair = networks.overlapping([*view.cidrs("machine"), *view.cidrs("cluster"), *view.cidrs("service")])
    if pair:
        return failure(f"CIDRs {pair[0]} and {pair[1]} overlap")
    if not view.cidrs("cluster") or not view.cidrs("service"):
        return pending("At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined")
    return success("No CIDRS are overlapping")


def _same_families(view: ClusterView) -> Verdict:
    families = {
        which: {ip_network(cidr, strict=False).version for cidr in view.cidrs(which)}
        for which in ("machine", "cluster", "service")
    }
    known = {which: found for which, found in families.items() if found}
    if len({frozenset(found) for found in known.values()}) > 1:
        seen = ", ".join(f"{which}: {'/'.join(f'IPv{v}' for v in sorted(found))}" for which, found in known.items())
        return failure(f"Address families of networks do not match ({seen})")
    return success("Same address families for all networks")


def _prefix_valid(view: ClusterView) -> Verdict:
    for item in view.cluster.cluster_networks:
        network = ip_network(str(item.get("cidr")), strict=False)
        prefix = int(item.get("host_prefix") or 0)
        if prefix and not network.prefixlen <= prefix <= network.max_prefixlen - 2:
            return failure(f"Host prefix {prefix} does not fit cluster network {network}")
        if prefix and 2 ** (prefix - network.prefixlen) < len(view.hosts):
            return failure(
                f"Cluster network {network} with host prefix {prefix} is too small for {len(view.hosts)} hosts"
            )
    return success("The Cluster Network prefix is valid")


def _vips_defined(which: str) -> Callable[[ClusterView], Verdict]:
    def check(view: ClusterView) -> Verdict:
        if view.cluster.user_managed_networking or view.cluster.is_sno:
            return success(f"{which.capitalize()} virtual IPs are not required: User Managed Networking")
        if view.vips(which):
            return success(f"{which.capitalize()} virtual IPs are defined")
        return pending(f"{which.capitalize()} virtual IPs are undefined")

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


def _vips_valid(which: str) -> Callable[[ClusterView], Verdict]:
    def check(view: ClusterView) -> Verdict:
        if view.cluster.user_managed_networking or view.cluster.is_sno:
            return success(f"{which.capitalize()} virtual IPs are not required: User Managed Networking")
        if view.own_load_balancer:
            return success(f"{which} vips {', '.join(view.vips(which))} are the user's own load balancer's")
        open_vips = []
        other = "ingress" if which == "api" else "api"
        for vip in view.vips(which):
            if not networks.in_any(ip_address(vip), view.cidrs("machine")):
                return failure(
                    f"{which} vip {vip} does not belong to machine network {', '.join(view.cidrs('machine'))}"
                )
            if vip in view.vips(other):
                return failure(f"api and ingress vips must differ: both are {vip}")
            user = _vip_in_use(vip, view)
            if user:
                return failure(f"{which} vip {vip} is already in use in the machine network, {user}")
            if user is None and not {"verify-vips", "free-network-addresses"} <= view.settings.disabled_steps:
                open_vips.append(vip)
        if open_vips:
            return pending(f"{which} vips {', '.join(open_vips)} have not been verified to be free yet")
        return success(f"{which} vips {', '.join(view.vips(which))} belong to the machine network and are not in use")

    return check


def _all_ready(view: ClusterView) -> Verdict:
    waiting = [f"{_told(host)} is {host.status}" for host, _ in view.hosts if host.status not in READY_HOST]
    if not view.hosts:
        return failure("The cluster has no hosts")
    if waiting:
        return failure(f"The cluster has hosts that are not ready to install: {', '.join(waiting)}")
    return success("All hosts in the cluster are ready to install")


def _role(host: Host) -> Role:
    return host.suggested_role if host.role is Role.AUTO else host.role


def _masters(view: ClusterView) -> Verdict:
    want = view.cluster.control_plane_count
    masters = sum(1 for host, _ in view.hosts if _role(host) is Role.MASTER)
    workers = sum(1 for host, _ in view.hosts if _role(host) is Role.WORKER)
    astray = [
        f"{_told(host)} ({_role(host)})" for host, _ in view.hosts if host.bootstrap and _role(host) != Role.MASTER
    ]
    if astray:
        return failure(f"The rendezvous host must be a control plane node, it has another role: {', '.join(astray)}")
    if masters != want:
        return failure(f"The cluster must have exactly {want} dedicated control plane node(s), found {masters}")
    if view.cluster.is_sno and workers:
        return failure(f"A single-node cluster cannot have workers, found {workers}")
    return success(f"The cluster has the exact amount of dedicated control plane nodes: {want}")


def _dns_domain(view: ClusterView) -> Verdict:
    if view.cluster.base_dns_domain:
        return success("The base domain is defined")
    return pending("The base domain is undefined and must be provided")


def _pull_secret(view: ClusterView) -> Verdict:
    return success("The pull secret is set") if view.cluster.pull_secret else failure("The pull secret is not set")


def _ntp(view: ClusterView) -> Verdict:
    """Hosts whose clocks differ by more than the limit cannot trust each other's certificates."""
    gaps = {
        _told(host): host.clock_gap
        for host, _ in view.hosts
        if host.clock_gap is not None and host.status is not HostStatus.DISCONNECTED
    }
    limit = view.settings.max_clock_gap
    if gaps and max(gaps.values()) - min(gaps.values()) > limit:
        ahead, behind = max(gaps, key=lambda name: gaps[name]), min(gaps, key=lambda name: gaps[name])
        minutes = (gaps[ahead] - gaps[behind]) / 60
        return failure(
            f"Hosts' clocks are not synchronized: {ahead} is {minutes:.1f} minutes ahead of {behind}, at most "
            f"{limit / 60:.0f} allowed; configure an NTP server or set the clocks"
        )
    return success("No NTP problems found")


def _network_type(view: ClusterView) -> Verdict:
    kind = view.cluster.network_type
    if kind not in NETWORK_TYPES:
        return failure(f"Network type {kind} is unknown, allowed are {', '.join(NETWORK_TYPES)}")
    if kind == "OpenShiftSDN" and any(":" in cidr for cidr in view.cidrs("cluster")):
        return failure("Network type OpenShiftSDN cannot carry IPv6")
    return success(f"Cluster has valid network type {kind}")


def _calculated(view: ClusterView) -> Verdict:
    """Where VIPs are held, the machine network must be the very subnet that the hosts have there."""
    if view.cluster.user_managed_networking or view.cluster.is_sno or view.own_load_balancer:
        return success("The machine network needs not be calculated: nothing moves between hosts")
    given = {networks.network_of(cidr) for cidr in view.cidrs("machine")}
    vips = [ip_address(vip) for vip in (*view.vips("api"), *view.vips("ingress"))]
    for host, inventory in view.hosts:
        for item in networks.interfaces_of(inventory) if inventory else ():
            if item.network in given:
                continue
            for vip in vips:
                if vip in item.network:
                    return failure(
                        f"Machine network {', '.join(view.cidrs('machine')) or 'none'} is not the subnet of VIP {vip}: "
                        f"host {_told(host)} has {item.network} there"
                    )
    return success("The machine network is the hosts' subnet")


def _manifests(view: ClusterView) -> Verdict:
    external = (view.cluster.platform.get("external") or {}).get("cloud_controller_manager")
    if view.cluster.platform.get("type") == "external" and external == "External" and not view.manifests:
        return failure("An external cloud controller manager needs its manifests: none were given")
    return success("Custom manifest requirements are satisfied")


def _platform(view: ClusterView) -> Verdict:
    kind = str(view.cluster.platform.get("type", "none"))
    if kind in ("none", "external") and not view.cluster.user_managed_networking:
        return failure(f"Platform {kind} needs user managed networking")
    return success(f"Platform {kind} requirements satisfied")


def _operator(name: str) -> Callable[[ClusterView], Verdict]:
    plain = name.removesuffix("-requirements-satisfied")
    absent = success(f"{plain} is not requested")

    def check(view: ClusterView) -> Verdict:
        if any(item.get("name") == plain for item in view.cluster.olm_operators):
            return failure(f"Operator {plain} cannot be installed by this service")
        return absent

    return check


class Validation(NamedTuple):
    """One line of the table."""

    id: str
    category: Category
    check: Callable[[ClusterView], Verdict]


TABLE: tuple[Validation, ...] = (
    Validation("machine-cidr-defined", Category.NETWORK, _defined("machine")),
    Validation("cluster-cidr-defined", Category.NETWORK, _defined("cluster")),
    Validation("service-cidr-defined", Category.NETWORK, _defined("service")),
    Validation("no-cidrs-overlapping", Category.NETWORK, _no_overlap),
    Validation("networks-same-address-families", Category.NETWORK, _same_families),
    Validation("network-prefix-valid", Category.NETWORK, _prefix_valid),
    Validation("machine-cidr-equals-to-calculated-cidr", Category.NETWORK, _calculated),
    Validation("api-vips-defined", Category.NETWORK, _vips_defined("api")),
    Validation("api-vips-valid", Category.NETWORK, _vips_valid("api")),
    Validation("ingress-vips-defined", Category.NETWORK, _vips_defined("ingress")),
    Validation("ingress-vips-valid", Category.NETWORK, _vips_valid("ingress")),
    Validation("all-hosts-are-ready-to-install", Category.HOSTS_DATA, _all_ready),
    Validation("sufficient-masters-count", Category.HOSTS_DATA, _masters),
    Validation("dns-domain-defined", Category.NETWORK, _dns_domain),
    Validation("pull-secret-set", Category.CONFIGURATION, _pull_secret),
    Validation("ntp-server-configured", Category.NETWORK, _ntp),
    Validation("network-type-valid", Category.NETWORK, _network_type),
    Validation("custom-manifests-requirements-satisfied", Category.CONFIGURATION, _manifests),
    Validation("platform-requirements-satisfied", Category.CONFIGURATION, _platform),
    *(
        Validation(name, Category.OPERATORS, _operator(name))
        for name in (*OPERATORS, "openshift-ai-gpu-requirements-satisfied")
    ),
)


def evaluate(view: ClusterView) -> Verdicts:
    """Verdicts by id, in the table's order. Ignored validations turn a failure into ``disabled``."""
    skipped = ignored(view.cluster.ignored_cluster_validations)
    return {line.id: overridden(line.id, line.check(view), skipped, NOT_IGNORABLE) for line in TABLE}


def info_of(verdicts: Verdicts) -> Info:
    """The verdicts as the API shows them."""
    return as_info(verdicts, TABLE)
