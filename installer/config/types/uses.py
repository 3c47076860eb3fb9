"""The use of every field of the configs: one row a type, down to what is ignored as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, auto

from installer.common.redact import shortened, without_login
from installer.config.decode import camel
from installer.config.types import agent, cloud, install, platform

Table = Mapping[type, Mapping[str, "Use"]]


class Use(Enum):
    """CARRIED: into the manifests or the image. CONDITIONAL: carried, or else told by a function of config/notes.py.
    IGNORED: told wherever it is set. HARMLESS: of no effect that anybody would miss. REFUSED: by a rule."""

    CARRIED = auto()
    CONDITIONAL = auto()
    IGNORED = auto()
    HARMLESS = auto()
    REFUSED = auto()


def row(
    carried: str = "", *, conditional: str = "", ignored: str = "", harmless: str = "", refused: str = ""
) -> dict[str, Use]:
    """Return a type's fields by their names, which a blank separates, with what becomes of each."""
    names = {
        Use.CARRIED: carried,
        Use.CONDITIONAL: conditional,
        Use.IGNORED: ignored,
        Use.HARMLESS: harmless,
        Use.REFUSED: refused,
    }
    return {name: use for use, fields in names.items() for name in fields.split()}


#: The fields of a provisioning network, which only the BMCs of hosts are for.
PROVISIONING = (
    "provisioning_network provisioning_network_cidr provisioning_network_interface provisioning_dhcp_external "
    "provisioning_dhcp_range cluster_provisioning_ip provisioning_host_ip"
)
_CLOUDS = "aws azure gcp ibmcloud openstack ovirt powervc powervs"

FIELDS: dict[type, dict[str, Use]] = {
    install.InstallConfig: row(
        "api_version metadata base_domain additional_trust_bundle additional_trust_bundle_policy ssh_key networking "
        "control_plane arbiter compute platform pull_secret proxy image_content_sources image_digest_sources fips "
        "cpu_partitioning_mode bootstrap_in_place capabilities feature_set feature_gates",
        ignored="publish operator_publishing_strategy credentials_mode os_image_stream",
        harmless="kind",
    ),
    install.ObjectMeta: row(
        "name namespace",
        ignored="generate_name self_link uid resource_version generation creation_timestamp deletion_timestamp "
        "deletion_grace_period_seconds labels annotations owner_references finalizers managed_fields",
    ),
    install.Networking: row(
        "network_type machine_network cluster_network service_network",
        conditional="machine_cidr type service_cidr cluster_networks",
        ignored="ovn_kubernetes_config",
        refused="cluster_network_mtu",
    ),
    install.MachineNetworkEntry: row("cidr"),
    install.ClusterNetworkEntry: row("cidr host_prefix host_subnet_length"),
    install.MachinePool: row(
        "name replicas fencing", conditional="architecture", ignored="hyperthreading platform disk_setup"
    ),
    install.Fencing: row("credentials"),
    install.FencingCredential: row("host_name mac_address address username password certificate_verification"),
    install.Proxy: row("http_proxy https_proxy no_proxy"),
    install.ImageSource: row("source mirrors"),
    install.DigestSource: row("source mirrors source_policy"),
    install.BootstrapInPlace: row(ignored="installation_disk"),
    install.Capabilities: row("baseline_capability_set additional_enabled_capabilities"),
    platform.Platform: row("none baremetal external vsphere nutanix", refused=_CLOUDS),
    platform.NonePlatform: row(),
    platform.ExternalPlatform: row("platform_name cloud_controller_manager"),
    platform.BareMetalPlatform: row(
        "api_vips ingress_vips api_vip ingress_vip load_balancer",
        conditional=f"hosts additional_ntp_servers bmc_verify_ca {PROVISIONING}",
        ignored="dns_records_type provisioning_bridge external_bridge cluster_os_image default_machine_platform",
        # Those of a virtual machine for the bootstrap, which there is none of.
        harmless="provisioning_mac_address bootstrap_provisioning_ip bootstrap_external_static_ip external_mac_address "
        "bootstrap_external_static_gateway bootstrap_external_static_dns libvirt_uri bootstrap_os_image",
    ),
    platform.BareMetalHost: row(
        "name role bmc boot_mac_address root_device_hints network_config",
        conditional="boot_mode",
        ignored="hardware_profile",
    ),
    platform.Bmc: row("address username password disable_certificate_verification"),
    platform.RootDeviceHints: row(
        "device_name hctl model vendor serial_number min_size_gigabytes wwn rotational",
        refused="wwn_with_extension wwn_vendor_extension",
    ),
    cloud.LoadBalancer: row("type"),
    cloud.VSpherePlatform: row(
        "api_vips ingress_vips api_vip ingress_vip vcenters v_center username password datacenter default_datastore "
        "folder cluster resource_pool network",
        conditional="failure_domains",
        ignored="node_networking load_balancer dns_records_type disk_type cluster_os_image default_machine_platform "
        "hosts",
    ),
    cloud.VCenter: row("server port user password datacenters"),
    cloud.VSphereFailureDomain: row("name region zone server topology region_type zone_type"),
    cloud.VSphereTopology: row(
        "datacenter compute_cluster networks datastore resource_pool folder template tag_ids host_group"
    ),
    cloud.NutanixPlatform: row(
        "prism_central prism_elements api_vip api_vips ingress_vip ingress_vips subnet_uuids dns_records_type",
        ignored="cluster_os_image preloaded_os_image_name default_machine_platform load_balancer failure_domains "
        "prism_api_call_timeout",
    ),
    cloud.PrismCentral: row("endpoint username password"),
    cloud.PrismElement: row("uuid endpoint name"),
    cloud.PrismEndpoint: row("address port"),
    agent.AgentConfig: row(
        "api_version rendezvous_ip additional_ntp_sources boot_artifacts_base_url minimal_iso hosts",
        harmless="kind metadata",
    ),
    agent.Host: row("hostname role interfaces network_config root_device_hints", conditional="bmc"),
    agent.Interface: row("name mac_address"),
}

