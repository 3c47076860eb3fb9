"""Validations of a host's connection, addresses, names, time and images (installer.md §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from installer.assisted.enums import ClusterStatus, HostStatus, ImageResult, Role, SourceState
from installer.assisted.inventory import Inventory
from installer.rendezvous import registries
from installer.rendezvous.store.documents import Resolution
from installer.rendezvous.validations import connectivity, disks, networks
from installer.rendezvous.validations.hostview import HostView
from installer.rendezvous.validations.verdict import Verdict, failure, pending, success

RECORDS = {"api": "api.{}", "api-int": "api-int.{}", "apps": "console-openshift-console.apps.{}"}
WILDCARD_PROBE = "validateNoWildcardDNS.{}"


def domain_of(view: HostView) -> str:
    """``<cluster name>.<base domain>``."""
    return f"{view.cluster.name}.{view.cluster.base_dns_domain}"


def connected(view: HostView) -> Verdict:
    """Has the agent called in lately?"""
    if not view.connected:
        return failure(
            f"Host is disconnected: the agent has not called in since {view.host.checked_in_at or 'it was made'}"
        )
    return success("Host is connected")


def machine_cidr_defined(view: HostView) -> Verdict:
    """Are machine networks known?"""
    if view.machine_cidrs:
        return success("Machine Network CIDR is defined")
    if view.cluster.user_managed_networking and not view.cluster.is_sno:
        return success("No Machine Network CIDR needed: user managed networking")
    return pending("Machine Network CIDR is undefined")


def belongs_to_machine_cidr(view: HostView, inventory: Inventory) -> Verdict:
    """Has the host an address in every machine network?"""
    if not view.machine_cidrs:
        if view.cluster.user_managed_networking and not view.cluster.is_sno:
            return success("No machine network CIDR validation needed: user managed networking")
        return pending("Missing machine network CIDR")
    missing = [cidr for cidr in view.machine_cidrs if not networks.belongs(inventory, cidr)]
    if missing:
        found = ", ".join(str(item) for item in networks.interfaces_of(inventory) if not item.ip.is_link_local)
        return failure(f"Host has no address in machine network {', '.join(missing)}: found {found or 'none'}")
    return success("Host belongs to all machine network CIDRs")


def ignition_downloadable(view: HostView) -> Verdict:
    """Day-2 hosts must have fetched their ignition; on day 1 there is none to fetch yet."""
    if view.cluster.status is not ClusterStatus.ADDING_HOSTS:
        return success("Ignition is downloadable: it is made when the installation starts")
    answer = view.host.api_vip_connectivity.value
    if answer is None:
        return pending("Ignition has not been asked for yet")
    if not answer.is_success:
        reason = answer.download_error or "no answer"
        return failure(f"Ignition is not downloadable from {answer.url or 'the cluster'}: {reason}")
    return success("Ignition is downloadable")


def majority_group(view: HostView) -> Verdict:
    """Is the host part of the largest group in which everybody reaches everybody?"""
    if view.cluster.is_sno:
        return success("Day2 or single node host is not required to be connected to other hosts in the cluster")
    groups = view.cluster.connectivity_majority_groups.value
    if groups is None or len(view.peers) < connectivity.MINIMUM:
        return pending(f"Not enough hosts in cluster to calculate connectivity groups: {len(view.peers)}")
    missing = [name for name, members in groups.items() if view.host.id not in members]
    if missing:
        return failure(f"No connectivity to the majority of hosts in the cluster ({', '.join(missing)})")
    return success("Host has connectivity to the majority of hosts in the cluster")


def ntp_synced(view: HostView) -> Verdict:
    """Is one time source in use? (warning)"""
    sources = view.host.ntp_sources.value
    if sources is None:
        return pending("NTP sources have not been checked yet")
    if any(source.source_state == SourceState.SYNCED for source in sources):
        return success("Host NTP is synced")
    seen = ", ".join(f"{item.source_name} is {item.source_state}" for item in sources)
    return failure(f"Host couldn't synchronize with any NTP server: {seen or 'no sources are configured'}")


def time_synced(view: HostView, inventory: Inventory) -> Verdict:
    """Do the clocks of host and service agree?"""
    gap = view.host.clock_gap
    if gap is None:
        return pending("The host has not told its time yet")
    if abs(gap) > view.settings.max_clock_gap:
        way = "ahead of" if gap > 0 else "behind"
        limit = view.settings.max_clock_gap / 60
        return failure(f"Host clock is {abs(gap) / 60:.1f} minutes {way} the service's, at most {limit:.0f} allowed")
    return success("Host clock is synchronized with service")


def images_available(view: HostView) -> Verdict:
    """Could the images be pulled? (warning; failing while preparing ends the preparation)"""
    images = view.host.images_status.value
    if images is None:
        if view.host.status is HostStatus.PREPARING:
            return pending("Images availability is being checked")
        return success("Images have not been checked yet")
    failed = [
        f"{image.name} ({image.error})" if image.error else str(image.name)
        for image in images
        if image.result != ImageResult.SUCCESS
    ]
    if failed:
        return failure(f"Container images needed for installation could not be pulled: {', '.join(failed)}")
    return success("All required container images were either pulled successfully or no attempt was made to pull them")


def _l3_check(
    view: HostView, limit: float | None, found: Mapping[str, float], worst: float, *, what: str, unit: str
) -> Verdict:
    if view.cluster.is_sno or len(view.peers) < 2:
        return success(f"{what} is not checked: no peers")
    # Without a role there is none either.
    if limit is None:
        return success(f"{what} is not checked: role {view.role} has no limit")
    if not found:
        return pending(f"{what} is not known: no connectivity report yet")
    bad = []
    for peer_id, value in found.items() if worst > limit else ():
        peer = view.peers.by_id.get(peer_id)
        # Each role has limits of its own: what another role's host may have says nothing about this one.
        if peer is None or (peer.suggested_role if peer.role is Role.AUTO else peer.role) is not view.role:
            continue
        if value > limit:
            bad.append(f"{view.peers.told(peer.id)} ({value:.2f} {unit})")
    if bad:
        return failure(f"{what} to {', '.join(bad)} exceeds the limit of {limit:g} {unit} for role {view.role}")
    return success(f"{what} requirement has been satisfied")


def latency(view: HostView) -> Verdict:
    """Round trip time to peers of the same role."""
    found = view.host.connectivity.findings
    return _l3_check(view, view.needs().latency_ms, found.rtt, found.worst_rtt, what="Network latency", unit="ms")


def packet_loss(view: HostView) -> Verdict:
    """Packet loss to peers of the same role."""
    found = view.host.connectivity.findings
    return _l3_check(view, view.needs().packet_loss_percent, found.loss, found.worst_loss, what="Packet loss", unit="%")


def default_route(view: HostView, inventory: Inventory) -> Verdict:
    """Is there a way out?"""
    if networks.default_routes(inventory):
        return success("Host has been configured with at least one default route")
    return failure("Host has not been configured with a default route")


def _resolution(view: HostView, name: str) -> Resolution | None:
    found = view.host.domain_name_resolutions.value
    plain = name.rstrip(".").lower()
    answers = (found and found.resolutions) or []
    return next((item for item in answers if (item.domain_name or "").rstrip(".").lower() == plain), None)


def domain(record: str) -> Callable[[HostView], Verdict]:
    """Check that ``record`` resolves; needed only where nobody but the user can make it so."""

    def check(view: HostView) -> Verdict:
        if not view.cluster.user_managed_networking or view.cluster.is_sno:
            return success(f"Domain name resolution of {record} is not required (single node or managed networking)")
        name = RECORDS[record].format(domain_of(view))
        answer = _resolution(view, name)
        if answer is None:
            return pending(f"DNS resolution of {name} has not been checked yet")
        if not answer.addresses:
            return failure(f"Couldn't resolve domain name {name} on the host")
        return success(f"Domain name {name} resolves to {', '.join(answer.addresses)}")

    return check


def release_domain(view: HostView) -> Verdict:
    """Does the registry's name resolve? (warning; with mirrors nobody needs it)"""
    name = registries.release_domain(view.settings.registries_conf, _release(view))
    if not name:
        return success("Release domain name resolution is not required: the release comes from a mirror or by address")
    answer = _resolution(view, name)
    if answer is None:
        return pending(f"DNS resolution of the release's registry {name} has not been checked yet")
    if not answer.addresses:
        return failure(f"Couldn't resolve the release's registry {name} on the host")
    return success(f"Domain name {name} resolves to {', '.join(answer.addresses)}")


