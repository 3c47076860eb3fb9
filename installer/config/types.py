"""install-config.yaml as types (reference/installer.md §1.1). Names follow the file's; all fields may be absent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from installer.config.decode import key
from installer.config.platform_types import Platform


@dataclass(frozen=True)
class ObjectMeta:
    """metadata: only name and namespace are used, labels and annotations are let pass."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Any = None


@dataclass(frozen=True)
class FencingCredential:
    """Where one control plane host's BMC is, for fencing."""

    host_name: str = ""
    mac_address: str = ""
    address: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate_verification: str = ""


@dataclass(frozen=True)
class Fencing:
    """controlPlane.fencing."""

    credentials: tuple[FencingCredential, ...] = ()


@dataclass(frozen=True)
class DiskPlace:
    """Which disk, and for a user's own where it is mounted."""

    platform_disk_id: str = key("platformDiskID", default="")
    mount_path: str = ""


@dataclass(frozen=True)
class DiskSetup:
    """One of a pool's further disks: type is etcd, swap or user-defined, and the field of that name is set."""

    type: str = ""
    user_defined: DiskPlace | None = None
    etcd: DiskPlace | None = None
    swap: DiskPlace | None = None


@dataclass(frozen=True)
class MachinePool:
    """controlPlane, arbiter, or one of compute."""

    name: str = ""
    replicas: int | None = None
    architecture: str = ""
    hyperthreading: str = ""
    platform: Any = None
    fencing: Fencing | None = None
    disk_setup: tuple[DiskSetup, ...] = ()
    management: Any = None


@dataclass(frozen=True)
class MachineNetworkEntry:
    """One machine network."""

    cidr: str = ""


@dataclass(frozen=True)
class ClusterNetworkEntry:
    """One pod network; every node gets a /hostPrefix of it."""

    cidr: str = ""
    host_prefix: int | None = None
    host_subnet_length: int | None = None


@dataclass(frozen=True)
class OvnIpv4:
    """OVN-Kubernetes' IPv4 settings."""

    internal_join_subnet: str = ""


@dataclass(frozen=True)
class OvnKubernetesConfig:
    """networking.ovnKubernetesConfig."""

    ipv4: OvnIpv4 | None = None


@dataclass(frozen=True)
class Networking:
    """networking; machineCIDR, serviceCIDR, clusterNetworks and type are deprecated spellings."""

    network_type: str = ""
    machine_network: tuple[MachineNetworkEntry, ...] = ()
    cluster_network: tuple[ClusterNetworkEntry, ...] = ()
    service_network: tuple[str, ...] = ()
    cluster_network_mtu: int | None = key("clusterNetworkMTU", default=None)
    ovn_kubernetes_config: OvnKubernetesConfig | None = key("ovnKubernetesConfig", default=None)  # noqa: RUF009
    machine_cidr: str = key("machineCIDR", default="")
    service_cidr: str = key("serviceCIDR", default="")
    cluster_networks: tuple[ClusterNetworkEntry, ...] = ()
    type: str = ""


@dataclass(frozen=True)
class ImageSource:
    """One entry of imageDigestSources or of the deprecated imageContentSources."""

    source: str = ""
    mirrors: tuple[str, ...] = ()
    source_policy: str = ""


@dataclass(frozen=True)
class Proxy:
    """proxy."""

    http_proxy: str = field(default="", repr=False)
    https_proxy: str = field(default="", repr=False)
    no_proxy: str = ""


@dataclass(frozen=True)
class Capabilities:
    """capabilities."""

    baseline_capability_set: str = ""
    additional_enabled_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorPublishingStrategy:
    """operatorPublishingStrategy: only with publish: Mixed, which is for clouds."""

    ingress: str = ""
    apiserver: str = ""


@dataclass(frozen=True)
class BootstrapInPlace:
    """bootstrapInPlace."""

    installation_disk: str = ""


@dataclass(frozen=True)
class InstallConfig:
    """install-config.yaml."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    base_domain: str = ""
    additional_trust_bundle: str = ""
    additional_trust_bundle_policy: str = ""
    ssh_key: str = ""
    networking: Networking | None = None
    control_plane: MachinePool | None = None
    arbiter: MachinePool | None = None
    compute: tuple[MachinePool, ...] = ()
    platform: Platform = field(default_factory=Platform)
    pull_secret: str = field(default="", repr=False)
    proxy: Proxy | None = None
    image_content_sources: tuple[ImageSource, ...] = ()
    image_digest_sources: tuple[ImageSource, ...] = ()
    publish: str = ""
    operator_publishing_strategy: OperatorPublishingStrategy | None = None
    fips: bool = False
    cpu_partitioning_mode: str = key("cpuPartitioningMode", default="")
    credentials_mode: str = ""
    bootstrap_in_place: BootstrapInPlace | None = None
    capabilities: Capabilities | None = None
    feature_set: str = ""
    feature_gates: tuple[str, ...] = ()
    os_image_stream: str = key("osImageStream", default="")

    @property
    def masters(self) -> int:
        """Control plane replicas."""
        return (self.control_plane.replicas or 0) if self.control_plane else 0

    @property
    def arbiters(self) -> int:
        """Arbiter replicas."""
        return (self.arbiter.replicas or 0) if self.arbiter else 0

    @property
    def workers(self) -> int:
        """Compute replicas, over all pools."""
        return sum(pool.replicas or 0 for pool in self.compute)

    @property
    def cluster_domain(self) -> str:
        """<name>.<baseDomain>, without a trailing dot."""
        return f"{self.metadata.name}.{self.base_domain}".rstrip(".")

    @property
    def sources(self) -> tuple[ImageSource, ...]:
        """The mirrors, under either name."""
        return self.image_digest_sources or self.image_content_sources
