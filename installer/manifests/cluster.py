"""cluster-manifests/: install-config and agent-config as the objects that are registered with the rendezvous service.

Kinds, names and fields: reference/installer.md §2.1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from installer.common.formats import jsontext
from installer.common.formats.yamltext import go_dump
from installer.config.types.agent import Host
from installer.config.types.install import InstallConfig
from installer.config.values import check
from installer.manifests.files import IMAGE_SET
from installer.manifests.overrides import ANNOTATION, NATIVE_NETWORK_TYPES, overrides

HIVE = "hive.openshift.io/v1"
ACI_API = "extensions.hive.openshift.io/v1beta1"
AGENT_API = "agent-install.openshift.io/v1beta1"
LABEL = "infraenvs.agent-install.openshift.io"

PLATFORM_TYPES = {
    "none": "None",
    "baremetal": "BareMetal",
    "vsphere": "VSphere",
    "nutanix": "Nutanix",
    "external": "External",
}
# The status that a Go program writes for an InfraEnv without one.
INFRA_ENV_STATUS = {
    "agentLabelSelector": {},
    "bootArtifacts": dict.fromkeys(("discoveryIgnitionURL", "initrd", "ipxeScript", "kernel", "rootfs"), ""),
    "debugInfo": {"eventsURL": ""},
}
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "": "x86_64"}


@dataclass(frozen=True)
class Inputs:
    """Inputs of the manifests; `hosts` are agent-config's, or install-config's where it has none."""

    install_config: InstallConfig
    ntp_sources: tuple[str, ...]
    hosts: Sequence[Host]
    release_image: str
    _: KW_ONLY
    release_version: str

    @property
    def name(self) -> str:
        """The cluster's name, which most objects carry."""
        return self.install_config.metadata.name


def _metadata(inputs: Inputs, name: str, **extra: Any) -> dict[str, Any]:
    namespace = inputs.install_config.metadata.namespace
    return {"name": name, **({"namespace": namespace} if namespace else {}), **extra}


def image_set_name(version: str) -> str:
    """Name of the ClusterImageSet of a version."""
    return f"openshift-{version}"


def _proxy(config: InstallConfig) -> dict[str, str]:
    if config.proxy is None:
        return {}
    pairs = {
        "httpProxy": config.proxy.http_proxy,
        "httpsProxy": config.proxy.https_proxy,
        "noProxy": config.proxy.no_proxy,
    }
    return {key: value for key, value in pairs.items() if value}


def agent_cluster_install(inputs: Inputs) -> dict[str, Any]:
    """AgentClusterInstall: topology, networks, VIPs, platform."""
    config = inputs.install_config
    networking = config.networking
    if networking is None:
        raise ValueError("install-config was not validated: it has no networking")
    network_type = networking.network_type or "OVNKubernetes"
    spec: dict[str, Any] = {
        "clusterDeploymentRef": {"name": inputs.name},
        "imageSetRef": {"name": image_set_name(inputs.release_version)},
        "networking": {
            "clusterNetwork": [
                {"cidr": check.networks([entry.cidr]), "hostPrefix": entry.host_prefix}
                for entry in networking.cluster_network
            ],
            "machineNetwork": [{"cidr": check.networks([entry.cidr])} for entry in networking.machine_network],
            "serviceNetwork": [check.networks([cidr]) for cidr in networking.service_network],
            "networkType": network_type if network_type in NATIVE_NETWORK_TYPES else "OVNKubernetes",
            "userManagedNetworking": config.platform.name in ("none", "external"),
        },
        "platformType": PLATFORM_TYPES[config.platform.name],
        "provisionRequirements": {"controlPlaneAgents": config.masters},
    }
    if config.arbiters:
        spec["provisionRequirements"]["arbiterAgents"] = config.arbiters
    if config.workers:
        spec["provisionRequirements"]["workerAgents"] = config.workers
    if config.ssh_key:
        spec["sshPublicKey"] = config.ssh_key.strip("|\n\t")
    if _proxy(config):
        spec["proxy"] = _proxy(config)
    with_vips = config.platform.with_vips
    if with_vips is not None:
        spec |= {"apiVIPs": list(with_vips.api_vips), "ingressVIPs": list(with_vips.ingress_vips)}
    baremetal = config.platform.baremetal
    if baremetal is not None:
        spec |= {"apiVIP": baremetal.api_vips[0], "ingressVIP": baremetal.ingress_vips[0]}
        # Upstream's manifests leave it out, and its service then manages a load balancer although the user has one.
        if baremetal.load_balancer and baremetal.load_balancer.type == "UserManaged":
            spec["loadBalancer"] = {"type": baremetal.load_balancer.type}
    external = config.platform.external
    if external is not None:
        # The cloud controller manager is among the overrides; only for oci the service knows it too.
        oci = {"cloudControllerManager": "External"} if external.platform_name == "oci" else {}
        spec["external"] = {"platformName": external.platform_name, **oci}
    metadata = _metadata(inputs, inputs.name)
    changed = overrides(config, inputs.hosts)
    if changed:
        metadata["annotations"] = {ANNOTATION: jsontext.go_dump(changed)}
    status = {"debugInfo": {"eventsURL": "", "logsURL": ""}, "progress": {"totalPercentage": 0}}
    return {"apiVersion": ACI_API, "kind": "AgentClusterInstall", "metadata": metadata, "spec": spec, "status": status}


