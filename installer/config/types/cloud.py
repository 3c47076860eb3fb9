"""Platform sections of vSphere and Nutanix, of pools and of the cluster, as the files have them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated

from installer.config.decode import Bits, key


@dataclass(frozen=True)
class LoadBalancer:
    """platform.<p>.loadBalancer."""

    type: str = ""


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


@dataclass(frozen=True, kw_only=True)
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
    """A disk as a virtual machine sees it."""

    device_type: str = ""
    adapter_type: str = ""
    device_index: Annotated[int, Bits(32)] | None = None


@dataclass(frozen=True)
class NutanixStorage:
    """A disk's storage."""

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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class VCenter:
    """platform.vsphere.vcenters[]."""

    server: str = ""
    port: Annotated[int, Bits(32)] | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    datacenters: tuple[str, ...] = ()

    @property
    def has_any(self) -> bool:
        """True if any credential is: then all must be (rule 28)."""
        return bool(self.server or self.user or self.password or self.datacenters)


@dataclass(frozen=True, kw_only=True)
class VSphereTopology:
    """The place of a failure domain's machines in a vCenter; inventory paths are absolute."""

    datacenter: str = ""
    compute_cluster: str = ""
    networks: tuple[str, ...] = ()
    datastore: str = ""
    resource_pool: str = ""
    folder: str = ""
    template: str = ""
    tag_ids: tuple[str, ...] = key("tagIDs", default=())
    host_group: str = ""


@dataclass(frozen=True, kw_only=True)
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
    _: KW_ONLY
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
    """The address of a Prism Central or Element."""

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


@dataclass(frozen=True, kw_only=True)
class NutanixFailureDomain:
    """platform.nutanix.failureDomains[]."""

    name: str = ""
    prism_element: PrismElement = field(default_factory=PrismElement)
    subnet_uuids: tuple[str, ...] = key("subnetUUIDs", default=())
    storage_containers: tuple[NutanixResource, ...] = ()
    data_source_images: tuple[NutanixResource, ...] = ()


@dataclass(frozen=True, kw_only=True)
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