def _release(view: HostView) -> str:
    return view.cluster.ocp_release_image or view.settings.release_image


def names_to_resolve(view: HostView) -> list[str]:
    """The names that some validation of this host waits for; without any, nobody has to ask the DNS."""
    names = []
    if view.cluster.user_managed_networking and not view.cluster.is_sno:
        names += [record.format(domain_of(view)) for record in (*RECORDS.values(), WILDCARD_PROBE)]
    release = registries.release_domain(view.settings.registries_conf, _release(view))
    return [*names, release] if release else names


def no_wildcard(view: HostView) -> Verdict:
    """A DNS that answers for everything hides missing records."""
    answer = _resolution(view, WILDCARD_PROBE.format(domain_of(view)))
    if answer is None:
        if view.cluster.is_sno or not view.cluster.user_managed_networking:
            return success("DNS wildcard check is not required")
        return pending(
            "DNS wildcard check cannot be performed yet because the host has not yet performed DNS resolution"
        )
    if answer.addresses:
        return failure(f"DNS wildcard configuration was detected for domain *.{domain_of(view)}")
    return success("DNS wildcard check was successful")


def no_overlap(view: HostView, inventory: Inventory) -> Verdict:
    """Do the host's own networks stay apart?"""
    pair = networks.overlapping_host_subnets(inventory)
    if pair:
        return failure(f"Address networks {pair[0]} and {pair[1]} of the host overlap")
    return success("Host subnets are not overlapping")


