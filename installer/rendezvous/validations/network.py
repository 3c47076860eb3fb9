"""Validations of a host's connection, addresses, names, time and images (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from installer.assisted.enums import ClusterStatus, HostStatus, ImageResult, Role, SourceState
from installer.assisted.inventory import Disk, Inventory
from installer.rendezvous.store.links import BrokenMtu
from installer.rendezvous.validations import connectivity, disks, networks
from installer.rendezvous.validations.hostview import HostView
from installer.rendezvous.validations.verdict import SUPPRESSED, Verdict, error, failure, pending, success

# How far a host's clock may be from the service's, s (upstream's internal/host/validator.go).
MOST_BEHIND, MOST_AHEAD = 20 * 60, 60 * 60
# How many bad links, or commands to try, a message names.
EXAMPLES = 5
PULLED = "All required container images were either pulled successfully or no attempt was made to pull them"
NOT_NEEDED = "No machine network CIDR validation needed"
NO_MACHINE_NETWORK = "Missing inventory or machine network CIDR"


def is_day2(view: HostView) -> bool:
    """Tell if the host is to join a cluster that is installed already."""
    return view.cluster.status is ClusterStatus.ADDING_HOSTS


def connected(view: HostView) -> Verdict:
    """Check that the agent has called in lately."""
    if not view.connected:
        since = view.host.checked_in_at or "it was made"
        return failure(
            f"Host is disconnected: the agent has not called in since {since}. Is it on, and does it reach this "
            "service?"
        )
    return success("Host is connected")


def machine_cidr_defined(view: HostView) -> Verdict:
    """Check that machine networks are known."""
    if networks.user_managed(view.cluster):
        return success("No Machine Network CIDR needed: User Managed Networking")
    if is_day2(view):
        return success("No Machine Network CIDR needed: Day2 cluster")
    if view.machine_cidrs:
        return success("Machine Network CIDR is defined")
    if view.cluster.vip_dhcp_allocation:
        return failure("Machine Network CIDR is undefined")
    return failure(
        "Machine Network CIDR is undefined; the Machine Network CIDR can be defined by setting either the API or "
        "Ingress virtual IPs"
    )


def belongs_to_machine_cidr(view: HostView) -> Verdict:
    """Check for an address in every machine network, or in one where the load balancer is the user's own.

    Where the user manages the networking of many nodes, they may be in any networks, but for the bootstrap host's.
    """
    cluster, cidrs = view.cluster, view.machine_cidrs
    if cluster.user_managed_networking and not cluster.is_sno and not (view.host.bootstrap and cidrs):
        return success(f"{NOT_NEEDED}: User Managed Networking")
    if is_day2(view):
        return success(f"{NOT_NEEDED}: Day2 cluster")
    if view.inventory is None or not cidrs:
        return pending(NO_MACHINE_NETWORK)
    missing = [cidr for cidr in cidrs if not networks.belongs(view.inventory, cidr)]
    items = networks.interfaces_of(view.inventory)
    addresses = ", ".join(str(item) for item in items if not item.ip.is_link_local) or "none"
    if networks.own_load_balancer(cluster):
        if len(missing) < len(cidrs):
            return success("Host belongs to at least one machine network CIDR")
        return failure(
            f"Host does not belong to any machine network CIDR ({', '.join(cidrs)}): its addresses are {addresses}. "
            "Verify that the host belongs to at least one CIDR listed under machine networks"
        )
    if missing:
        return failure(
            f"Host does not belong to machine network CIDRs: it has no address in {', '.join(missing)}, its addresses "
            f"are {addresses}. Verify that the host belongs to every CIDR listed under machine networks"
        )
    return success("Host belongs to all machine network CIDRs")


def ignition_downloadable(view: HostView) -> Verdict:
    """Check that a day-2 host could fetch its ignition. On day 1 there is none to fetch yet."""
    if not is_day2(view):
        return SUPPRESSED
    answer = view.host.api_vip_connectivity.value
    if answer is None:
        return pending("Ignition is not yet available, pending API connectivity")
    if not answer.is_success:
        reason = answer.download_error or "no answer"
        return failure(
            f"This host has failed to download the ignition file from {answer.url or 'the cluster'}: {reason}. "
            "Please ensure the host can reach this URL"
        )
    return success("Ignition is downloadable")


def majority_group(view: HostView) -> Verdict:
    """Check that the host is in the largest group in which everybody reaches everybody."""
    if is_day2(view):
        return success("Day2 host is not required to be connected to other hosts in the cluster")
    if view.cluster.is_sno:
        return success("Host has connectivity to the majority of hosts in the cluster")
    groups = view.cluster.connectivity_majority_groups.value
    if groups is None:
        return pending("Machine Network CIDR or Connectivity Majority Groups missing")
    if not groups:
        return pending("Not enough information to calculate host majority groups")
    missing = [name for name, members in groups.items() if view.host.id not in members]
    if not missing:
        return success("Host has connectivity to the majority of hosts in the cluster")
    if len(view.peers) < connectivity.least(view.cluster, [host for host, _ in view.peers]):
        return pending("Not enough hosts in cluster to calculate connectivity groups")
    return failure(f"No connectivity to the majority of hosts in the cluster ({', '.join(missing)})")


def ntp_synced(view: HostView) -> Verdict:
    """Check that a time source is in use. (warning)"""
    sources = view.host.ntp_sources.value or []
    if any(source.source_state == SourceState.SYNCED for source in sources):
        return success("Host NTP is synced")
    if view.host.cluster_id is None and view.infra_env and not networks.time_sources(None, view.infra_env):
        return SUPPRESSED
    states = ", ".join(f"{item.source_name} is {item.source_state}" for item in sources)
    return failure("Host couldn't synchronize with any NTP server" + (f": {states}" if states else ""))


def time_synced(view: HostView) -> Verdict:
    """Check that the clocks of host and service agree."""
    gap = view.host.clock_gap
    if gap is None:
        return pending("Missing host time, can't determine synchronization between host and service")
    if -MOST_BEHIND <= gap <= MOST_AHEAD:
        return success("Host clock is synchronized with service")
    if gap < 0:
        how, limit = f"service time is ahead of host's by {-gap / 60:.1f} minutes", MOST_BEHIND
    else:
        how, limit = f"host time is ahead of service by {gap / 60:.1f} minutes", MOST_AHEAD
    return failure(
        f"Host clock is not synchronized, {how} (at most {limit // 60}): please configure an NTP server via DHCP"
    )


def images_available(view: HostView) -> Verdict:
    """Check that the images could be pulled. (warning; failing while preparing ends the preparation)"""
    images = view.host.images_status.value
    if images is None:
        if view.host.status is HostStatus.PREPARING:
            return pending("Images availability is being checked")
        return success(PULLED)
    failed = [
        f"{image.name} ({image.error})" if image.error else str(image.name)
        for image in images
        if image.result != ImageResult.SUCCESS
    ]
    if failed:
        return failure(
            "Failed to fetch container images needed for installation (retry to install; if it stays so, check the "
            f"network settings and the mirror registry): {', '.join(failed)}"
        )
    return success(PULLED)


class Limit(NamedTuple):
    """A property of links that is measured, and its unit in messages."""

    name: str
    unit: str


LATENCY, LOSS = Limit("network latency", " ms"), Limit("packet loss", "%")


def _pings(view: HostView) -> str:
    """Return the commands with which somebody on the host can see what the agent saw."""
    if view.inventory is None:
        return ""
    lines = [
        f"ping -c 10 -W 3 -q -I {nic.name} {address.partition('/')[0]}"
        for nic in view.inventory.interfaces
        for address in nic.ipv4_addresses[:EXAMPLES]
    ]
    commands = "\n".join(lines)
    return f"Please try the following commands on the host {view.hostname} to investigate further:\n{commands}\n"


def _l3_check(
    view: HostView, limit: float | None, kind: Limit, *, measured: Mapping[str, float], worst: float
) -> Verdict:
    if view.inventory is None:
        return pending("The inventory is not available yet.")
    satisfied = success(f"{kind.name.capitalize()} requirement has been satisfied.")
    # Without a role there is no limit either.
    if len(view.peers) < 2 or limit is None or view.role is Role.AUTO or is_day2(view):
        return satisfied
    if not view.host.connectivity:
        return pending(f"Missing {kind.name} information.")
    bad = []
    for peer_id, value in measured.items() if worst > limit else ():
        peer = view.peers.by_id.get(peer_id)
        # Each role has limits of its own: what another role's host may have says nothing about this one.
        if peer is None or peer.effective_role is not view.role:
            continue
        if value > limit:
            bad.append(f"{view.peers.display_name(peer.id)} ({value:.2f}{kind.unit})")
    if not bad:
        return satisfied
    listed = ", ".join(bad[:EXAMPLES]) + (f" and {len(bad) - EXAMPLES} others" if len(bad) > EXAMPLES else "")
    actions = "Actions:\n"
    if kind is LOSS:
        actions += (
            "Check if there are multiple devices on the same L2 network: then bond them (networkConfig), or disable "
            "all but one.\n"
        )
    return failure(
        f"A total {kind.name} above the tolerated threshold of {limit:.2f}{kind.unit} for role {view.role} was "
        f"encountered between host {view.hostname} and {listed}\n{actions}{_pings(view)}"
    )


def latency(view: HostView) -> Verdict:
    """Round trip time to peers of the same role."""
    findings = view.host.connectivity.findings
    return _l3_check(view, view.needs().latency_ms, LATENCY, measured=findings.rtt, worst=findings.worst_rtt)


def packet_loss(view: HostView) -> Verdict:
    """Packet loss to peers of the same role."""
    findings = view.host.connectivity.findings
    return _l3_check(view, view.needs().packet_loss_percent, LOSS, measured=findings.loss, worst=findings.worst_loss)


def default_route(view: HostView, inventory: Inventory) -> Verdict:
    """Check for a default route."""
    if networks.default_routes(inventory):
        return success("Host has been configured with at least one default route.")
    return failure("Host has not yet been configured with a default route.")


def no_overlap(view: HostView, inventory: Inventory) -> Verdict:
    """Check that the host's own networks are apart, and each on one interface only."""
    cluster = view.cluster
    cidrs = [str(item["cidr"]) for item in (*cluster.cluster_networks, *cluster.service_networks) if item.get("cidr")]
    pair = networks.clashing_host_networks(inventory, sorted({*networks.families(cidrs)}))
    if pair is None:
        return success("Host subnets are not overlapping")
    first, second = pair
    if first.network == second.network:
        how = f"Address network {first.network} appears on multiple interfaces [{first.interface}, {second.interface}]"
    else:
        how = (
            f"Address networks {first.network} in interface {first.interface} and {second.network} in interface "
            f"{second.interface} overlap"
        )
    return failure(f"Address networks are overlapping: {how}")


