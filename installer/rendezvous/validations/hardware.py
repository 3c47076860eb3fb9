"""Validations of a host's hardware, name and platform (installer.md §5.4)."""

from __future__ import annotations

import json
import re

from installer.assisted.enums import HostStatus, MediaStatus, Result, Role
from installer.assisted.inventory import Inventory
from installer.rendezvous.validations import disks
from installer.rendezvous.validations.hostview import FORBIDDEN_HOSTNAMES, HostView, load_json, same_image
from installer.rendezvous.validations.verdict import Verdict, failure, pending, success

HOSTNAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}(?:[.][a-z0-9-]{1,63})*$")
RAM_TOLERANCE_MIB = 100
MIB = 1024**2


def _memory_ok(inventory: Inventory, need_mib: int) -> bool:
    return inventory.memory.physical_bytes + RAM_TOLERANCE_MIB * MIB >= need_mib * MIB


def media_connected(view: HostView) -> Verdict:
    """Could the agent still read what it booted from?"""
    if view.host.media_status is MediaStatus.DISCONNECTED:
        return failure("Media is disconnected: the discovery media cannot be read")
    return success("Media is connected")


def has_inventory(view: HostView) -> Verdict:
    """Has the agent sent an inventory?"""
    if view.inventory is None:
        return pending("Inventory has not been received from the host")
    return success("Valid inventory exists for the host")


def not_partially_truncated(view: HostView, inventory: Inventory) -> Verdict:
    """Is the inventory complete? (warning)"""
    if inventory.truncation is not None:
        return failure(f"Inventory was cut: {', '.join(inventory.truncation.reasons) or inventory.truncation.type}")
    return success("Inventory is complete")


def not_fully_truncated(view: HostView, inventory: Inventory) -> Verdict:
    """Is anything of the inventory left?"""
    if inventory.truncation is not None and inventory.truncation.type == "full":
        return failure(f"Inventory was dropped: {', '.join(inventory.truncation.reasons)}")
    return success("Inventory is usable")


def min_cpu(view: HostView, inventory: Inventory) -> Verdict:
    """Enough CPU cores for any role at all?"""
    need = view.needs(Role.AUTO).cpu_cores
    if inventory.cpu.count < need:
        return failure(f"Too few CPU cores for any role: found {inventory.cpu.count}, at least {need} needed")
    return success(f"Sufficient CPU cores: found {inventory.cpu.count}, {need} needed")


def min_memory(view: HostView, inventory: Inventory) -> Verdict:
    """Enough memory for any role at all?"""
    need, found = view.needs(Role.AUTO).ram_mib, inventory.memory.physical_bytes // MIB
    if not _memory_ok(inventory, need):
        return failure(f"Too little memory for any role: found {found} MiB, at least {need} MiB needed")
    return success(f"Sufficient memory: found {found} MiB, {need} MiB needed")


def _seen(inventory: Inventory) -> str:
    return "; ".join(
        f"{disk.path or disk.name} ({', '.join(disk.installation_eligibility.not_eligible_reasons)})"
        for disk in inventory.disks
    )


def _chosen_disk(view: HostView, inventory: Inventory) -> Verdict | None:
    """What is wrong with the installation disk that a user or a hint chose; it is never replaced by another."""
    name = view.host.installation_disk_id
    if not view.host.user_disk:
        return None
    disk = disks.installation(view.host, inventory)
    if disk is None:
        found = ", ".join(f"{item.path or item.id} ({disks.size_text(item.size_bytes)})" for item in inventory.disks)
        return failure(f"The chosen installation disk {name} is not among the host's disks: {found or 'it has none'}")
    if not disk.installation_eligibility.eligible:
        reasons = ", ".join(disk.installation_eligibility.not_eligible_reasons)
        return failure(f"The chosen installation disk {name} cannot be installed on: {reasons}")
    return None


def min_disks(view: HostView, inventory: Inventory) -> Verdict:
    """At least one disk that may be installed on, and the chosen one among them?"""
    wrong = _chosen_disk(view, inventory)
    if wrong is not None:
        return wrong
    if disks.eligible(inventory):
        return success("Sufficient disk capacity")
    need = view.needs(Role.AUTO).disk_size_gb
    return failure(
        f"No eligible disks were found, a disk of at least {need} GB is needed: "
        f"{_seen(inventory) or 'the host has no disks'}"
    )


def role_cpu(view: HostView, inventory: Inventory) -> Verdict:
    """Enough CPU cores for the host's role?"""
    need = view.needs().cpu_cores
    if inventory.cpu.count < need:
        return failure(f"Role {view.role} needs at least {need} CPU cores, found {inventory.cpu.count}")
    return success(f"Sufficient CPU cores for role {view.role}")


def role_memory(view: HostView, inventory: Inventory) -> Verdict:
    """Enough memory for the host's role?"""
    need, found = view.needs().ram_mib, inventory.memory.physical_bytes // MIB
    if not _memory_ok(inventory, need):
        return failure(f"Role {view.role} needs at least {need} MiB of memory, found {found} MiB")
    return success(f"Sufficient memory for role {view.role}")


def hostname_unique(view: HostView, inventory: Inventory) -> Verdict:
    """Is no other host called the same?"""
    others = [name for name in view.peers.names.get(view.hostname, ()) if name != view.host.id]
    if others:
        mine, theirs = view.peers.told(view.host.id), ", ".join(view.peers.told(name) for name in others)
        return failure(f"Hostname {view.hostname} is not unique in the cluster: host {mine} and host {theirs} have it")
    return success(f"Hostname {view.hostname} is unique in cluster")