#: The values that ignored fields have without being written: nothing is lost where they are.
DEFAULTS = {
    (install.InstallConfig, "publish"): "External",
    (install.MachinePool, "hyperthreading"): "Enabled",
    (platform.BareMetalPlatform, "dns_records_type"): "Internal",
    (platform.BareMetalPlatform, "provisioning_bridge"): "provisioning",
    (platform.BareMetalPlatform, "external_bridge"): "baremetal",
    (platform.BareMetalHost, "hardware_profile"): "default",
    (cloud.VSpherePlatform, "dns_records_type"): "Internal",
}


def note(path: str, value: object, default: object = None, *, shown: bool = True) -> Iterator[str]:
    """`<path>: <value> is ignored`, where there is a value other than the default; `shown`: whether it may be seen."""
    empty = value in (None, "", (), [], {}, False, default) or (is_dataclass(value) and not any(vars(value).values()))
    # Only words are shown: fields of plain data may hold anything, secrets too.
    written = str(value).lower() if isinstance(value, bool) else str(value)
    text = shortened(without_login(" ".join(written.split())), 60)
    word = f": {text}" if shown and isinstance(value, str | int) else ""
    if not empty:
        yield f"{path}{word} is ignored"


def unused(config: object, use: Use, path: str = "", table: Table = FIELDS) -> Iterator[str]:
    """List the set fields of this use, each as `<path>: <value> is ignored`."""
    if isinstance(config, tuple):
        for index, entry in enumerate(config):
            yield from unused(entry, use, f"{path}[{index}]", table)
    elif is_dataclass(config):
        for field in fields(config):
            name, value = str(field.metadata.get("key", camel(field.name))), getattr(config, field.name)
            own = f"{path}.{name}" if path else name
            its_use = table[type(config)][field.name]
            if its_use is use:
                default = DEFAULTS.get((type(config), field.name))
                yield from note(own, value, default, shown=field.repr)
            elif its_use in (Use.CARRIED, Use.CONDITIONAL):
                yield from unused(value, use, own, table)
