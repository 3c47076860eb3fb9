"""The event catalogue (installer.md §5.7): name, severity and message of everything that gets recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from installer.assisted.errors import LONGEST
from installer.redact import redact, shortened
from installer.rendezvous.clock import now_text
from installer.rendezvous.store.model import Cluster, Event, Host, InfraEnv

CATALOGUE: Mapping[str, tuple[str, str]] = {
    "cluster_registration_succeeded": ("info", "Successfully registered cluster {name}"),
    "infra_env_registered": ("info", "Successfully registered InfraEnv {name}"),
    "host_registration_succeeded": ("info", "Host {host}: Successfully registered"),
    "host_registration_failed": ("error", "Host {host}: registration failed: {reason}"),
    "host_status_updated": ("{severity}", "Host {host}: updated status from {source} to {target} ({info})"),
    "host_role_updated": ("info", "Host {host}: set role: {role}"),
    "host_bootstrap_set": ("info", "Host {host}: set as bootstrap"),
    "host_install_progress_updated": ("info", "Host: {host}, reached installation stage {stage}{info}"),
    "host_validation_failed": ("warning", "Host {host}: validation '{validation}' that used to succeed is now failing"),
    "host_validation_fixed": ("info", "Host {host}: validation '{validation}' is now fixed"),
    "cluster_validation_failed": ("warning", "Cluster validation '{validation}' that used to succeed is now failing"),
    "cluster_validation_fixed": ("info", "Cluster validation '{validation}' is now fixed"),
    "cluster_status_updated": ("{severity}", "Updated status of the cluster to {target}{info}"),
    "cluster_prepare_installation_started": ("info", "Cluster starting to prepare for installation"),
    "prepare_installation_failed": ("error", "{reason}"),
    "installation_preparing_timed_out": ("warning", "Preparing the installation timed out"),
    "image_status_updated": ("{severity}", "Host {host}: New image status {image}. result: {result}. {detail}"),
    "disk_speed_slower_than_supported": (
        "warning",
        "Host {host}: disk {disk} is slower than supported: {found} ms, threshold {needed} ms",
    ),
    "quick_disk_format_performed": ("info", "Host {host}: Performing quick format of disk {disk}"),
    "host_stage_timed_out": ("warning", "Host {host}: stage {stage} timed out after {seconds} s"),
    "host_media_disconnected": ("error", "Host {host}: Unable to read from the discovery media: {reason}"),
    "host_logs_uploaded": ("info", "Uploaded logs for host {host}{where}"),
    "cluster_logs_uploaded": ("info", "Uploaded logs for the cluster"),
    "cluster_installation_completed": ("info", "Successfully finished installing cluster"),
    "cluster_installation_failed": ("critical", "Failed installing cluster. Reason: {reason}"),
    "cluster_installation_canceled": ("info", "Cancelled cluster installation"),
    "cluster_installation_reset": ("info", "Reset cluster installation"),
    "cluster_finalizing_stage_updated": ("info", "Cluster finalizing stage is now {stage}"),
    "validations_ignored": ("info", "Some validations of the cluster or its hosts are ignored by the user"),
    "ignition_config_image_generated": ("info", "Image of InfraEnv {name} was made: {kind}"),
    "install_config_applied": ("info", "Custom install config was applied to the cluster"),
    "host_disk_not_found": ("error", "Host {host}: {reason}"),
    "host_installation_disk_changed": (
        "warning",
        "Host {host}: the installation disk that the service chose is {after} now, it was {before} ({reason})",
    ),
    "service_clock_set": (
        "warning",
        "The service's clock was set {way} by {seconds} s; time-outs count on as before",
    ),
    "service_stood_still": ("warning", "The service stood still for {seconds} s, which no time-out counts"),
    "host_name_made": ("info", "Host {host}: calls itself {own!r}, which cannot be used, and is named {made}"),
    "cluster_machine_network_set": ("info", "Machine network {cidr} was taken from the default route of host {host}"),
    "host_step_failed": ("error", "Host {host}: step {step} failed: {reason}"),
}


def make(
    name: str,
    /,
    *,
    host: Host | None = None,
    cluster: Cluster | None = None,
    infra_env: InfraEnv | None = None,
    props: Mapping[str, Any] | None = None,
    **fields: object,
) -> Event:
    """An event of the catalogue with its message filled in; ids follow from the objects given."""
    severity, message = CATALOGUE[name]
    if host is not None:
        fields.setdefault("host", host.user_hostname or host.requested_hostname or host.id)
    return Event(
        name=name,
        severity=severity.format(**fields),
        message=shortened(message.format(**fields), LONGEST),
        event_time=now_text(),
        category="user",
        cluster_id=cluster.id if cluster else host.cluster_id if host else infra_env.cluster_id if infra_env else None,
        host_id=host.id if host else None,
        infra_env_id=infra_env.id if infra_env else host.infra_env_id if host else None,
        props=redact(json.dumps(props)) if props else "",
    )


def plain(text: str) -> str:
    """One line of a text that somebody else wrote: no line breaks, no control characters, at most 2000 characters."""
    return shortened(" ".join("".join(char if char.isprintable() else " " for char in text[:LONGEST]).split()), 2000)


def host_severity(status: str) -> str:
    """Severity of a change into this host status."""
    if status in ("error", "preparing-failed"):
        return "error"
    if status in ("disconnected", "insufficient", "installing-pending-user-action", "cancelled"):
        return "warning"
    return "info"


def cluster_severity(status: str) -> str:
    """Severity of a change into this cluster status."""
    return "critical" if status == "error" else "warning" if status == "installing-pending-user-action" else "info"
