"""platform of install-config.yaml as types (reference/installer.md §1.1); names follow the file's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from installer.config import check
from installer.config.decode import Bits, Shape, key

# Platforms that install-config knows and the agent installer does not support (rule 21).
OTHER_PLATFORMS = ("aws", "azure", "gcp", "ibmcloud", "openstack", "ovirt", "powervc", "powervs")
AGENT_PLATFORMS = ("baremetal", "vsphere", "nutanix", "none", "external")


@dataclass(frozen=True)
class BareMetalPool:
    """A machine pool's platform.baremetal: there is nothing to say."""


@dataclass(frozen=True)
class OsDisk:
    """A virtual machine's disk."""

    disk_size_gb: Annotated[int, Bits(32)] | None = key("diskSizeGB", default=None)


@dataclass(frozen=True)
class DataDisk:
    """A further disk of a virtual machine."""

    name: str = ""
    size_gib: Annotated[int, Bits(32)] | None = key("sizeGiB", default=None)
    provisioning_mode: str = ""


@dataclass(frozen=True)
class VSpherePool:
    """A machine pool's platform.vsphere."""

    cpus: Annotated[int, Bits(32)] | None = None
    cores_per_socket: Annotated[int, Bits(32)] | None = None
    memory_mb: int | None = key("memoryMB", default=None)
    os_disk: OsDisk | None = None
    data_disks: tuple[DataDisk, ...] = ()
    zones: tuple[str, ...] = ()


@dataclass(frozen=True)
class NutanixIdentifier:
    """A thing in Prism, by its UUID or its name."""

    type: str = ""
    uuid: str = ""
    name: str = ""


@dataclass(frozen=True)
class NutanixGpu:
    """A GPU, by its name or its device's number."""

    type: str = ""
    device_id: Annotated[int, Bits(32)] | None = key("deviceID", default=None)
    name: str = ""


@dataclass(frozen=True)
class NutanixCategory:
    """A category of Prism."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True)
class NutanixResource:
    """A storage container or an image of a failure domain."""

    reference_name: str = ""
    uuid: str = ""
    name: str = ""


@dataclass(frozen=True)
class NutanixDiskDevice:
    """How a virtual machine sees a disk."""

    device_type: str = ""
    adapter_type: str = ""
    device_index: Annotated[int, Bits(32)] | None = None


@dataclass(frozen=True)
class NutanixStorage:
    """Where a disk is kept."""

    disk_mode: str = ""
    storage_container: NutanixResource | None = None


@dataclass(frozen=True)
class NutanixDataDisk:
    """A further disk of a virtual machine."""

    disk_size: str = ""
    device_properties: NutanixDiskDevice | None = None
    storage_config: NutanixStorage | None = None
    data_source_image: NutanixResource | None = None


@dataclass(frozen=True)
class NutanixOsDisk:
    """A virtual machine's disk."""

    disk_size_gib: int | None = key("diskSizeGiB", default=None)


@dataclass(frozen=True)
class NutanixPool:
    """A machine pool's platform.nutanix; nothing of it is used."""

    cpus: int | None = None
    cores_per_socket: int | None = None
    memory_mib: int | None = key("memoryMiB", default=None)
    os_disk: NutanixOsDisk | None = None
    boot_type: str = ""
    project: NutanixIdentifier | None = None
    categories: tuple[NutanixCategory, ...] = ()
    gpus: tuple[NutanixGpu, ...] = ()
    data_disks: tuple[NutanixDataDisk, ...] = ()
    failure_domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolPlatform:
    """A machine pool's platform; what is for a cloud stays plain data."""

    baremetal: BareMetalPool | None = None
    vsphere: VSpherePool | None = None
    nutanix: NutanixPool | None = None
    aws: Annotated[Any, Shape("aws.MachinePool")] = None
    azure: Annotated[Any, Shape("azure.MachinePool")] = None
    gcp: Annotated[Any, Shape("gcp.MachinePool")] = None
    ibmcloud: Annotated[Any, Shape("ibmcloud.MachinePool")] = None
    openstack: Annotated[Any, Shape("openstack.MachinePool")] = None
    ovirt: Annotated[Any, Shape("ovirt.MachinePool")] = None
    powervc: Annotated[Any, Shape("powervc.MachinePool")] = None
    powervs: Annotated[Any, Shape("powervs.MachinePool")] = None


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
    password: str = field(default="", repr=False)
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
    provisioning_network_cidr: Annotated[str, check.cidr_text] = key("provisioningNetworkCIDR", default="")
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
    default_machine_platform: BareMetalPool | None = None
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
class VCenter:
    """platform.vsphere.vcenters[]."""

    server: str = ""
    port: Annotated[int, Bits(32)] | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    datacenters: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """True if any credential is: then all must be (rule 28)."""
        return bool(self.server or self.user or self.password or self.datacenters)


@dataclass(frozen=True)
class VSphereTopology:
    """Where in a vCenter the machines of a failure domain are; inventory paths are absolute."""

    datacenter: str = ""
    compute_cluster: str = ""
    networks: tuple[str, ...] = ()
    datastore: str = ""
    resource_pool: str = ""
    folder: str = ""
    template: str = ""
    tag_ids: tuple[str, ...] = key("tagIDs", default=())
    host_group: str = ""


@dataclass(frozen=True)
class VSphereFailureDomain:
    """platform.vsphere.failureDomains[]."""

    name: str = ""
    region: str = ""
    zone: str = ""
    server: str = ""
    topology: VSphereTopology = field(default_factory=VSphereTopology)
    region_type: str = ""
    zone_type: str = ""


