"""cluster-manifests/ as types: the objects of zero-touch provisioning (reference/installer.md §2.1).

Decoded strictly, as upstream does; fields that only hive reads are let pass as plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from installer.config.decode import key
from installer.config.types.cloud import LoadBalancer
from installer.config.types.install import ObjectMeta, Proxy


@dataclass(frozen=True)
class Ref:
    """A reference to another object."""

    name: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class PodNetwork:
    """AgentClusterInstall spec.networking.clusterNetwork[]; here the CIDR is any text until a rule looks at it."""

    cidr: str = ""
    host_prefix: int | None = None


@dataclass(frozen=True)
class MachineNetwork:
    """AgentClusterInstall spec.networking.machineNetwork[]."""

    cidr: str = ""


@dataclass(frozen=True, kw_only=True)
class Networking:
    """AgentClusterInstall spec.networking."""

    cluster_network: tuple[PodNetwork, ...] = ()
    machine_network: tuple[MachineNetwork, ...] = ()
    service_network: tuple[str, ...] = ()
    network_type: str = ""
    user_managed_networking: bool | None = None


@dataclass(frozen=True)
class ProvisionRequirements:
    """The numbers of hosts of each role that the cluster needs."""

    control_plane_agents: int = 0
    arbiter_agents: int = 0
    worker_agents: int = 0


@dataclass(frozen=True)
class DiskEncryption:
    """AgentClusterInstall spec.diskEncryption."""

    enable_on: str = ""
    mode: str = ""
    tang_servers: str = ""


@dataclass(frozen=True)
class External:
    """AgentClusterInstall spec.external."""

    platform_name: str = ""
    cloud_controller_manager: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterInstallSpec:
    """AgentClusterInstall spec."""

    image_set_ref: Ref | None = None
    cluster_deployment_ref: Ref = field(default_factory=Ref)
    cluster_metadata: Any = None
    manifests_config_map_ref: Any = None
    manifests_config_map_refs: Any = None
    networking: Networking = field(default_factory=Networking)
    ssh_public_key: str = ""
    provision_requirements: ProvisionRequirements = field(default_factory=ProvisionRequirements)
    control_plane: Any = None
    compute: Any = None
    arbiter: Any = None
    api_vip: str = key("apiVIP", default="")
    api_vips: tuple[str, ...] = key("apiVIPs", default=())
    ingress_vip: str = key("ingressVIP", default="")
    ingress_vips: tuple[str, ...] = key("ingressVIPs", default=())
    hold_installation: bool = False
    ignition_endpoint: Any = None
    disk_encryption: DiskEncryption | None = None
    proxy: Proxy | None = field(default=None, repr=False)
    platform_type: str = ""
    external: External | None = None
    masters_schedulable: bool = False
    load_balancer: LoadBalancer | None = None


@dataclass(frozen=True)
class Manifest:
    """The fields that every object has."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: Any = None


@dataclass(frozen=True)
class ClusterInstall(Manifest):
    """AgentClusterInstall."""

    spec: ClusterInstallSpec = field(default_factory=ClusterInstallSpec)


@dataclass(frozen=True, kw_only=True)
class ClusterDeploymentSpec:
    """ClusterDeployment spec."""

    cluster_name: str = ""
    base_domain: str = ""
    platform: Any = None
    pull_secret_ref: Ref | None = None
    preserve_on_delete: bool = False
    control_plane_config: Any = None
    ingress: Any = None
    certificate_bundles: Any = None
    manage_dns: bool = key("manageDNS", default=False)
    cluster_metadata: Any = None
    installed: bool = False
    provisioning: Any = None
    cluster_install_ref: Any = None
    cluster_pool_ref: Any = None
    power_state: str = ""
    hibernate_after: str = ""
    install_attempts_limit: int | None = None
    bound_service_account_signing_key_secret_ref: Any = None


@dataclass(frozen=True)
class ClusterDeployment(Manifest):
    """ClusterDeployment."""

    spec: ClusterDeploymentSpec = field(default_factory=ClusterDeploymentSpec)


@dataclass(frozen=True)
class ImageSetSpec:
    """ClusterImageSet spec."""

    release_image: str = ""


@dataclass(frozen=True)
class ImageSet(Manifest):
    """ClusterImageSet."""

    spec: ImageSetSpec = field(default_factory=ImageSetSpec)


@dataclass(frozen=True)
class LabelSelector:
    """A choice of the NMStateConfigs that belong to an InfraEnv."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: Any = None


@dataclass(frozen=True, kw_only=True)
class InfraEnvSpec:
    """InfraEnv spec."""

    proxy: Proxy | None = field(default=None, repr=False)
    additional_ntp_sources: tuple[str, ...] = key("additionalNTPSources", default=())
    ssh_authorized_key: str = ""
    pull_secret_ref: Ref | None = None
    agent_labels: dict[str, str] | None = None
    nm_state_config_label_selector: LabelSelector = field(default_factory=LabelSelector)
    cluster_ref: Ref | None = None
    ignition_config_override: str = field(default="", repr=False)
    cpu_architecture: str = ""
    kernel_arguments: Any = None
    ipxe_script_type: str = ""
    additional_trust_bundle: str = ""
    os_image_version: str = ""
    image_type: str = ""
    mirror_registry_ref: Any = None


@dataclass(frozen=True)
class InfraEnv(Manifest):
    """InfraEnv."""

    spec: InfraEnvSpec = field(default_factory=InfraEnvSpec)


@dataclass(frozen=True)
class Interface:
    """A logical name for the NIC of that MAC address."""

    name: str = ""
    mac_address: str = ""


@dataclass(frozen=True)
class NMStateSpec:
    """NMStateConfig spec: a host's network, and by which NICs it is known."""

    interfaces: tuple[Interface, ...] = ()
    config: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class NMState(Manifest):
    """NMStateConfig."""

    spec: NMStateSpec = field(default_factory=NMStateSpec)


@dataclass(frozen=True)
class Secret(Manifest):
    """The pull secret."""

    type: str = ""
    immutable: bool | None = None
    data: dict[str, str] | None = field(default=None, repr=False)
    string_data: dict[str, str] | None = field(default=None, repr=False)
