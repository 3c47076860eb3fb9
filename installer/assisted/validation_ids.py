"""Ids of the validations of hosts and clusters, as the API has them (host-validation-id, cluster-validation-id)."""

from __future__ import annotations

from enum import StrEnum

#: Operators that upstream's service knows: hosts and clusters have a validation NAME-requirements-satisfied of each.
OPERATORS = (
    *("lso", "ocs", "odf", "lvm", "mce", "mtv", "osc", "cnv", "node-feature-discovery", "nvidia-gpu", "pipelines"),
    *("servicemesh", "serverless", "openshift-ai", "authorino", "nmstate", "amd-gpu", "kmm", "node-healthcheck"),
    *("self-node-remediation", "fence-agents-remediation", "node-maintenance", "kube-descheduler"),
    *("cluster-observability", "numa-resources", "oadp", "metallb", "loki", "openshift-logging"),
)


def of_operator(name: str) -> str:
    """Return the id of an operator's validation."""
    return f"{name}-requirements-satisfied"


class HostValidation(StrEnum):
    """Ids of a host's validations."""

    CONNECTED = "connected"
    MEDIA_CONNECTED = "media-connected"
    HAS_INVENTORY = "has-inventory"
    INVENTORY_NOT_PARTIALLY_TRUNCATED = "inventory-not-partially-truncated"
    INVENTORY_NOT_FULLY_TRUNCATED = "inventory-not-fully-truncated"
    HAS_MIN_CPU_CORES = "has-min-cpu-cores"
    HAS_MIN_VALID_DISKS = "has-min-valid-disks"
    HAS_MIN_MEMORY = "has-min-memory"
    MACHINE_CIDR_DEFINED = "machine-cidr-defined"
    HAS_CPU_CORES_FOR_ROLE = "has-cpu-cores-for-role"
    HAS_MEMORY_FOR_ROLE = "has-memory-for-role"
    HOSTNAME_UNIQUE = "hostname-unique"
    HOSTNAME_VALID = "hostname-valid"
    BELONGS_TO_MACHINE_CIDR = "belongs-to-machine-cidr"
    IGNITION_DOWNLOADABLE = "ignition-downloadable"
    BELONGS_TO_MAJORITY_GROUP = "belongs-to-majority-group"
    VALID_PLATFORM_NETWORK_SETTINGS = "valid-platform-network-settings"
    NTP_SYNCED = "ntp-synced"
    TIME_SYNCED_BETWEEN_HOST_AND_SERVICE = "time-synced-between-host-and-service"
    CONTAINER_IMAGES_AVAILABLE = "container-images-available"
    SUFFICIENT_INSTALLATION_DISK_SPEED = "sufficient-installation-disk-speed"
    SUFFICIENT_NETWORK_LATENCY_REQUIREMENT_FOR_ROLE = "sufficient-network-latency-requirement-for-role"
    SUFFICIENT_PACKET_LOSS_REQUIREMENT_FOR_ROLE = "sufficient-packet-loss-requirement-for-role"
    HAS_DEFAULT_ROUTE = "has-default-route"
    API_DOMAIN_NAME_RESOLVED_CORRECTLY = "api-domain-name-resolved-correctly"
    API_INT_DOMAIN_NAME_RESOLVED_CORRECTLY = "api-int-domain-name-resolved-correctly"
    APPS_DOMAIN_NAME_RESOLVED_CORRECTLY = "apps-domain-name-resolved-correctly"
    RELEASE_DOMAIN_NAME_RESOLVED_CORRECTLY = "release-domain-name-resolved-correctly"
    COMPATIBLE_WITH_CLUSTER_PLATFORM = "compatible-with-cluster-platform"
    DNS_WILDCARD_NOT_CONFIGURED = "dns-wildcard-not-configured"
    DISK_ENCRYPTION_REQUIREMENTS_SATISFIED = "disk-encryption-requirements-satisfied"
    NON_OVERLAPPING_SUBNETS = "non-overlapping-subnets"
    VSPHERE_DISK_UUID_ENABLED = "vsphere-disk-uuid-enabled"
    COMPATIBLE_AGENT = "compatible-agent"
    NO_SKIP_INSTALLATION_DISK = "no-skip-installation-disk"
    NO_SKIP_MISSING_DISK = "no-skip-missing-disk"
    NO_IP_COLLISIONS_IN_NETWORK = "no-ip-collisions-in-network"
    NO_ISCSI_NIC_BELONGS_TO_MACHINE_CIDR = "no-iscsi-nic-belongs-to-machine-cidr"
    MTU_VALID = "mtu-valid"


class ClusterValidation(StrEnum):
    """Ids of a cluster's validations."""

    MACHINE_CIDR_DEFINED = "machine-cidr-defined"
    CLUSTER_CIDR_DEFINED = "cluster-cidr-defined"
    SERVICE_CIDR_DEFINED = "service-cidr-defined"
    NO_CIDRS_OVERLAPPING = "no-cidrs-overlapping"
    NETWORKS_SAME_ADDRESS_FAMILIES = "networks-same-address-families"
    NETWORK_PREFIX_VALID = "network-prefix-valid"
    MACHINE_CIDR_EQUALS_TO_CALCULATED_CIDR = "machine-cidr-equals-to-calculated-cidr"
    API_VIPS_DEFINED = "api-vips-defined"
    API_VIPS_VALID = "api-vips-valid"
    INGRESS_VIPS_DEFINED = "ingress-vips-defined"
    INGRESS_VIPS_VALID = "ingress-vips-valid"
    ALL_HOSTS_ARE_READY_TO_INSTALL = "all-hosts-are-ready-to-install"
    SUFFICIENT_MASTERS_COUNT = "sufficient-masters-count"
    DNS_DOMAIN_DEFINED = "dns-domain-defined"
    PULL_SECRET_SET = "pull-secret-set"
    NTP_SERVER_CONFIGURED = "ntp-server-configured"
    NETWORK_TYPE_VALID = "network-type-valid"
    CUSTOM_MANIFESTS_REQUIREMENTS_SATISFIED = "custom-manifests-requirements-satisfied"
    PLATFORM_REQUIREMENTS_SATISFIED = "platform-requirements-satisfied"
