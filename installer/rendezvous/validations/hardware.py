"""Validations of a host's hardware, name and platform (installer.md §5.4)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from installer.assisted.enums import HostStatus, MediaStatus, Role, StepType
from installer.assisted.inventory import Inventory
from installer.common.hostaddresses import HOSTNAME, MAX_HOSTNAME
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations import disks
from installer.rendezvous.validations.hostview import FORBIDDEN_HOSTNAMES, HostView, load_json, same_image
from installer.rendezvous.validations.networks import user_managed
from installer.rendezvous.validations.verdict import SUPPRESSED, Verdict, error, failure, pending, success

RAM_TOLERANCE_MIB = 100
MIB = 1024**2
OPENSTACK = "OpenStack Compute"
# The maker that SMBIOS names on the machines of a platform.
MAKERS = {"vsphere": "VMware, Inc.", "nutanix": "Nutanix"}


def _bytes_text(count: int) -> str:
    """Memory in binary units: two digits from 1 GiB on."""
    for unit, size in (("TiB", 1024**4), ("GiB", 1024**3)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count // MIB} MiB"


def media_connected(view: HostView) -> Verdict:
    """Check that the agent can still read what it booted from."""
    if view.host.media_status is MediaStatus.DISCONNECTED:
        return failure("Unable to read from the discovery media. It was either disconnected or poor network conditions")
    return success("Media device is connected")


def rivals(host: Host) -> str:
    """One sentence about two machines that have one id."""
    return (
        f"Two machines report as this host, so neither can be installed: {host.rival} and {host.machine}. Give each a "
        "board serial number or a system UUID of its own, or switch one off"
    )


def has_inventory(view: HostView) -> Verdict:
    """Check for the agent's inventory, and for none of another machine's agent."""
    if view.host.rival is not None:
        return failure(rivals(view.host))
    if view.inventory is None:
        return failure("Inventory has not been received for the host")
    return success("Valid inventory exists for the host")


def _truncated(kind: str, reasons: Sequence[str]) -> Verdict:
    return failure(f"Inventory is truncated ({kind})" + (f": {'; '.join(reasons)}" if reasons else ""))


def not_partially_truncated(view: HostView, inventory: Inventory) -> Verdict:
    """Check that the inventory is complete. A missing one is the next validation's matter. (warning)"""
    cut = inventory.truncation
    if cut is None:
        return success("Inventory is not truncated")
    if cut.type == "full":
        return success("Inventory is not partially truncated (inventory fully truncated)")
    return _truncated(cut.type, cut.reasons)


def not_fully_truncated(view: HostView, inventory: Inventory) -> Verdict:
    """Check that something of the inventory is left."""
    cut = inventory.truncation
    if cut is None:
        return success("Inventory is not truncated")
    return _truncated(cut.type, cut.reasons) if cut.type == "full" else success("Inventory is partially truncated")


NOT_ELIGIBLE = "The host is not eligible to participate in Openshift Cluster because the minimum required"


def min_cpu(view: HostView, inventory: Inventory) -> Verdict:
    """Enough CPU cores for any role at all?"""
    need = view.least.cpu_cores
    if inventory.cpu.count < need:
        return failure(f"{NOT_ELIGIBLE} CPU cores for any role is {need}, found only {inventory.cpu.count}")
    return success("Sufficient CPU cores")


