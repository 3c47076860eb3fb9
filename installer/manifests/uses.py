"""The use of every field of a manifest's spec: those that the live host's client registers, and those nobody reads."""

from __future__ import annotations

from installer.config.types.uses import FIELDS, row
from installer.manifests import types

USES = {
    **FIELDS,
    types.Ref: row("name", harmless="namespace"),
    types.ClusterInstallSpec: row(
        "image_set_ref networking ssh_public_key provision_requirements api_vip api_vips ingress_vip ingress_vips "
        "disk_encryption proxy platform_type external load_balancer",
        ignored="manifests_config_map_ref manifests_config_map_refs control_plane compute arbiter hold_installation "
        "ignition_endpoint masters_schedulable",
        harmless="cluster_deployment_ref cluster_metadata",
    ),
    types.Networking: row("cluster_network machine_network service_network network_type user_managed_networking"),
    types.PodNetwork: row("cidr host_prefix"),
    types.MachineNetwork: row("cidr"),
    types.ProvisionRequirements: row("control_plane_agents arbiter_agents worker_agents"),
    types.DiskEncryption: row("enable_on mode tang_servers"),
    types.External: row("platform_name cloud_controller_manager"),
    types.ClusterDeploymentSpec: row(
        "cluster_name base_domain",
        ignored="certificate_bundles ingress manage_dns bound_service_account_signing_key_secret_ref",
        # Hive's own, or of a cluster that is there already.
        harmless="platform pull_secret_ref preserve_on_delete control_plane_config cluster_metadata installed "
        "provisioning cluster_install_ref cluster_pool_ref power_state hibernate_after install_attempts_limit",
    ),
    types.ImageSetSpec: row("release_image"),
    types.InfraEnvSpec: row(
        "proxy additional_ntp_sources ssh_authorized_key nm_state_config_label_selector cpu_architecture "
        "additional_trust_bundle",
        ignored="agent_labels ignition_config_override kernel_arguments os_image_version mirror_registry_ref",
        harmless="pull_secret_ref cluster_ref ipxe_script_type image_type",
    ),
    types.LabelSelector: row("match_labels", ignored="match_expressions"),
    types.NMStateSpec: row("interfaces config"),
    types.Interface: row("name mac_address"),
}
