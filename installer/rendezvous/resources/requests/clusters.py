"""Bodies of requests as the specification has them: decoded where they come in, types and required fields checked.

A null counts as absent. Values are judged by the resources; a field that the specification does not have is refused, at
any depth, as upstream's strict decoder does.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from installer.assisted.enums import VipVerification
from installer.rendezvous.store.model import JsonMap
from installer.rendezvous.store.shapes import CloudControllerManager, EncryptionMode, LoadBalancerType, PlatformType

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=54)]
# As go-openapi has it: dashes may be left out.
Uuid = Annotated[
    str, msgspec.Meta(pattern="^" + "-?".join(f"[0-9a-fA-F]{{{length}}}" for length in (8, 4, 4, 4, 12)) + r"\Z")
]
Cidr = Annotated[str, msgspec.Meta(pattern=r"^([0-9.]+|[0-9a-fA-F:.]*)/[0-9]{1,3}\Z")]
HostPrefix = Annotated[int, msgspec.Meta(ge=1, le=128)]
Hosts = Literal[
    "none", "masters", "arbiters", "workers", "masters,arbiters", "masters,workers", "arbiters,workers",
    "masters,arbiters,workers", "all",
]  # fmt: skip
NetworkType = Literal["OpenShiftSDN", "OVNKubernetes", "CiscoACI", "Cilium", "Calico", "None"]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object; its repr shows no values, as they may be secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.sent_fields())})"

    def sent_fields(self) -> JsonMap:
        """Return the fields that were sent, without nulls, by the specification's names."""
        sent: JsonMap = msgspec.to_builtins(self)
        return sent


class NetworkParams(Body, frozen=True, kw_only=True):
    """service-network and machine-network."""

    cidr: Cidr | None = None
    cluster_id: str | None = None


class ClusterNetworkParams(NetworkParams, frozen=True, kw_only=True):
    """cluster-network."""

    # 0 is refused where it matters: upstream's clients send it for an unset field.
    host_prefix: Annotated[int, msgspec.Meta(ge=0, le=128)] | None = None


class VipParams(Body, frozen=True, kw_only=True):
    """api-vip and ingress-vip."""

    ip: str | None = None
    verification: VipVerification | None = None
    cluster_id: str | None = None


class ExternalParams(Body, frozen=True, kw_only=True):
    """platform-external."""

    platform_name: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    cloud_controller_manager: CloudControllerManager | None = None


class PlatformParams(Body, frozen=True, kw_only=True):
    """platform."""

    type: PlatformType
    external: ExternalParams | None = None


class LoadBalancerParams(Body, frozen=True, kw_only=True):
    """load-balancer."""

    type: LoadBalancerType | None = None


class DiskEncryptionParams(Body, frozen=True, kw_only=True):
    """disk-encryption; tang_servers is JSON in a text."""

    enable_on: Hosts | None = None
    mode: EncryptionMode | None = None
    tang_servers: str | None = None


class OperatorParams(Body, frozen=True, kw_only=True):
    """operator-create-params; properties are JSON in a text."""

    name: str | None = None
    properties: str | None = None


class BundleParams(Body, frozen=True, kw_only=True):
    """bundle-create-params."""

    id: str
    optional_operators: list[str] | None = None


class HttpHeader(Body, frozen=True, kw_only=True):
    """ignition-endpoint-http-headers-params."""

    key: str
    value: str


class IgnitionEndpoint(Body, frozen=True, kw_only=True):
    """ignition-endpoint: where hosts that are added later get their config."""

    url: str | None = None
    ca_certificate: str | None = None


class ClusterSettings(Body, frozen=True, kw_only=True):
    """The fields that cluster-create-params and v2-cluster-update-params share."""

    name: Name | None = None
    base_dns_domain: str | None = None
    platform: PlatformParams | None = None
    user_managed_networking: bool | None = None
    vip_dhcp_allocation: bool | None = None
    network_type: NetworkType | None = None
    cluster_networks: list[ClusterNetworkParams] | None = None
    service_networks: list[NetworkParams] | None = None
    machine_networks: list[NetworkParams] | None = None
    cluster_network_cidr: Cidr | None = None
    # 0 as well: upstream's clients send it for an unset field.
    cluster_network_host_prefix: Annotated[int, msgspec.Meta(ge=0, le=128)] | None = None
    service_network_cidr: Cidr | None = None
    api_vips: list[VipParams] | None = None
    ingress_vips: list[VipParams] | None = None
    ssh_public_key: str | None = None
    pull_secret: str | None = None
    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None
    additional_ntp_source: str | None = None
    ntp_sources: str | None = None
    hyperthreading: Hosts | None = None
    schedulable_masters: bool | None = None
    disk_encryption: DiskEncryptionParams | None = None
    load_balancer: LoadBalancerParams | None = None
    ignition_endpoint: IgnitionEndpoint | None = None
    tags: str | None = None
    olm_operators: list[OperatorParams] | None = None
    operator_bundles: list[BundleParams] | None = None
    control_plane_count: int | None = None


class ClusterParams(ClusterSettings, frozen=True, kw_only=True):
    """cluster-create-params."""

    openshift_version: str | None = None
    ocp_release_image: str | None = None
    cpu_architecture: Literal["x86_64", "aarch64", "arm64", "ppc64le", "s390x", "multi", ""] | None = None
    high_availability_mode: Literal["Full", "None"] | None = None


class ClusterUpdate(ClusterSettings, frozen=True, kw_only=True):
    """v2-cluster-update-params."""

    machine_network_cidr: Cidr | None = None
    cluster_network_host_prefix: HostPrefix | None = None
    api_vip_dns_name: str | None = None


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
    data: JsonMap | None = None


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
    cluster_id: Uuid | None = None
    name: str | None = None
    category: Literal["user", "metrics"] | None = None
    host_id: Uuid | None = None
    infra_env_id: Uuid | None = None
    request_id: Uuid | None = None
    props: str | None = None
