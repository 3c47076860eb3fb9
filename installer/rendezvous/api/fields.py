"""The fields that the API shows of clusters, hosts and infra-envs: those that are not named here stay inside.

Secrets are shown as ``pull_secret_set`` only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

import msgspec

from installer.assisted.endpoint import BASE
from installer.assisted.enums import NEVER, ClusterStatus
from installer.rendezvous.store.documents import Document
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

# Fields that are shown as they are stored; of documents the text.
_HOST = (
    *("id", "infra_env_id", "cluster_id", "status", "status_info", "status_updated_at", "validations_info"),
    *("inventory", "connectivity", "api_vip_connectivity", "tang_connectivity", "free_addresses", "ntp_sources"),
    *("disks_info", "images_status", "domain_name_resolutions", "role", "suggested_role", "bootstrap"),
    *("installation_disk_id", "installation_disk_path", "discovery_agent_version", "installer_version"),
    *("media_status", "ignition_config_overrides", "installer_args", "machine_config_pool_name", "node_labels"),
    *("timestamp", "logs_info", "logs_collected_at", "logs_started_at", "checked_in_at", "registered_at"),
    *("created_at", "updated_at"),
)
_CLUSTER = (
    *("id", "name", "openshift_version", "ocp_release_image", "base_dns_domain", "control_plane_count"),
    *("high_availability_mode", "platform", "user_managed_networking", "vip_dhcp_allocation", "network_type"),
    *("cluster_networks", "service_networks", "machine_networks", "api_vips", "ingress_vips", "ssh_public_key"),
    *("http_proxy", "https_proxy", "no_proxy", "additional_ntp_source", "ntp_sources", "cpu_architecture"),
    *("hyperthreading", "schedulable_masters", "load_balancer", "tags", "install_config_overrides", "status"),
    *("status_info", "status_updated_at", "validations_info", "openshift_cluster_id"),
    *("connectivity_majority_groups", "ignored_host_validations", "ignored_cluster_validations", "imported"),
    *("logs_info", "controller_logs_collected_at", "controller_logs_started_at", "install_started_at"),
    *("install_completed_at", "created_at", "updated_at"),
)
_INFRA_ENV = (
    *("id", "name", "cluster_id", "openshift_version", "type", "cpu_architecture", "ssh_authorized_key"),
    *("additional_ntp_sources", "ntp_sources", "additional_trust_bundle", "proxy", "ignition_config_override"),
    *("created_at", "updated_at"),
)


def present(data: JsonMap, always: Collection[str] = ()) -> JsonMap:
    """Return an object as Go leaves it: no nulls, and no texts, numbers and booleans that are empty (``omitempty``)."""
    times = {key: value or NEVER for key, value in data.items() if key.endswith("_at")}
    return {key: value for key, value in (data | times).items() if key in always or value not in (None, "", 0)}


def _progress(progress: HostProgress | ClusterProgress) -> JsonMap:
    return present(msgspec.to_builtins(progress))


def _json_text(items: Sequence[StaticNetwork | KernelArgument]) -> str:
    """Return a list as the API has it here: JSON in a text, empty for an empty one."""
    return json.dumps(msgspec.to_builtins(items)) if items else ""


def _shown(item: Host | Cluster | InfraEnv, names: Iterable[str]) -> JsonMap:
    values = ((name, getattr(item, name)) for name in names)
    return {name: value.text if isinstance(value, Document) else value for name, value in values}


def host(item: Host) -> JsonMap:
    """Return a host."""
    data = _shown(item, _HOST) | {
        # The id of a host that has no name yet, and may never have: a list of hosts must tell them apart.
        "requested_hostname": item.requested_hostname or item.id,
        "disks_to_be_formatted": ",".join(item.disks_to_be_formatted),
        "skip_formatting_disks": ",".join(disk.id for disk in item.skipped_disks),
        "progress": _progress(item.progress),
        "ignition_endpoint_token_set": bool(item.ignition_endpoint_token),
    }
    data = present(data, ("status_info",))
    data["kind"] = "AddToExistingClusterHost" if item.added else "Host"
    data["href"] = f"{BASE}/infra-envs/{item.infra_env_id}/hosts/{item.id}"
    return data | {key: data["progress"][key] for key in ("stage_started_at", "stage_updated_at")}


def cluster(item: Cluster) -> JsonMap:
    """Return a cluster without its hosts."""
    data = _shown(item, _CLUSTER) | {
        "disk_encryption": present({**item.disk_encryption}),
        "progress": _progress(item.progress),
        "monitored_operators": [present(operator) for operator in item.monitored_operators],
        "pull_secret_set": bool(item.pull_secret),
        "ignition_endpoint": item.ignition_endpoint or None,
    }
    data = present(data, ALWAYS)
    data["kind"] = "AddHostsCluster" if item.status is ClusterStatus.ADDING_HOSTS else "Cluster"
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
    """Return an infra-env."""
    data = present(
        _shown(item, _INFRA_ENV)
        | {
            "static_network_config": _json_text(item.static_network_config),
            "kernel_arguments": _json_text(item.kernel_arguments),
            "expires_at": NEVER,
            "pull_secret_set": bool(item.pull_secret),
        }
    )
    data["kind"] = "InfraEnv"
    data["href"] = f"{BASE}/infra-envs/{item.id}"
    return data