def no_ip_collisions(view: HostView) -> Verdict:
    """Check that nobody else uses the host's addresses: no host of the cluster, no machine that a peer saw."""
    if view.inventory is None:
        return success("Host inventory has not yet been defined, skipping validation.")
    if is_day2(view):
        return success(f"Skipping validation for day 2 host {view.host.id}")
    clashes = []
    for item in networks.interfaces_of(view.inventory):
        macs = view.peers.collisions.get(str(item.ip))
        if macs:
            clashes.append(f"IP address: {item.ip} Mac addresses: {','.join(macs)}")
        others = [name for name in view.peers.addresses.get(str(item.ip), ()) if name != view.host.id]
        clashes += [
            f"IP address: {item.ip} (also host {view.peers.display_name(name)})"
            for name in others
            if networks.in_any(item.ip, view.machine_cidrs)
        ]
    if clashes:
        return failure(f"Collisions detected for host ID {view.host.id}, {'; '.join(clashes)}")
    return success(f"No IP collisions were detected by host {view.host.id}")


def no_iscsi_nic(view: HostView) -> Verdict:
    """Return the interface that an iSCSI installation disk is reached by must not be one of the machine network."""
    cluster = view.cluster
    if (cluster.user_managed_networking and not cluster.is_sno) or is_day2(view) or cluster.imported:
        return SUPPRESSED
    disk = disks.installation(view.host, view.inventory) if view.inventory else None
    if view.inventory is None or disk is None:
        return SUPPRESSED
    if not view.machine_cidrs:
        return pending(NO_MACHINE_NETWORK)
    if disk.drive_type == "iSCSI":
        return _iscsi_nic(view, view.inventory, [disk])
    if disk.drive_type == "Multipath":
        return _iscsi_nic(view, view.inventory, disks.paths_of(disk, view.inventory, "iSCSI"))
    return SUPPRESSED