def min_memory(view: HostView, inventory: Inventory) -> Verdict:
    """Enough memory for any role at all? What the kernel counts is some 2 % less than what is built in."""
    need, have = view.least.ram_mib, inventory.memory.physical_bytes
    tolerance = RAM_TOLERANCE_MIB + (need // 50 if inventory.memory.physical_bytes_method == "meminfo" else 0)
    if have < (need - tolerance) * MIB:
        return failure(f"{NOT_ELIGIBLE} RAM for any role is {_bytes_text(need * MIB)}, found only {_bytes_text(have)}")
    return success("Sufficient minimum RAM")


def _seen(inventory: Inventory) -> str:
    return "; ".join(
        f"{disk.path or disk.name} ({', '.join(disk.installation_eligibility.not_eligible_reasons)})"
        for disk in inventory.disks
    )


def _chosen_disk(view: HostView, inventory: Inventory) -> Verdict | None:
    """Judge the installation disk that a user or a hint chose, which is never replaced; None if it is good."""
    name = view.host.installation_disk_id
    if not view.host.user_disk:
        return None
    disk = disks.installation(view.host, inventory)
    if disk is None:
        choices = ", ".join(f"{item.path or item.id} ({disks.size_text(item.size_bytes)})" for item in inventory.disks)
        return failure(f"The chosen installation disk {name} is not among the host's disks: {choices or 'it has none'}")
    if not disk.installation_eligibility.eligible:
        reasons = ", ".join(disk.installation_eligibility.not_eligible_reasons)
        return failure(f"The chosen installation disk {name} cannot be installed on: {reasons}")
    return None


def min_disks(view: HostView, inventory: Inventory) -> Verdict:
    """At least one disk that may be installed on, and the chosen one among them?"""
    wrong = _chosen_disk(view, inventory)
    if wrong is not None:
        return wrong
    if not inventory.disks:
        return error("Failed to detect disks: the host shows none")
    if disks.eligible(inventory):
        return success("Sufficient disk capacity")
    need = view.needs(Role.AUTO).disk_size_gb
    return failure(
        f"No eligible disks were found, please check specific disks to see why they are not eligible: "
        f"{_seen(inventory)}; at least {need} GB are needed"
    )


def role_cpu(view: HostView, inventory: Inventory) -> Verdict:
    """Enough CPU cores for the host's role?"""
    need = view.needs().cpu_cores
    if inventory.cpu.count < need:
        return failure(f"Require at least {need} CPU cores for {view.role} role, found only {inventory.cpu.count}")
    return success(f"Sufficient CPU cores for role {view.role}")


def role_memory(view: HostView, inventory: Inventory) -> Verdict:
    """Enough memory for the host's role?"""
    need, have = view.needs().ram_mib, inventory.memory.physical_bytes
    if have < (need - RAM_TOLERANCE_MIB) * MIB:
        return failure(
            f"Require at least {_bytes_text(need * MIB)} RAM for role {view.role}, found only {_bytes_text(have)}"
        )
    return success(f"Sufficient RAM for role {view.role}")


def hostname_unique(view: HostView, inventory: Inventory) -> Verdict:
    """Check that no other host has the name."""
    others = [name for name in view.peers.names.get(view.hostname, ()) if name != view.host.id]
    if others:
        mine = view.peers.display_name(view.host.id)
        theirs = ", ".join(map(view.peers.display_name, others))
        return failure(f"Hostname {view.hostname} is not unique in the cluster: host {mine} and host {theirs} have it")
    return success(f"Hostname {view.hostname} is unique in cluster")


def hostname_valid(view: HostView, inventory: Inventory) -> Verdict:
    """Check that the name is allowed."""
    if view.hostname in FORBIDDEN_HOSTNAMES:
        return failure(f"The host name {view.hostname} is forbidden")
    if len(view.hostname) > MAX_HOSTNAME or not HOSTNAME.fullmatch(view.hostname):
        shown = view.hostname or "(empty)"
        long = f" and have at most {MAX_HOSTNAME} characters" if len(view.hostname) > MAX_HOSTNAME else ""
        return failure(f"Hostname {shown} is forbidden, hostname should match pattern {HOSTNAME.pattern}{long}")
    return success(f"Hostname {view.hostname} is allowed")


def platform_network(view: HostView, inventory: Inventory) -> Verdict:
    """Check that a host of this product can be in a cluster with this kind of networking."""
    product = inventory.system_vendor.product_name
    if product == OPENSTACK and not user_managed(view.cluster):
        return failure(f"Platform {product} is allowed only for Single Node OpenShift or user-managed networking")
    return success(f"Platform {product} is allowed")


def disk_speed(view: HostView) -> Verdict:
    """Check that the installation disk's speed could be measured. A slow one is an event, no obstacle.

    Upstream's ``sufficientOrUnknownInstallationDiskSpeed`` (internal/host/validator.go).
    """
    if not view.host.installation_disk_path:
        return error("Validation error: the host has no installation disk")
    speed = view.host.disks_info.speed(view.host.installation_disk_path)
    if not speed.tested:
        if view.host.status is HostStatus.PREPARING:
            return pending("Speed of installation disk is being measured")
        return success("Speed of installation disk has not yet been measured")
    if speed.exit_code:
        return failure(
            "While preparing the previous installation the installation disk speed measurement failed or was found to "
            f"be insufficient: {speed.error or f'exit code {speed.exit_code}'}"
        )
    return success("Speed of installation disk is sufficient")


def platform(view: HostView, inventory: Inventory) -> Verdict:
    """Check that a host of this maker can be in a cluster of this platform."""
    kind = str(view.cluster.platform.get("type", "none"))
    maker = inventory.system_vendor.manufacturer
    if kind in MAKERS and maker != MAKERS[kind]:
        return failure(
            f"Host is not compatible with cluster platform {kind}; either disable this host or discover a new "
            f"compatible host (its maker is {maker or 'unknown'}, not {MAKERS[kind]})."
        )
    return success(f"Host is compatible with cluster platform {kind}")


def disk_encryption(view: HostView) -> Verdict:
    """With TPM encryption for this role: is there a TPM 2.0? With Tang: do the servers answer?"""
    wanted = str(view.cluster.disk_encryption.get("enable_on") or "none")
    if wanted == "none":
        return SUPPRESSED
    if view.inventory is None:
        return pending("Missing host inventory")
    if view.role is Role.AUTO:
        return pending("Missing role assignment")
    if wanted != "all" and f"{view.role}s" not in wanted.split(","):
        return SUPPRESSED
    mode = view.cluster.disk_encryption.get("mode", "tpmv2")
    if mode == "tpmv2":
        tpm = view.inventory.tpm_version
        if tpm == "none":
            return failure("TPM version could not be found, make sure TPM is enabled in host's BIOS")
        if tpm != "2.0":
            return failure(
                f"The host's TPM version is not supported, expected-version: 2.0, actual-version: {tpm or 'unknown'}"
            )
        return success(f"Installation disk can be encrypted using {mode}")
    answers = view.host.tang_connectivity.value
    if answers is None:
        return pending("Disk encryption check was not performed yet")
    answered = {answer.tang_url for answer in answers.tang_server_response or []}
    servers = load_json(str(view.cluster.disk_encryption.get("tang_servers") or "")) or []
    if answered and answered != {server.get("url") for server in servers}:
        return pending("Disk encryption check was not performed yet: Tang servers have changed")
    if not answers.is_success:
        return failure("Could not validate that all Tang servers are reachable and working")
    return success(f"Installation disk can be encrypted using {mode}")


def vsphere_uuid(view: HostView) -> Verdict:
    """On VMware's machines every disk that could be used must show its UUID."""
    inventory = view.inventory
    if inventory is None or inventory.system_vendor.manufacturer != MAKERS["vsphere"]:
        return SUPPRESSED
    if not inventory.disks:
        return pending("no disks")
    plain = disks.types(inventory.cpu.architecture, basic=True)
    hidden = [disk.path for disk in disks.eligible(inventory) if not disk.has_uuid and disk.drive_type in plain]
    if hidden:
        return failure(
            "VSphere disk.EnableUUID isn't enabled for this virtual machine, it's necessary for disks to be mounted "
            f"properly: {', '.join(hidden)}"
        )
    return success("VSphere disk.EnableUUID is enabled for this virtual machine")


def compatible_agent(view: HostView) -> Verdict:
    """Check that the agent is this service's own; an agent without a version is not."""
    want, have = view.settings.agent_image, view.host.discovery_agent_version
    if not want or StepType.UPGRADE in view.settings.disabled_steps:
        return success("Host agent compatibility checking is disabled")
    if not same_image(want, have):
        return failure(
            "This host's agent is in the process of being upgraded to a compatible version: it is "
            f"{have or 'of unknown version'}, the service needs {want}"
        )
    return success("Host agent is compatible with the service")


def no_skip_installation_disk(view: HostView) -> Verdict:
    """Check that the installation disk is not on the list of disks to leave alone."""
    disk = disks.installation(view.host, view.inventory) if view.inventory else None
    if (
        disk
        and view.inventory
        and any(skipped_disk == disk for _, skipped_disk in disks.skipped(view.host, view.inventory))
    ):
        return failure(
            f"Requesting to skip the formatting of the installation disk is not allowed: {disk.path or disk.id}. "
            "Please either change this host's installation disk or do not skip the formatting of the installation disk"
        )
    return success("No request to skip formatting of the installation disk")


def no_skip_missing_disk(view: HostView, inventory: Inventory) -> Verdict:
    """Disks to leave alone must exist."""
    missing = [name for name, skipped_disk in disks.skipped(view.host, inventory) if skipped_disk is None]
    if missing:
        return failure(
            "One or more of the disks that you have requested to skip the formatting of are no longer present on this "
            f"host: {json.dumps(missing)}. Please remove the request, and give it again with the new ID if needed"
        )
    return success("All disks that have skipped formatting are present in the host inventory")
