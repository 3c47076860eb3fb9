"""install-config.yaml as types (reference/installer.md §1.1). Names follow the file's; all fields may be absent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

from installer.config.decode import Bits, Verbatim, key
from installer.config.types.platform import Platform, PoolPlatform
from installer.config.values import check

Cidr = Annotated[str, check.cidr_text]
Int32 = Annotated[int, Bits(32)]
Time = Annotated[str, check.timestamp]
TypeName = Annotated[str, Verbatim()]


@dataclass(frozen=True, kw_only=True)
class OwnerReference:
    """One of metadata's owners."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ManagedFields:
    """The setter of an object's fields."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time = ""
    fields_type: str = ""
    fields_v1: Any = key("fieldsV1", default=None)  # noqa: RUF009
    subresource: str = ""


@dataclass(frozen=True, kw_only=True)
class ObjectMeta:
    """metadata, as every Kubernetes object has it: only name and namespace are used."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: Time = ""
    deletion_timestamp: Time = ""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FencingCredential:
    """A control plane host's BMC, for fencing; the host is named by its name, or by a NIC's MAC address."""

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
    """A disk, and a user's own mount point for it."""

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
    _: KW_ONLY
    hyperthreading: str = ""
    platform: PoolPlatform | None = None
    fencing: Fencing | None = None
    disk_setup: tuple[DiskSetup, ...] = ()


@dataclass(frozen=True)
class MachineNetworkEntry:
    """One machine network."""

    cidr: Cidr = ""


@dataclass(frozen=True)
class ClusterNetworkEntry:
    """One pod network; every node gets a /hostPrefix of it."""

    cidr: Cidr = ""
    host_prefix: Int32 | None = None
    host_subnet_length: Int32 | None = None


@dataclass(frozen=True)
class OvnIpv4:
    """OVN-Kubernetes' IPv4 settings."""

    internal_join_subnet: Cidr = ""


@dataclass(frozen=True)
class OvnKubernetesConfig:
    """networking.ovnKubernetesConfig."""

    ipv4: OvnIpv4 | None = None


@dataclass(frozen=True, kw_only=True)
class Networking:
    """networking; machineCIDR, serviceCIDR, clusterNetworks and type are deprecated spellings."""

    network_type: str = ""
    machine_network: tuple[MachineNetworkEntry, ...] = ()
    cluster_network: tuple[ClusterNetworkEntry, ...] = ()
    service_network: tuple[Cidr, ...] = ()
    cluster_network_mtu: Annotated[int, Bits(32, signed=False)] | None = key("clusterNetworkMTU", default=None)
    ovn_kubernetes_config: OvnKubernetesConfig | None = key("ovnKubernetesConfig", default=None)  # noqa: RUF009
    machine_cidr: Cidr = key("machineCIDR", default="")  # noqa: RUF009
    type: str = ""
    service_cidr: Cidr = key("serviceCIDR", default="")  # noqa: RUF009
    cluster_networks: tuple[ClusterNetworkEntry, ...] = ()


@dataclass(frozen=True)
class ImageSource:
    """One entry of the deprecated imageContentSources."""

    source: str = ""
    mirrors: tuple[str, ...] = ()

    @property
    def policy(self) -> str:
        """Return the policy for contacting the source itself; empty for the default."""
        return ""


@dataclass(frozen=True)
class DigestSource(ImageSource):
    """One entry of imageDigestSources."""

    source_policy: str = ""

    @property
    def policy(self) -> str:
        """Return the policy for contacting the source itself; empty for the default."""
        return self.source_policy


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
    additional_enabled_capabilities: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OperatorPublishingStrategy:
    """operatorPublishingStrategy: only with publish: Mixed, which is for clouds."""

    ingress: str = ""
    apiserver: str = ""


@dataclass(frozen=True)
class BootstrapInPlace:
    """bootstrapInPlace."""

    installation_disk: str = ""


@dataclass(frozen=True, kw_only=True)
class InstallConfig:
    """install-config.yaml."""

    api_version: TypeName = ""
    kind: TypeName = ""
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
    image_digest_sources: tuple[DigestSource, ...] = ()
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
