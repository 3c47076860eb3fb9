"""The event catalogue (installer.md §5.7): name, severity and message of everything that gets recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from installer.assisted.enums import ClusterStatus, HostStatus, Severity
from installer.assisted.errors import LONGEST
from installer.common.redact import redact, shortened
from installer.rendezvous.clock import now_text
from installer.rendezvous.store.model import Cluster, Event, Host, InfraEnv

#: Severities of changes into a status of a host or a cluster; that of others is info.
HOST_SEVERITY: Mapping[HostStatus, Severity] = {
    HostStatus.ERROR: Severity.ERROR,
    HostStatus.PREPARING_FAILED: Severity.ERROR,
    HostStatus.DISCONNECTED: Severity.WARNING,
    HostStatus.INSUFFICIENT: Severity.WARNING,
    HostStatus.INSTALLING_PENDING_USER_ACTION: Severity.WARNING,
    HostStatus.CANCELLED: Severity.WARNING,
}
CLUSTER_SEVERITY: Mapping[ClusterStatus, Severity] = {
    ClusterStatus.ERROR: Severity.CRITICAL,
    ClusterStatus.INSTALLING_PENDING_USER_ACTION: Severity.WARNING,
}

# Where the severity is None, the caller gives it.
CATALOGUE: Mapping[str, tuple[Severity | None, str]] = {
    "cluster_registration_succeeded": (Severity.INFO, "Successfully registered cluster {name}"),
    "cluster_registration_failed": (Severity.ERROR, "The cluster was not registered ({address} asked): {reason}"),
    "infra_env_registration_failed": (Severity.ERROR, "The InfraEnv was not registered ({address} asked): {reason}"),
    "host_registration_refused": (Severity.ERROR, "The host at {address} was refused its registration: {reason}"),
    "infra_env_registered": (Severity.INFO, "Successfully registered InfraEnv {name}"),
    "host_registration_succeeded": (Severity.INFO, "Host {host}: Successfully registered"),
    "host_registration_failed": (Severity.ERROR, "Host {host}: registration failed: {reason}"),
    "host_status_updated": (None, "Host {host}: updated status from {source} to {target} ({info})"),
    "host_role_updated": (Severity.INFO, "Host {host}: set role: {role}"),
    "host_bootstrap_set": (Severity.INFO, "Host {host}: set as bootstrap"),
    "host_install_progress_updated": (Severity.INFO, "Host: {host}, reached installation stage {stage}{info}"),
    "host_validation_failed": (
        Severity.WARNING,
        "Host {host}: validation '{validation}' that used to succeed is now failing",
    ),
    "host_validation_fixed": (Severity.INFO, "Host {host}: validation '{validation}' is now fixed"),
    "cluster_validation_failed": (
        Severity.WARNING,
        "Cluster validation '{validation}' that used to succeed is now failing",
    ),
    "cluster_validation_fixed": (Severity.INFO, "Cluster validation '{validation}' is now fixed"),
    "cluster_status_updated": (None, "Updated status of the cluster to {target}{info}"),
    "cluster_prepare_installation_started": (Severity.INFO, "Cluster starting to prepare for installation"),
    "prepare_installation_failed": (Severity.ERROR, "{reason}"),
    "image_status_updated": (None, "Host {host}: New image status {image}. result: {result}. {detail}"),
    "disk_speed_slower_than_supported": (
        Severity.WARNING,
        "Host {host}: disk {disk} is slower than supported: {measured} ms, threshold {needed} ms",
    ),
    "host_stage_timed_out": (Severity.WARNING, "Host {host}: stage {stage} timed out after {seconds} s"),
    "host_media_disconnected": (Severity.ERROR, "Host {host}: Unable to read from the discovery media: {reason}"),
    "host_logs_uploaded": (Severity.INFO, "Uploaded logs for host {host}{where}"),
    "cluster_logs_uploaded": (Severity.INFO, "Uploaded logs for the cluster"),
    "cluster_installation_completed": (Severity.INFO, "Successfully finished installing cluster"),
    "cluster_installation_failed": (Severity.CRITICAL, "Failed installing cluster. Reason: {reason}"),
    "cluster_installation_canceled": (Severity.INFO, "Cancelled cluster installation"),
    "cluster_installation_reset": (Severity.INFO, "Reset cluster installation"),
    "cluster_finalizing_stage_updated": (Severity.INFO, "Cluster finalizing stage is now {stage}"),
    "validations_ignored": (Severity.INFO, "Some validations of the cluster or its hosts are ignored by the user"),
    "install_config_applied": (Severity.INFO, "Custom install config was applied to the cluster"),
    "host_id_shared": (Severity.ERROR, "Host {host}: {reason}"),
    "host_disk_not_found": (Severity.ERROR, "Host {host}: {reason}"),
    "host_installation_disk_changed": (
        Severity.WARNING,
        "Host {host}: the installation disk that the service chose is {after} now, it was {before} ({reason})",
    ),
    "service_clock_set": (
        Severity.WARNING,
        "The service's clock was set {way} by {seconds} s; time-outs count on as before",
    ),
    "service_stood_still": (Severity.WARNING, "The service stood still for {seconds} s, which no time-out counts"),
    "cluster_machine_network_set": (
        Severity.INFO,
        "The machine network is {cidr} now, as the VIPs or the single node's addresses tell",
    ),
    "host_step_failed": (Severity.ERROR, "Host {host}: step {step} failed: {reason}"),
}


def make(
    name: str,
    /,
    *,
    host: Host | None = None,
    cluster: Cluster | None = None,
    infra_env: InfraEnv | None = None,
    severity: Severity | None = None,
    props: Mapping[str, Any] | None = None,
    **fields: object,
) -> Event:
    """Return an event of the catalogue with its message filled in; ids follow from the objects given."""
    usual, message = CATALOGUE[name]
    severity = usual or severity
    if severity is None:
        raise TypeError(f"event {name} has no severity of its own")
    if host is not None:
        fields.setdefault("host", host.user_hostname or host.requested_hostname or host.id)
    return Event(
        name=name,
        severity=severity,
        message=shortened(message.format(**fields), LONGEST),
        event_time=now_text(),
        category="user",
        cluster_id=cluster.id if cluster else host.cluster_id if host else infra_env.cluster_id if infra_env else None,
        host_id=host.id if host else None,
        infra_env_id=infra_env.id if infra_env else host.infra_env_id if host else None,
        props=redact(json.dumps(props)) if props else "",
    )


def one_line(text: str) -> str:
    """One line of a text that somebody else wrote: no line breaks, no control characters, at most 2000 characters."""
    return shortened(" ".join("".join(char if char.isprintable() else " " for char in text[:LONGEST]).split()), 2000)
