"""Validations of a cluster's networks and virtual IPs (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from installer.assisted.enums import VipVerification
from installer.assisted.inventory import Inventory
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host
from installer.rendezvous.validations import networks
from installer.rendezvous.validations.hostview import load_json
from installer.rendezvous.validations.verdict import (
    Verdict,
    error,
    failure,
    pending,
    success,
)

UNDEFINED = "At least one of the CIDRs (Machine Network, Cluster Network, Service Network) is undefined."
NOT_DISCOVERED = "Hosts have not been discovered yet"
TOO_SMALL = ". The machine network range is too small for the cluster. Please redefine the network."
KINDS = ("machine", "cluster", "service")
VIP_NAMES = {"api": "API", "ingress": "Ingress"}
# Room for 128 addresses in each host's part (upstream's MinMaskDelta).
HOST_BITS = 7
# Hosts for which a cluster network must have room, however few there are.
LEAST_HOSTS = 4
# Others need not look at host_prefix; then these hold.
WITH_HOST_PREFIX = ("OVNKubernetes", "OpenShiftSDN")
USUAL_PREFIX = {4: 23, 6: 64}
# Prefix lengths of service networks: the installer refuses shorter ones, and the cluster's DNS has the tenth address.
SERVICE_PREFIXES = {4: (12, 28), 6: (108, 124)}


@dataclass(frozen=True)
class ClusterView:
    """The cluster with its hosts, and how many manifests the user has given."""

    cluster: Cluster
    hosts: Sequence[tuple[Host, Inventory | None]]
    settings: Settings
    manifests: int = 0

    @property
    def discovered(self) -> bool:
        """Tell if any host has sent its inventory."""
        return any(inventory is not None for _, inventory in self.hosts)

    def cidrs(self, kind: str) -> list[str]:
        """CIDRs of ``machine``, ``cluster`` or ``service`` networks."""
        items = getattr(self.cluster, f"{kind}_networks")
        return [str(item["cidr"]) for item in items if item.get("cidr")]

    def vips(self, kind: str) -> list[str]:
        """Addresses of ``api`` or ``ingress`` VIPs."""
        return [str(item["ip"]) for item in getattr(self.cluster, f"{kind}_vips") if item.get("ip")]


def machine_cidr_defined(view: ClusterView) -> Verdict:
    """Check that machine networks are known, where any are needed."""
    if not networks.machine_network_needed(view.cluster):
        return success("No Machine Network CIDR needed: User Managed Networking")
    if _machine(view):
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


def _machine(view: ClusterView) -> list[str]:
    """Return the machine networks; none while they are still to be derived from the VIPs and the hosts' networks.

    Upstream forgets those that the user gave until the first host is known; here they are kept, and count then.
    """
    cluster, cidrs = view.cluster, view.cidrs("machine")
    assigned_later = networks.has_vips(cluster) and not view.discovered and len(set(networks.families(cidrs))) < 2
    return [] if assigned_later else cidrs


def cidr_defined(which: str) -> Callable[[ClusterView], Verdict]:
    """Return the validation: is the network of this kind (`cluster` or `service`) there, and one to install with?"""
    name = f"The {which.capitalize()} Network CIDR"

    def check(view: ClusterView) -> Verdict:
        cidrs = view.cidrs(which)
        if not cidrs:
            return failure(f"{name} is undefined.")
        problem = _service_problem(cidrs) if which == "service" else ""
        return failure(f"{name} {problem}") if problem else success(f"{name} is defined.")

    return check


def _service_problem(cidrs: list[str]) -> str:
    """Return why OpenShift's installer makes no cluster of these service networks, empty if it does.

    Nothing else of upstream's looks at this before an installation begins; its registration takes them all.
    """
    for cidr in cidrs:
        network = networks.network_of(cidr)
        shortest, longest = SERVICE_PREFIXES[network.version]
        if not shortest <= network.prefixlen <= longest:
            return f"{cidr} cannot be used: its prefix length must be between {shortest} and {longest}."
    versions = [networks.network_of(cidr).version for cidr in cidrs]
    if len(set(versions)) < len(versions):
        return f"cannot be {', '.join(cidrs)}: there is one for each address family."
    return ""


def _networks_open(view: ClusterView) -> Verdict | None:
    """Return the pending verdict while a network that is needed is missing."""
    needed = networks.machine_network_needed(view.cluster)
    if view.cidrs("cluster") and view.cidrs("service") and (not needed or _machine(view)):
        return None
    return pending(UNDEFINED.replace("Machine Network, ", "") if networks.user_managed(view.cluster) else UNDEFINED)


def no_overlap(view: ClusterView) -> Verdict:
    """Check that all networks are apart, and that there are as many cluster networks as service networks.

    Machine networks that are not needed count too: OpenShift's installer looks at them.
    """
    missing = _networks_open(view)
    if missing is not None:
        return missing
    if len(view.cidrs("cluster")) != len(view.cidrs("service")):
        return error("A mismatch between the number of Cluster and Service networks")
    every = [(f"{which.capitalize()} Network", cidr) for which in KINDS for cidr in view.cidrs(which)]
    for (first, cidr), (second, other) in combinations(every, 2):
        if networks.overlap(cidr, other):
            return failure(f"CIDRS Overlapping: {first} and {second}: CIDRS {cidr} and {other} overlap.")
    return success("No CIDRS are overlapping.")


def same_families(view: ClusterView) -> Verdict:
    """Check that the networks of all kinds are of the same address families."""
    missing = _networks_open(view)
    if missing is not None:
        return missing
    kinds = ["service", "cluster"]
    if networks.machine_network_needed(view.cluster):
        kinds.insert(0, "machine")
    families_of = {kind: networks.families(view.cidrs(kind)) for kind in kinds}
    if any(versions != families_of["service"] for versions in families_of.values()):
        names = ", ".join(f"{kind.capitalize()}Networks" for kind in kinds)
        listed = ", ".join(f"{kind}: {'/'.join(f'IPv{v}' for v in versions)}" for kind, versions in families_of.items())
        return failure(f"Address families of networks ({names}) are not the same: {listed}.")
    return success("Same address families for all networks.")


def prefix_valid(view: ClusterView) -> Verdict:
    """Check that `host_prefix` leaves a host 128 addresses or more, and each cluster network a part to each host."""
    if not view.cluster.cluster_networks:
        return pending("The Cluster Network CIDR is undefined.")
    count = len(view.hosts)
    ignored_here = network_type(view) not in WITH_HOST_PREFIX
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


def vips_defined(kind: str) -> Callable[[ClusterView], Verdict]:
    """Return the validation: are virtual IPs of this kind (`api` or `ingress`) there, where they are needed?"""
    name = f"{VIP_NAMES[kind]} virtual IPs are"

    def check(view: ClusterView) -> Verdict:
        if networks.user_managed(view.cluster):
            return success(f"{name} not required: User Managed Networking")
        if view.vips(kind):
            return success(f"{name} defined.")
        return failure(f"{name} undefined and must be provided.")

    return check


def shown_name(host: Host) -> str:
    """Return a host's name in messages: the one that the user asked for, else its id."""
    return host.requested_hostname or host.id