def _iscsi_nic(view: HostView, inventory: Inventory, paths: Sequence[Disk]) -> Verdict:
    hit = []
    for disk in paths:
        try:
            address = ip_address(disk.iscsi.host_ip_address if disk.iscsi else "")
        except ValueError:
            return error(f"iSCSI disk {disk.path or disk.name} is missing host IP address")
        for nic in inventory.interfaces:
            own = networks.addresses((*nic.ipv4_addresses, *nic.ipv6_addresses))
            if any(item.ip == address for item in own):
                break
        else:
            return error(f"Cannot find network interface associated to iSCSI host IP address {address}")
        # The NIC's own addresses only: the host should have another NIC in the machine network.
        if any(networks.in_any(item.ip, view.machine_cidrs) for item in own):
            hit.append(f"{nic.name} of {disk.path or disk.name}")
    if hit:
        return failure(
            f"Network interface connected to iSCSI disk cannot belong to machine network CIDRs: {', '.join(hit)}"
        )
    return success("Network interface connected to iSCSI disk does not belong to machine network CIDRs")


def mtu_valid(view: HostView) -> Verdict:
    """Check that full-size packets reach the peers; only in the machine network, if that is known. (warning)"""
    if view.inventory is None:
        return pending("Missing host inventory")
    if is_day2(view):
        return success("Day2 host is not required to be connected to other hosts in the cluster")
    if view.cluster.is_sno:
        return SUPPRESSED
    if not view.host.connectivity:
        return pending("Missing MTU report information")
    broken = [
        f"Interface: {item.interface}, remote IP address: {item.address}"
        for item in view.host.connectivity.findings.broken_mtu
        if view.cluster.user_managed_networking or _in_machine_network(view, view.inventory, item)
    ]
    if broken:
        return failure(f"MTU is broken. {'; '.join(broken)}")
    return success("MTU is ok")


def _in_machine_network(view: HostView, inventory: Inventory, item: BrokenMtu) -> bool:
    try:
        remote = ip_address(item.address)
    except ValueError:
        return False
    nics = [nic for nic in inventory.interfaces if nic.name == item.interface]
    own = networks.addresses(text for nic in nics for text in (*nic.ipv4_addresses, *nic.ipv6_addresses))
    return networks.in_any(remote, view.machine_cidrs) and any(
        mine.version == remote.version and networks.in_any(mine.ip, view.machine_cidrs) for mine in own
    )