def cluster_deployment(inputs: Inputs) -> dict[str, Any]:
    """ClusterDeployment: name, domain, and which other objects belong to it."""
    group, _, version = ACI_API.partition("/")
    return {
        "apiVersion": HIVE,
        "kind": "ClusterDeployment",
        "metadata": _metadata(inputs, inputs.name),
        "spec": {
            "baseDomain": inputs.install_config.base_domain,
            "clusterName": inputs.name,
            "clusterInstallRef": {
                "group": group,
                "version": version,
                "kind": "AgentClusterInstall",
                "name": inputs.name,
            },
            "controlPlaneConfig": {"servingCertificates": {}},
            "installed": False,
            "platform": {},
            "pullSecretRef": {"name": f"{inputs.name}-pull-secret"},
        },
        "status": {},
    }


def cluster_image_set(image: str, version: str, namespace: str = "") -> dict[str, Any]:
    """ClusterImageSet: the release image."""
    return {
        "apiVersion": HIVE,
        "kind": "ClusterImageSet",
        "metadata": {"name": image_set_name(version), **({"namespace": namespace} if namespace else {})},
        "spec": {"releaseImage": image},
        "status": {},
    }


def image_set_file(image: str, version: str) -> dict[str, bytes]:
    """cluster-image-set.yaml by its name, for manifests that came without."""
    return {Path(IMAGE_SET).name: _yaml(cluster_image_set(image, version))}


def infra_env(inputs: Inputs) -> dict[str, Any]:
    """InfraEnv: what the live hosts need."""
    config = inputs.install_config
    architecture = config.control_plane.architecture if config.control_plane else ""
    spec: dict[str, Any] = {
        "clusterRef": _metadata(inputs, inputs.name),
        "cpuArchitecture": ARCHITECTURES.get(architecture, architecture),
        "ipxeScriptType": "",
        "nmStateConfigLabelSelector": {"matchLabels": {LABEL: inputs.name}},
        "pullSecretRef": {"name": f"{inputs.name}-pull-secret"},
    }
    if config.ssh_key:
        spec["sshAuthorizedKey"] = config.ssh_key.strip("|\n\t")
    if inputs.ntp_sources:
        spec["additionalNTPSources"] = list(inputs.ntp_sources)
    if config.additional_trust_bundle:
        spec["additionalTrustBundle"] = config.additional_trust_bundle
    if _proxy(config):
        spec["proxy"] = _proxy(config)
    metadata = _metadata(inputs, inputs.name)
    return {"apiVersion": AGENT_API, "kind": "InfraEnv", "metadata": metadata, "spec": spec, "status": INFRA_ENV_STATUS}


def nmstate_configs(inputs: Inputs) -> list[dict[str, Any]]:
    """One NMStateConfig for each host that has a networkConfig."""
    return [
        {
            "apiVersion": AGENT_API,
            "kind": "NMStateConfig",
            "metadata": _metadata(inputs, f"{inputs.name}-{index}", labels={LABEL: inputs.name}),
            "spec": {
                "config": host.network_config,
                "interfaces": [{"name": nic.name, "macAddress": nic.mac_address} for nic in host.interfaces],
            },
        }
        for index, host in enumerate(inputs.hosts)
        if host.network_config is not None
    ]


def pull_secret(inputs: Inputs) -> dict[str, Any]:
    """Secret with the pull secret, re-indented."""
    text = jsontext.go_dump(json.loads(inputs.install_config.pull_secret), indent=2, sort=True)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(inputs, f"{inputs.name}-pull-secret"),
        "stringData": {".dockerconfigjson": text},
    }


def _yaml(*documents: dict[str, Any]) -> bytes:
    return "---\n".join(go_dump(document) for document in documents).encode()


def cluster_manifests(inputs: Inputs) -> dict[str, bytes]:
    """File name -> YAML of cluster-manifests/; nmstateconfig.yaml only when a host has a networkConfig."""
    namespace = inputs.install_config.metadata.namespace
    files = {
        "agent-cluster-install.yaml": _yaml(agent_cluster_install(inputs)),
        "cluster-deployment.yaml": _yaml(cluster_deployment(inputs)),
        "cluster-image-set.yaml": _yaml(cluster_image_set(inputs.release_image, inputs.release_version, namespace)),
        "infraenv.yaml": _yaml(infra_env(inputs)),
        "pull-secret.yaml": _yaml(pull_secret(inputs)),
    }
    networks = nmstate_configs(inputs)
    if networks:
        # Upstream ends each of them so, the last one too.
        files["nmstateconfig.yaml"] = b"".join(_yaml(network) + b"---\n" for network in networks)
    return files
