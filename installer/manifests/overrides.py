"""The AgentClusterInstall's install-config overrides: what the service cannot know from the manifests (§2.1).

They are merged into the install-config that the service writes for the cluster's own installer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from installer.config.decode import camel
from installer.config.types.agent import Host
from installer.config.types.cloud import NutanixPlatform, VSpherePlatform
from installer.config.types.install import InstallConfig
from installer.config.types.platform import BareMetalPlatform, Bmc
from installer.config.types.uses import FIELDS, Use

ANNOTATION = "agent-install.openshift.io/install-config-overrides"
NATIVE_NETWORK_TYPES = ("OVNKubernetes", "OpenShiftSDN")
_PROVISIONING = {
    "cluster_provisioning_ip": "clusterProvisioningIP",
    "provisioning_network": "provisioningNetwork",
    "provisioning_network_interface": "provisioningNetworkInterface",
    "provisioning_network_cidr": "provisioningNetworkCIDR",
    "provisioning_dhcp_range": "provisioningDHCPRange",
}


def plain(value: Any, leave_out: Sequence[str] = ()) -> Any:
    """Types of the configs as plain data under the names that YAML has for them, empty fields left out."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    fields_by_key = {}
    for field in fields(value):
        content = plain(getattr(value, field.name))
        empty = content in (None, "", (), [], {}) or (content == 0 and content is not False)
        if field.name not in leave_out and not empty:
            fields_by_key[str(field.metadata.get("key", camel(field.name)))] = content
    return fields_by_key


def overrides(config: InstallConfig, hosts: Sequence[Host] = ()) -> dict[str, Any]:
    """Return the overrides of an install-config with these hosts, empty where there is nothing to override."""
    networking, policy = config.networking, config.additional_trust_bundle_policy
    foreign = networking is not None and networking.network_type not in ("", *NATIVE_NETWORK_TYPES)
    # In the order of upstream's struct, as all fields of types are here: the text of them is compared.
    changed: dict[str, Any] = {
        "fips": config.fips,
        "platform": _platform(config, hosts),
        "capabilities": plain(config.capabilities) if config.capabilities else None,
        "networking": plain(networking) if foreign else None,
        "cpuPartitioningMode": config.cpu_partitioning_mode,
        "additionalTrustBundlePolicy": policy if policy != "Proxyonly" else "",
        "featureSet": config.feature_set,
        "featureGates": list(config.feature_gates),
    }
    return {name: value for name, value in changed.items() if value}


def _platform(config: InstallConfig, hosts: Sequence[Host]) -> dict[str, Any]:
    platform = config.platform
    if platform.baremetal is not None:
        return _named("baremetal", _baremetal(platform.baremetal, hosts))
    if platform.vsphere is not None:
        return _named("vsphere", _vsphere(platform.vsphere))
    if platform.nutanix is not None:
        return {"nutanix": _nutanix(platform.nutanix)}
    if platform.external is not None:
        return {"external": plain(platform.external)}
    return {}


def _named(name: str, content: dict[str, Any]) -> dict[str, Any]:
    return {name: content} if content else {}


def _baremetal(platform: BareMetalPlatform, hosts: Sequence[Host]) -> dict[str, Any]:
    """Return the BMCs, and the provisioning network that only they are for."""
    with_bmc = [host for host in hosts if host.bmc and host.bmc.has_any]
    if not with_bmc:
        return {}
    entries = []
    for host in with_bmc:
        mac = host.interfaces[0].mac_address if host.interfaces else ""
        bmc = host.bmc or Bmc()
        named = {"name": host.hostname} if host.hostname else {}
        keys = {
            "username": bmc.username,
            "password": bmc.password,
            "address": bmc.address,
            "disableCertificateVerification": bool(bmc.disable_certificate_verification),
        }
        entries.append({**named, "bmc": keys, "role": host.role, "bootMACAddress": mac, "hardwareProfile": ""})
    provisioning = {key: getattr(platform, name) for name, key in _PROVISIONING.items()}
    return {"hosts": entries, **{key: value for key, value in provisioning.items() if value}}


def _vsphere(platform: VSpherePlatform) -> dict[str, Any]:
    """Two VIPs of a kind, and the vCenters with their failure domains if there are credentials."""
    changed: dict[str, Any] = {}
    if len(platform.api_vips) > 1:
        changed |= {"apiVIPs": list(platform.api_vips), "ingressVIPs": list(platform.ingress_vips)}
    vcenters = [plain(vcenter) for vcenter in platform.vcenters if vcenter.has_any]
    if vcenters:
        changed["vcenters"] = vcenters
        if platform.failure_domains:
            changed["failureDomains"] = plain(platform.failure_domains)
    return changed


def _nutanix(platform: NutanixPlatform) -> dict[str, Any]:
    content: dict[str, Any] = plain(
        platform, [name for name, use in FIELDS[NutanixPlatform].items() if use is Use.IGNORED]
    )
    return content
