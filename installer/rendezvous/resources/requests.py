"""Bodies of requests as the specification has them: decoded where they come in, types and required fields checked.

What is null is as if it were not there. Values are judged by the resources; fields that nobody knows are passed over.
"""

from __future__ import annotations

from typing import TypedDict

import msgspec

from installer.rendezvous.store.model import JsonMap
from installer.rendezvous.store.shapes import KernelArgument, Proxy, StaticNetwork


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object; its text names no values, as they may be secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.given())})"

    def given(self) -> JsonMap:
        """What was sent, without nulls, by the names of this struct."""
        return {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}


class NetworkParams(TypedDict, total=False):
    """cluster-network, service-network and machine-network."""

    cidr: str | None
    host_prefix: int | None


class VipParams(TypedDict, total=False):
    """api-vip and ingress-vip."""

    ip: str | None
    verification: str | None


class ClusterParams(Body, frozen=True, kw_only=True):
    """cluster-create-params and v2-cluster-update-params."""

    name: str | None = None
    openshift_version: str | None = None
    ocp_release_image: str | None = None
    base_dns_domain: str | None = None
    platform: JsonMap | None = None
    user_managed_networking: bool | None = None
    vip_dhcp_allocation: bool | None = None
    network_type: str | None = None
    cluster_networks: list[NetworkParams] | None = None
    service_networks: list[NetworkParams] | None = None
    machine_networks: list[NetworkParams] | None = None
    cluster_network_cidr: str | None = None
    cluster_network_host_prefix: int | None = None
    service_network_cidr: str | None = None
    machine_network_cidr: str | None = None
    api_vips: list[VipParams] | None = None
    ingress_vips: list[VipParams] | None = None
    ssh_public_key: str | None = None
    pull_secret: str | None = None
    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None
    additional_ntp_source: str | None = None
    cpu_architecture: str | None = None
    hyperthreading: str | None = None
    schedulable_masters: bool | None = None
    disk_encryption: JsonMap | None = None
    load_balancer: JsonMap | None = None
    tags: str | None = None
    olm_operators: list[JsonMap] | None = None
    control_plane_count: int | None = None
    high_availability_mode: str | None = None


class IgnoredValidations(Body, frozen=True, kw_only=True, rename=lambda name: name.replace("_", "-")):
    """ignored-validations: JSON lists of ids as texts."""

    host_validation_ids: str | None = None
    cluster_validation_ids: str | None = None


class ManifestParams(Body, frozen=True, kw_only=True):
    """create-manifest-params and update-manifest-params; contents are base64."""

    folder: str | None = None
    file_name: str | None = None
    content: str | None = None
    updated_folder: str | None = None
    updated_file_name: str | None = None
    updated_content: str | None = None


class FinalizingProgress(Body, frozen=True, kw_only=True):
    """cluster-finalizing-progress."""

    finalizing_stage: str | None = None


class Completion(Body, frozen=True, kw_only=True):
    """completion-params."""

    is_success: bool | None = None
    error_info: str | None = None


class OperatorReport(Body, frozen=True, kw_only=True):
    """operator-monitor-report."""

    name: str | None = None
    version: str | None = None
    status: str | None = None
    status_info: str | None = None


class LogsProgress(Body, frozen=True, kw_only=True):
    """logs-progress-params."""

    logs_state: str | None = None


class EventParams(Body, frozen=True, kw_only=True):
    """event, as a host sends one."""

    severity: str | None = None
    message: str | None = None
    event_time: str | None = None
    cluster_id: str | None = None
    name: str | None = None
    category: str | None = None
    host_id: str | None = None
    infra_env_id: str | None = None
    props: str | None = None


class InfraEnvParams(Body, frozen=True, kw_only=True):
    """infra-env-create-params and infra-env-update-params."""

    name: str | None = None
    cluster_id: str | None = None
    openshift_version: str | None = None
    cpu_architecture: str | None = None
    ssh_authorized_key: str | None = None
    pull_secret: str | None = None
    additional_ntp_sources: str | None = None
    additional_trust_bundle: str | None = None
    proxy: Proxy | None = None
    ignition_config_override: str | None = None
    image_type: str | None = None
    static_network_config: list[StaticNetwork] | None = None
    kernel_arguments: list[KernelArgument] | None = None


class HostCreate(Body, frozen=True, kw_only=True):
    """host-create-params."""

    host_id: str | None = None
    discovery_agent_version: str | None = None


class ChosenDisk(Body, frozen=True, kw_only=True):
    """disk-config-params."""

    id: str | None = None
    role: str | None = None


class SkippedDisk(Body, frozen=True, kw_only=True):
    """disk-skip-formatting-params."""

    disk_id: str
    skip_formatting: bool


class NodeLabel(Body, frozen=True, kw_only=True):
    """node-label-params."""

    key: str
    value: str


class HostUpdate(Body, frozen=True, kw_only=True):
    """host-update-params."""

    host_role: str | None = None
    host_name: str | None = None
    disks_selected_config: list[ChosenDisk] | None = None
    disks_skip_formatting: list[SkippedDisk] | None = None
    node_labels: list[NodeLabel] | None = None
    fencing_credentials: JsonMap | None = None
    machine_config_pool_name: str | None = None


class StepReply(Body, frozen=True, kw_only=True):
    """step-reply."""

    step_type: str | None = None
    step_id: str | None = None
    exit_code: int | None = None
    output: str | None = None
    error: str | None = None


class HostProgressParams(Body, frozen=True, kw_only=True):
    """host-progress."""

    current_stage: str | None = None
    progress_info: str | None = None


class Binding(Body, frozen=True, kw_only=True):
    """bind-host-params."""

    cluster_id: str | None = None


class InstallerArgs(Body, frozen=True, kw_only=True):
    """installer-args-params."""

    args: list[str] | None = None


class IgnitionParams(Body, frozen=True, kw_only=True):
    """host-ignition-params."""

    config: str | None = None