def _vip_in_use(vip: str, view: ClusterView) -> str | None:
    """Names of the hosts that found a VIP taken; empty when some host found it free, None while none has checked.

    verify-vips asks for this one address; a scan for free addresses that covered it counts as well.
    """
    looked = False
    wanted = networks.address_of(vip)
    for host, inventory in view.hosts:
        if inventory and any(item.ip == wanted for item in networks.interfaces_of(inventory)):
            return f"by host {shown_name(host)}"
    for host, _ in view.hosts:
        for answer in host.verified_vips.value or []:
            if answer.vip == vip and answer.verification == VipVerification.FAILED:
                return f"as host {shown_name(host)} sees"
            looked = looked or (answer.vip == vip and answer.verification == VipVerification.SUCCEEDED)
    if looked:
        return ""
    for host, _ in view.hosts:
        for scanned in host.free_addresses.value or []:
            if scanned.network and networks.in_any(wanted, [scanned.network]):
                if vip not in (scanned.free_addresses or []):
                    return f"as host {shown_name(host)} sees"
                looked = True
    return "" if looked else None


def _wrong_place(vip: str, what: str, cidr: str) -> str:
    """Return why a VIP cannot be in a machine network, empty when it can."""
    refusal = networks.vip_refusal(vip, what, cidr)
    if not refusal and networks.is_own_address(vip, cidr):
        return f"{what} <{vip}> is the network address of machine-network-cidr <{cidr}>"
    return refusal


