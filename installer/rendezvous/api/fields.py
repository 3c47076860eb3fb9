"""What the API shows of clusters, hosts and infra-envs, field by field: what is not named here stays inside.

Secrets are shown as ``pull_secret_set`` only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec

from installer.assisted.endpoint import BASE
from installer.assisted.enums import NEVER
from installer.rendezvous.store.model import (
    Cluster,
    ClusterProgress,
    Host,
    HostProgress,
    InfraEnv,
    JsonMap,
    KernelArgument,
    StaticNetwork,
)

# What a cluster has even when it is empty: what the specification requires, has a default for, or lets be null.
# Upstream's models have pointers there.
ALWAYS = (
    *("status_info", "user_managed_networking", "vip_dhcp_allocation", "schedulable_masters"),
    *("schedulable_masters_forced_true", "imported"),
)


def present(data: JsonMap, always: Collection[str] = ()) -> JsonMap:
    """An object as Go leaves it: no nulls, and no texts, numbers and booleans that are empty (``omitempty``)."""
    times = {key: value or NEVER for key, value in data.items() if key.endswith("_at")}
    return {key: value for key, value in (data | times).items() if key in always or value not in (None, "", 0)}


def _progress(progress: HostProgress | ClusterProgress) -> JsonMap:
    return present(msgspec.to_builtins(progress))


def _json_text(items: Sequence[StaticNetwork | KernelArgument]) -> str:
    """A list as the API has it here: JSON in a text, empty for an empty one."""
    return json.dumps(msgspec.to_builtins(items)) if items else ""


def host(item: Host) -> JsonMap:
    """A host."""
    data = present(
        {
            "id": item.id,
            "infra_env_id": item.infra_env_id,
            "cluster_id": item.cluster_id,
            "status": item.status,
            "status_info": item.status_info,
            "status_updated_at": item.status_updated_at,
            "validations_info": item.validations_info.text,
            "inventory": item.inventory.text,
            "connectivity": item.connectivity.text,
            "api_vip_connectivity": item.api_vip_connectivity.text,
            "tang_connectivity": item.tang_connectivity.text,
            "free_addresses": item.free_addresses.text,
            "ntp_sources": item.ntp_sources.text,
            "disks_info": item.disks_info.text,
            "images_status": item.images_status.text,
            "domain_name_resolutions": item.domain_name_resolutions.text,
            "role": item.role,
            "suggested_role": item.suggested_role,
            "bootstrap": item.bootstrap,
            # The id of a host that has no name yet, and may never have: a list of hosts must tell them apart.
            "requested_hostname": item.requested_hostname or item.id,
            "installation_disk_id": item.installation_disk_id,
            "installation_disk_path": item.installation_disk_path,
            "discovery_agent_version": item.discovery_agent_version,
            "installer_version": item.installer_version,
            "media_status": item.media_status,
            "ignition_config_overrides": item.ignition_config_overrides,
            "installer_args": item.installer_args.text,
            "machine_config_pool_name": item.machine_config_pool_name,
            "node_labels": item.node_labels.text,
            "disks_to_be_formatted": ",".join(item.disks_to_be_formatted),
            "skip_formatting_disks": ",".join(disk.id for disk in item.skipped_disks),
            "timestamp": item.timestamp,
            "progress": _progress(item.progress),
            "logs_info": item.logs_info,
            "logs_collected_at": item.logs_collected_at,
            "logs_started_at": item.logs_started_at,
            "checked_in_at": item.checked_in_at,
            "registered_at": item.registered_at,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        },
        ("status_info",),
    )
    data["kind"] = "Host"
    data["href"] = f"{BASE}/infra-envs/{item.infra_env_id}/hosts/{item.id}"
    return data | {key: data["progress"][key] for key in ("stage_started_at", "stage_updated_at")}


def cluster(item: Cluster) -> JsonMap:
    """A cluster without its hosts."""
    data = present(
        {
            "id": item.id,
            "name": item.name,
            "openshift_version": item.openshift_version,
            "ocp_release_image": item.ocp_release_image,
            "base_dns_domain": item.base_dns_domain,
            "control_plane_count": item.control_plane_count,
            "high_availability_mode": item.high_availability_mode,
            "platform": item.platform,
            "user_managed_networking": item.user_managed_networking,
            "vip_dhcp_allocation": item.vip_dhcp_allocation,
            "network_type": item.network_type,
            "cluster_networks": item.cluster_networks,
            "service_networks": item.service_networks,
            "machine_networks": item.machine_networks,
            "api_vips": item.api_vips,
            "ingress_vips": item.ingress_vips,
            "ssh_public_key": item.ssh_public_key,
            "http_proxy": item.http_proxy,
            "https_proxy": item.https_proxy,
            "no_proxy": item.no_proxy,
            "additional_ntp_source": item.additional_ntp_source,
            "ntp_sources": item.ntp_sources,
            "cpu_architecture": item.cpu_architecture,
            "hyperthreading": item.hyperthreading,
            "schedulable_masters": item.schedulable_masters,
            "disk_encryption": present({**item.disk_encryption}),
            "load_balancer": item.load_balancer,
            "tags": item.tags,
            "install_config_overrides": item.install_config_overrides,
            "status": item.status,
            "status_info": item.status_info,
            "status_updated_at": item.status_updated_at,
            "validations_info": item.validations_info.text,
            "progress": _progress(item.progress),
            "openshift_cluster_id": item.openshift_cluster_id,
            "monitored_operators": [present(operator) for operator in item.monitored_operators],
            "connectivity_majority_groups": item.connectivity_majority_groups.text,
            "ignored_host_validations": item.ignored_host_validations.text,
            "ignored_cluster_validations": item.ignored_cluster_validations.text,
            "imported": item.imported,
            "logs_info": item.logs_info,
            "controller_logs_collected_at": item.controller_logs_collected_at,
            "controller_logs_started_at": item.controller_logs_started_at,
            "install_started_at": item.install_started_at,
            "install_completed_at": item.install_completed_at,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
            "pull_secret_set": bool(item.pull_secret),
        },
        ALWAYS,
    )
    data["kind"] = "Cluster"
    data["href"] = f"{BASE}/clusters/{item.id}"
    data["image_info"] = {}
    data["last-installation-preparation"] = present(msgspec.to_builtins(item.last_preparation))
    for plural, key in (("cluster_networks", "cluster_network_cidr"), ("service_networks", "service_network_cidr")):
        if data[plural]:
            data[key] = data[plural][0]["cidr"]
    if data["machine_networks"]:
        data["machine_network_cidr"] = data["machine_networks"][0]["cidr"]
    if data["cluster_networks"] and data["cluster_networks"][0].get("host_prefix"):
        data["cluster_network_host_prefix"] = data["cluster_networks"][0]["host_prefix"]
    return data


def infra_env(item: InfraEnv) -> JsonMap:
    """An infra-env."""
    data = present(
        {
            "id": item.id,
            "name": item.name,
            "cluster_id": item.cluster_id,
            "openshift_version": item.openshift_version,
            "type": item.type,
            "cpu_architecture": item.cpu_architecture,
            "ssh_authorized_key": item.ssh_authorized_key,
            "static_network_config": _json_text(item.static_network_config),
            "additional_ntp_sources": item.additional_ntp_sources,
            "ntp_sources": item.ntp_sources,
            "additional_trust_bundle": item.additional_trust_bundle,
            "proxy": item.proxy,
            "kernel_arguments": _json_text(item.kernel_arguments),
            "ignition_config_override": item.ignition_config_override,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
            "expires_at": NEVER,
            "pull_secret_set": bool(item.pull_secret),
        }
    )
    data["kind"] = "InfraEnv"
    data["href"] = f"{BASE}/infra-envs/{item.id}"
    return data
