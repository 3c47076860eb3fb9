"""Bodies of requests about infra-envs and hosts, decoded at the edge; what is wrong with one is a 400."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from installer.rendezvous.resources.requests.clusters import Body, HttpHeader, Uuid
from installer.rendezvous.store.shapes import KernelOperation


class ProxyParams(Body, frozen=True, kw_only=True):
    """proxy."""

    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: str | None = None


class NicParams(Body, frozen=True, kw_only=True):
    """A row of mac-interface-map."""

    mac_address: Annotated[str, msgspec.Meta(pattern=r"^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})\Z")]
    logical_nic_name: str | None = None


class StaticNetworkParams(Body, frozen=True, kw_only=True):
    """host-static-network-config: an nmstate document, and the NICs that tell whose it is."""

    network_yaml: str | None = None
    mac_interface_map: list[NicParams] | None = None


class KernelArgumentParams(Body, frozen=True, kw_only=True):
    """kernel-argument."""

    operation: KernelOperation | None = None
    value: Annotated[str, msgspec.Meta(pattern='^(?:(?:[^ \\t\\n\\r"]+)|(?:"[^"]*"))*\\Z')] | None = None


class InfraEnvUpdate(Body, frozen=True, kw_only=True):
    """infra-env-update-params."""

    openshift_version: str | None = None
    ssh_authorized_key: str | None = None
    pull_secret: str | None = None
    additional_ntp_sources: str | None = None
    ntp_sources: str | None = None
    additional_trust_bundle: Annotated[str, msgspec.Meta(max_length=65535)] | None = None
    proxy: ProxyParams | None = None
    ignition_config_override: str | None = None
    image_type: Literal["full-iso", "minimal-iso", "disconnected-iso"] | None = None
    static_network_config: list[StaticNetworkParams] | None = None
    kernel_arguments: list[KernelArgumentParams] | None = None
    rendezvous_ip: str | None = None
    network_discovery_delay_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None


class InfraEnvParams(InfraEnvUpdate, frozen=True, kw_only=True):
    """infra-env-create-params."""

    name: str | None = None
    cluster_id: Uuid | None = None
    cpu_architecture: Literal["x86_64", "aarch64", "arm64", "ppc64le", "s390x", ""] | None = None


class HostCreate(Body, frozen=True, kw_only=True):
    """host-create-params."""

    host_id: Uuid
    discovery_agent_version: str | None = None


class ChosenDisk(Body, frozen=True, kw_only=True):
    """disk-config-params."""

    id: str
    role: Literal["none", "install"] | None = None


class SkippedDisk(Body, frozen=True, kw_only=True):
    """disk-skip-formatting-params."""

    disk_id: str
    skip_formatting: bool


class NodeLabel(Body, frozen=True, kw_only=True):
    """node-label-params."""

    key: str
    value: str


class FencingParams(Body, frozen=True, kw_only=True):
    """fencing-credentials-params."""

    address: str
    username: str
    password: str
    certificate_verification: Literal["Enabled", "Disabled"] | None = None
    mac_address: str | None = None


class HostUpdate(Body, frozen=True, kw_only=True):
    """host-update-params."""

    host_role: Literal["auto-assign", "master", "arbiter", "worker"] | None = None
    host_name: str | None = None
    disks_selected_config: list[ChosenDisk] | None = None
    disks_skip_formatting: list[SkippedDisk] | None = None
    node_labels: list[NodeLabel] | None = None
    fencing_credentials: FencingParams | None = None
    machine_config_pool_name: str | None = None
    ignition_endpoint_token: str | None = None
    ignition_endpoint_http_headers: list[HttpHeader] | None = None


class StepReply(Body, frozen=True, kw_only=True):
    """step-reply."""

    step_type: str | None = None
    step_id: str | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    output: str | None = None
    error: str | None = None


class HostProgressParams(Body, frozen=True, kw_only=True):
    """host-progress."""

    current_stage: str | None = None
    progress_info: str | None = None


class Binding(Body, frozen=True, kw_only=True):
    """bind-host-params."""

    cluster_id: Uuid


class InstallerArgs(Body, frozen=True, kw_only=True):
    """installer-args-params."""

    args: list[str] | None = None


class IgnitionParams(Body, frozen=True, kw_only=True):
    """host-ignition-params."""

    config: str | None = None