def vips_valid(kind: str) -> Callable[[ClusterView], Verdict]:
    """Return the validation: is each virtual IP of this kind (`api` or `ingress`) in its machine network, and not in
    use?"""
    name = VIP_NAMES[kind]

    def check(view: ClusterView) -> Verdict:
        if networks.user_managed(view.cluster):
            return success(f"{name} virtual IPs are not required: User Managed Networking")
        if not view.vips(kind):
            return pending(f"{name} virtual IPs are undefined.")
        if not view.discovered or not view.cidrs("machine"):
            return pending(NOT_DISCOVERED)
        if networks.own_load_balancer(view.cluster):
            return _with_own_load_balancer(view, kind)
        return _with_our_load_balancer(view, kind)

    return check


def _with_own_load_balancer(view: ClusterView, kind: str) -> Verdict:
    vip, field = view.vips(kind)[0], f"{kind} vip"
    wrong = [_wrong_place(vip, field, cidr) for cidr in view.cidrs("machine")]
    if all(wrong):
        return failure(
            f"{field} '{vip}' failed verification: none of the machine networks is satisfying the requirements: "
            f"{'; '.join(wrong)}"
        )
    return success(f"{field} {vip} is valid")


def _with_our_load_balancer(view: ClusterView, kind: str) -> Verdict:
    field, other = f"{kind} vips", "ingress" if kind == "api" else "api"
    cidrs, bad, unverified = view.cidrs("machine"), [], []
    for index, vip in enumerate(view.vips(kind)):
        cidr = cidrs[index] if index < len(cidrs) else ""
        wrong = _wrong_place(vip, field, cidr)
        user = "" if wrong else _vip_in_use(vip, view)
        if wrong:
            bad.append(wrong)
        elif vip in view.vips(other):
            bad.append(f"{field} <{vip}> appears both in apiVIPs and ingressVIPs")
        elif user:
            hint = TOO_SMALL if _room(cidr, len(view.hosts)) < 0 else ""
            bad.append(f"{field} <{vip}> is already in use in cidr {cidr}, {user}{hint}")
        elif user is None and not {"verify-vips", "free-network-addresses"} <= view.settings.disabled_steps:
            unverified.append(f"{field} <{vip}> are not verified yet.")
    if bad:
        return failure("; ".join(bad))
    if unverified:
        return pending("; ".join(unverified))
    return success(f"{field} {', '.join(view.vips(kind))} belongs to the Machine CIDR and is not in use.")


def _room(cidr: str, hosts: int) -> int:
    """Addresses of a network that are left after its hosts, two VIPs, and the network's and broadcast address."""
    network = networks.network_of(cidr)
    return int(network.num_addresses) - hosts - 4


def network_type(view: ClusterView) -> str:
    """Return the cluster's network type, as an override of the install-config may have changed it."""
    overrides = load_json(view.cluster.install_config_overrides)
    networking = overrides.get("networking") if isinstance(overrides, dict) else None
    wanted = networking.get("networkType") if isinstance(networking, dict) else None
    return str(wanted or view.cluster.network_type)
