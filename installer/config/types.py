"""install-config.yaml as types (reference/installer.md §1.1). Names follow the file's; all fields may be absent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from installer.config.decode import key

# Platforms that install-config knows and the agent installer does not support (rule 21).
OTHER_PLATFORMS = ("aws", "azure", "gcp", "ibmcloud", "openstack", "ovirt", "powervs")
AGENT_PLATFORMS = ("baremetal", "vsphere", "nutanix", "none", "external")


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
    password: str = ""
    certificate_verification: str = ""


@dataclass(frozen=True)
class Fencing:
    """controlPlane.fencing."""

    credentials: tuple[FencingCredential, ...] = ()


@dataclass(frozen=True)
class MachinePool:
    """controlPlane, arbiter, or one of compute."""

    name: str = ""
    replicas: int | None = None
    architecture: str = ""
    hyperthreading: str = ""
    platform: Any = None
    fencing: Fencing | None = None
    disk_setup: Any = None
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
class RootDeviceHints:
    """Which disk to install to; all given hints must match (reference §1.3)."""

    device_name: str = ""
    hctl: str = ""
    model: str = ""
    vendor: str = ""
    serial_number: str = ""
    min_size_gigabytes: int | None = None
    wwn: str = ""
    wwn_with_extension: str = ""
    wwn_vendor_extension: str = ""
    rotational: bool | None = None


@dataclass(frozen=True)
class Bmc:
    """A host's baseboard management controller."""

    address: str = ""
    username: str = ""
    password: str = ""
    disable_certificate_verification: bool | None = None


@dataclass(frozen=True)
class BareMetalHost:
    """platform.baremetal.hosts[]: the agent installer uses them only where agent-config has none."""

    name: str = ""
    role: str = ""
    bmc: Bmc | None = None
    boot_mac_address: str = key("bootMACAddress", default="")
    boot_mode: str = ""
    hardware_profile: str = ""
    root_device_hints: RootDeviceHints | None = None
    network_config: Any = None


@dataclass(frozen=True)
class LoadBalancer:
    """platform.<p>.loadBalancer."""

    type: str = ""


@dataclass(frozen=True)
class BareMetalPlatform:
    """platform.baremetal."""

    api_vips: tuple[str, ...] = key("apiVIPs", default=())
    ingress_vips: tuple[str, ...] = key("ingressVIPs", default=())
    api_vip: str = key("apiVIP", default="")
    ingress_vip: str = key("ingressVIP", default="")
    hosts: tuple[BareMetalHost, ...] = ()
    load_balancer: LoadBalancer | None = None
    dns_records_type: str = ""
    provisioning_network: str = ""
    provisioning_network_cidr: str = key("provisioningNetworkCIDR", default="")
    provisioning_network_interface: str = ""
    provisioning_dhcp_external: bool | None = key("provisioningDHCPExternal", default=None)
    provisioning_dhcp_range: str = key("provisioningDHCPRange", default="")
    provisioning_bridge: str = ""
    provisioning_mac_address: str = key("provisioningMACAddress", default="")
    cluster_provisioning_ip: str = key("clusterProvisioningIP", default="")
    bootstrap_provisioning_ip: str = key("bootstrapProvisioningIP", default="")
    provisioning_host_ip: str = key("provisioningHostIP", default="")
    bootstrap_external_static_ip: str = key("bootstrapExternalStaticIP", default="")
    bootstrap_external_static_gateway: str = ""
    bootstrap_external_static_dns: str = key("bootstrapExternalStaticDNS", default="")
    external_bridge: str = ""
    external_mac_address: str = key("externalMACAddress", default="")
    libvirt_uri: str = key("libvirtURI", default="")
    bootstrap_os_image: str = key("bootstrapOSImage", default="")
    cluster_os_image: str = key("clusterOSImage", default="")
    default_machine_platform: Any = None
    additional_ntp_servers: tuple[str, ...] = key("additionalNTPServers", default=())
    bmc_verify_ca: str = key("bmcVerifyCA", default="")


@dataclass(frozen=True)
class NonePlatform:
    """platform.none: {}."""


@dataclass(frozen=True)
class ExternalPlatform:
    """platform.external."""

    platform_name: str = ""
    cloud_controller_manager: str = ""


@dataclass(frozen=True)
class Platform:
    """platform: exactly one is set. vsphere and nutanix stay plain data, their rules read them as such."""

    none: NonePlatform | None = None
    baremetal: BareMetalPlatform | None = None
    external: ExternalPlatform | None = None
    vsphere: Any = None
    nutanix: Any = None
    aws: Any = None
    azure: Any = None
    gcp: Any = None
    ibmcloud: Any = None
    openstack: Any = None
    ovirt: Any = None
    powervs: Any = None

    def names(self) -> tuple[str, ...]:
        """The platforms that are set."""
        return tuple(name for name in (*AGENT_PLATFORMS, *OTHER_PLATFORMS) if getattr(self, name) is not None)

    @property
    def name(self) -> str:
        """The platform's name, empty unless exactly one is set."""
        names = self.names()
        return names[0] if len(names) == 1 else ""


@dataclass(frozen=True)
class ImageSource:
    """One entry of imageDigestSources or of the deprecated imageContentSources."""

    source: str = ""
    mirrors: tuple[str, ...] = ()
    source_policy: str = ""


@dataclass(frozen=True)
class Proxy:
    """proxy."""

    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: str = ""


@dataclass(frozen=True)
class Capabilities:
    """capabilities."""

    baseline_capability_set: str = ""
    additional_enabled_capabilities: tuple[str, ...] = ()


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
    pull_secret: str = ""
    proxy: Proxy | None = None
    image_content_sources: tuple[ImageSource, ...] = ()
    image_digest_sources: tuple[ImageSource, ...] = ()
    publish: str = ""
    operator_publishing_strategy: Any = None
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