def hostname_valid(view: HostView, inventory: Inventory) -> Verdict:
    """Is the name allowed?"""
    if view.hostname in FORBIDDEN_HOSTNAMES:
        return failure(f"Hostname {view.hostname} is forbidden")
    if not HOSTNAME.fullmatch(view.hostname):
        return failure(f"Hostname {view.hostname!r} does not match the required pattern {HOSTNAME.pattern}")
    return success(f"Hostname {view.hostname} is allowed")


def platform_network(view: HostView, inventory: Inventory) -> Verdict:
    """Do the platform and the kind of networking go together?"""
    kind = str(view.cluster.platform.get("type", "none"))
    if "OpenStack" in inventory.system_vendor.product_name and not view.cluster.user_managed_networking:
        return failure("Platform OpenStack Compute needs user managed networking")
    return success(f"Platform {kind} is allowed")


def disk_speed(view: HostView, inventory: Inventory) -> Verdict:
    """Is the installation disk quick enough? Measured while preparing."""
    speed = view.host.disks_info.speed(view.host.installation_disk_path)
    need = view.needs().disk_speed_ms
    if not speed.tested:
        if view.host.status is HostStatus.PREPARING:
            return pending("Speed of installation disk is being measured")
        return success("Speed of installation disk has not yet been measured")
    if speed.exit_code:
        # A measurement that could not run says nothing about the disk.
        return success(f"Speed of installation disk could not be measured: {speed.error or ''}")
    found = speed.speed_ms or 0
    if need and found > need:
        path = view.host.installation_disk_path
        return failure(f"Disk {path} is too slow: a synced write took {found} ms, at most {need} ms allowed")
    return success(f"Speed of installation disk is sufficient: {found} ms")


def platform(view: HostView, inventory: Inventory) -> Verdict:
    """Can a host of this maker be in a cluster of this platform?"""
    kind = str(view.cluster.platform.get("type", "none"))
    maker = inventory.system_vendor.manufacturer.lower()
    if kind == "vsphere" and "vmware" not in maker:
        return failure(f"Host is not compatible with cluster platform vsphere: maker is {maker or 'unknown'}")
    if kind == "nutanix" and "nutanix" not in maker:
        return failure(f"Host is not compatible with cluster platform nutanix: maker is {maker or 'unknown'}")
    return success(f"Host is compatible with cluster platform {kind}")


def disk_encryption(view: HostView, inventory: Inventory) -> Verdict:
    """With TPM encryption for this role: is there a TPM 2.0?"""
    wanted = str(view.cluster.disk_encryption.get("enable_on"))
    if wanted != "all" and f"{view.role}s" not in wanted.split(","):
        return Verdict(Result.DISABLED, "Disk encryption is not requested for this host")
    if view.cluster.disk_encryption.get("mode", "tpmv2") == "tpmv2":
        if inventory.tpm_version != "2.0":
            return failure(f"Disk encryption needs a TPM 2.0, found {inventory.tpm_version}")
        return success("Disk encryption requirements are satisfied: TPM 2.0 found")
    answers = view.host.tang_connectivity.value
    if answers is None:
        return pending("Tang servers have not been checked yet")
    asked = {answer.tang_url for answer in answers.tang_server_response or []}
    servers = load_json(str(view.cluster.disk_encryption.get("tang_servers") or "")) or []
    if asked and asked != {server.get("url") for server in servers}:
        return pending("Tang servers have changed and have not been checked yet")
    if not answers.is_success:
        return failure("Could not validate that all Tang servers are reachable and working")
    return success("All Tang servers answered")


def vsphere_uuid(view: HostView, inventory: Inventory) -> Verdict:
    """On vSphere every disk must show its UUID."""
    if view.cluster.platform.get("type") != "vsphere":
        return success("VSphere disk.EnableUUID is not needed on this platform")
    hidden = [disk.path for disk in disks.eligible(inventory) if not disk.has_uuid]
    if hidden:
        return failure(f"VSphere disk.EnableUUID is not enabled: {', '.join(hidden)} without UUID")
    return success("VSphere disk.EnableUUID is enabled")


def compatible_agent(view: HostView) -> Verdict:
    """Is the agent the one that this service came with?"""
    want, found = view.settings.agent_image, view.host.discovery_agent_version
    if want and found and not same_image(want, found):
        return failure(f"Agent is {found}, the service needs {want}")
    return success("Host agent compatibility checking is satisfied")


def no_skip_installation_disk(view: HostView, inventory: Inventory) -> Verdict:
    """The installation disk must not be on the list of disks to leave alone."""
    disk = disks.installation(view.host, inventory)
    if disk is not None and any(found == disk for _, found in disks.skipped(view.host, inventory)):
        return failure(f"Disk {disk.path} is both the installation disk and to be skipped in formatting")
    return success("No request to skip formatting of the installation disk")


def no_skip_missing_disk(view: HostView, inventory: Inventory) -> Verdict:
    """Disks to leave alone must exist."""
    missing = [name for name, found in disks.skipped(view.host, inventory) if found is None]
    if missing:
        return failure(f"Disks to be skipped in formatting do not exist: {json.dumps(missing)}")
    return success("All disks that have skipped formatting are present in the host inventory")