def no_ip_collisions(view: HostView, inventory: Inventory) -> Verdict:
    """Does nobody else in the cluster use the host's addresses?"""
    clashes = []
    for item in networks.interfaces_of(inventory):
        others = [name for name in view.peers.addresses.get(str(item.ip), ()) if name != view.host.id]
        clashes += [
            f"{item.ip} (also host {view.peers.told(name)})"
            for name in others
            if networks.in_any(item.ip, view.machine_cidrs)
        ]
    if clashes:
        return failure(f"Collisions detected for host addresses: {', '.join(clashes)}")
    return success("No IP collisions were detected by host")


def no_iscsi_nic(view: HostView, inventory: Inventory) -> Verdict:
    """An iSCSI installation disk must not hang on a NIC of the machine network."""
    disk = disks.installation(view.host, inventory)
    if disk is None or disk.drive_type != "iSCSI" or disk.iscsi is None:
        return success("Network interface is not used for iSCSI")
    hit = []
    for nic in inventory.interfaces:
        # The NIC's own addresses: that the host has another in the machine network is as it should be.
        own = [item.ip for item in networks.interfaces_of(msgspec.structs.replace(inventory, interfaces=[nic]))]
        if disk.iscsi.host_ip_address in map(str, own) and any(networks.in_any(ip, view.machine_cidrs) for ip in own):
            hit.append(nic.name)
    if hit:
        return failure(f"Network interface {', '.join(hit)} of the iSCSI installation disk is in the machine network")
    return success("Network interface of the iSCSI disk is outside of the machine network")


def mtu_valid(view: HostView) -> Verdict:
    """Do full-size packets reach the peers? (warning)"""
    broken = view.host.connectivity.findings.broken_mtu
    if broken:
        return failure(f"MTU is broken on the way to {', '.join(broken)}")
    return success("MTU is ok")