@dataclass(frozen=True)
class VSphereNetworking:
    """platform.vsphere.nodeNetworking.{external,internal}."""

    network_subnet_cidr: tuple[str, ...] = ()
    network: str = ""
    exclude_network_subnet_cidr: tuple[str, ...] = ()


@dataclass(frozen=True)
class VSphereNodeNetworking:
    """platform.vsphere.nodeNetworking."""

    external: VSphereNetworking = field(default_factory=VSphereNetworking)
    internal: VSphereNetworking = field(default_factory=VSphereNetworking)


@dataclass(frozen=True)
class VSphereDevice:
    """The addresses of one of platform.vsphere.hosts[]."""

    gateway: str = ""
    ip_addrs: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()


@dataclass(frozen=True)
class VSphereHost:
    """platform.vsphere.hosts[]: static addresses, which the agent installer takes from agent-config."""

    failure_domain: str = ""
    network_device: VSphereDevice | None = None
    role: str = ""


@dataclass(frozen=True)
class VSpherePlatform:
    """platform.vsphere; vCenter to resourcePool and network are the deprecated form without failure domains."""

    api_vips: tuple[str, ...] = key("apiVIPs", default=())
    ingress_vips: tuple[str, ...] = key("ingressVIPs", default=())
    api_vip: str = key("apiVIP", default="")
    ingress_vip: str = key("ingressVIP", default="")
    vcenters: tuple[VCenter, ...] = ()
    failure_domains: tuple[VSphereFailureDomain, ...] = ()
    node_networking: VSphereNodeNetworking | None = None
    load_balancer: LoadBalancer | None = None
    dns_records_type: str = ""
    disk_type: str = ""
    cluster_os_image: str = key("clusterOSImage", default="")
    default_machine_platform: VSpherePool | None = None
    hosts: tuple[VSphereHost, ...] = ()
    v_center: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    datacenter: str = ""
    default_datastore: str = ""
    folder: str = ""
    cluster: str = ""
    resource_pool: str = ""
    network: str = ""


@dataclass(frozen=True)
class PrismEndpoint:
    """Where a Prism Central or Element answers."""

    address: str = ""
    port: Annotated[int, Bits(32)] | None = None


@dataclass(frozen=True)
class PrismCentral:
    """platform.nutanix.prismCentral."""

    endpoint: PrismEndpoint = field(default_factory=PrismEndpoint)
    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class PrismElement:
    """platform.nutanix.prismElements[]."""

    uuid: str = ""
    endpoint: PrismEndpoint = field(default_factory=PrismEndpoint)
    name: str = ""


@dataclass(frozen=True)
class NutanixFailureDomain:
    """platform.nutanix.failureDomains[]."""

    name: str = ""
    prism_element: PrismElement = field(default_factory=PrismElement)
    subnet_uuids: tuple[str, ...] = key("subnetUUIDs", default=())
    storage_containers: tuple[NutanixResource, ...] = ()
    data_source_images: tuple[NutanixResource, ...] = ()


@dataclass(frozen=True)
class NutanixPlatform:
    """platform.nutanix."""

    prism_central: PrismCentral = field(default_factory=PrismCentral)
    prism_elements: tuple[PrismElement, ...] = ()
    cluster_os_image: str = key("clusterOSImage", default="")
    preloaded_os_image_name: str = key("preloadedOSImageName", default="")
    api_vip: str = key("apiVIP", default="")
    api_vips: tuple[str, ...] = key("apiVIPs", default=())
    ingress_vip: str = key("ingressVIP", default="")
    ingress_vips: tuple[str, ...] = key("ingressVIPs", default=())
    default_machine_platform: NutanixPool | None = None
    subnet_uuids: tuple[str, ...] = key("subnetUUIDs", default=())
    load_balancer: LoadBalancer | None = None
    dns_records_type: str = ""
    failure_domains: tuple[NutanixFailureDomain, ...] = ()
    prism_api_call_timeout: int | None = key("prismAPICallTimeout", default=None)


VipPlatform = BareMetalPlatform | VSpherePlatform | NutanixPlatform


@dataclass(frozen=True)
class Platform:
    """platform: exactly one is set. Those that the agent installer refuses stay plain data."""

    none: NonePlatform | None = None
    baremetal: BareMetalPlatform | None = None
    external: ExternalPlatform | None = None
    vsphere: VSpherePlatform | None = None
    nutanix: NutanixPlatform | None = None
    aws: Annotated[Any, Shape("aws.Platform")] = None
    azure: Annotated[Any, Shape("azure.Platform")] = None
    gcp: Annotated[Any, Shape("gcp.Platform")] = None
    ibmcloud: Annotated[Any, Shape("ibmcloud.Platform")] = None
    openstack: Annotated[Any, Shape("openstack.Platform")] = None
    ovirt: Annotated[Any, Shape("ovirt.Platform")] = None
    powervc: Annotated[Any, Shape("powervc.Platform")] = None
    powervs: Annotated[Any, Shape("powervs.Platform")] = None

    def names(self) -> tuple[str, ...]:
        """The platforms that are set."""
        return tuple(name for name in (*AGENT_PLATFORMS, *OTHER_PLATFORMS) if getattr(self, name) is not None)

    @property
    def name(self) -> str:
        """The platform's name, the first of the alphabet if several are set, empty if none is."""
        return min(self.names(), default="")

    @property
    def with_vips(self) -> VipPlatform | None:
        """The platform, if it is one of those that have virtual addresses."""
        return self.baremetal or self.vsphere or self.nutanix
