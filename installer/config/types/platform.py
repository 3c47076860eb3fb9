"""platform of install-config.yaml as types (reference/installer.md §1.1); names follow the file's."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

from installer.config.decode import Shape, key
from installer.config.types.cloud import LoadBalancer, NutanixPlatform, NutanixPool, VSpherePlatform, VSpherePool
from installer.config.values import check

# Platforms that install-config knows and the agent installer does not support (rule 21).
OTHER_PLATFORMS = ("aws", "azure", "gcp", "ibmcloud", "openstack", "ovirt", "powervc", "powervs")
AGENT_PLATFORMS = ("baremetal", "vsphere", "nutanix", "none", "external")


@dataclass(frozen=True)
class BareMetalPool:
    """A machine pool's platform.baremetal, which has no fields."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class RootDeviceHints:
    """The disk to install to; all given hints must match (reference §1.3)."""

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

    @property
    def has_any(self) -> bool:
        """True if it says where the controller is, or who may log in: then it reaches the cluster."""
        return bool(self.address or self.username or self.password)


@dataclass(frozen=True, kw_only=True)
class BareMetalHost:
    """platform.baremetal.hosts[]: the agent installer uses them only where agent-config has none."""

    name: str = ""
    role: str = ""
    bmc: Bmc | None = None
    boot_mac_address: str = key("bootMACAddress", default="")
    boot_mode: str = ""
    hardware_profile: str = ""
    root_device_hints: RootDeviceHints | None = None
    network_config: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class BareMetalPlatform:
    """platform.baremetal."""

    api_vips: tuple[str, ...] = key("apiVIPs", default=())
    ingress_vips: tuple[str, ...] = key("ingressVIPs", default=())
    _: KW_ONLY
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


VipPlatform = BareMetalPlatform | VSpherePlatform | NutanixPlatform


@dataclass(frozen=True, kw_only=True)
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
        """Return the platforms that are set."""
        return tuple(name for name in (*AGENT_PLATFORMS, *OTHER_PLATFORMS) if getattr(self, name) is not None)

    @property
    def name(self) -> str:
        """The platform's name, the first of the alphabet if several are set, empty if none is."""
        return min(self.names(), default="")

    @property
    def with_vips(self) -> VipPlatform | None:
        """The platform, if it is one of those that have virtual addresses."""
        return self.baremetal or self.nutanix or self.vsphere

    @property
    def vips_of(self) -> str:
        """The name of the platform that has virtual addresses, also where `none` is set beside it; empty if none
        has."""
        return next((name for name in ("baremetal", "nutanix", "vsphere") if getattr(self, name) is not None), "")
