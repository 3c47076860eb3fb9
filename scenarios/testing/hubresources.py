"""The custom resources of a lab's cluster, as a person writes them for a hub."""

from __future__ import annotations

from typing import Any

from lab.deploy import Deployment
from lab.inputs.configs import BmcAccess, root_device_hints
from lab.inputs.hostnetwork import interfaces, needs_document, nmstate
from lab.topology import NodeSpec

IMAGE_SET = "lab-release"
PULL_SECRET, BMC_SECRET = "pull-secret", "bmc"
_BMAC = "bmac.agent-install.openshift.io"

Json = dict[str, Any]


def resources(deployment: Deployment) -> list[Json]:
    """Return all that a user applies for the cluster of a topology, in the order of the field's documents."""
    topology, access = deployment.topology, deployment.lab.access
    name = namespace = topology.cluster_name
    bmcs = {bmc.host: bmc for bmc in access.bmcs}
    docker = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": access.pull_secret}}
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET, "namespace": namespace}, **docker},
        {
            "apiVersion": "hive.openshift.io/v1",
            "kind": "ClusterImageSet",
            "metadata": {"name": IMAGE_SET},
            "spec": {"releaseImage": deployment.release.pullspec},
        },
        _resource("hive.openshift.io/v1", "ClusterDeployment", name, namespace)
        | {
            "spec": {
                "clusterName": name,
                "baseDomain": topology.base_domain,
                "clusterInstallRef": {
                    "group": "extensions.hive.openshift.io",
                    "version": "v1beta1",
                    "kind": "AgentClusterInstall",
                    "name": name,
                },
                "platform": {"agentBareMetal": {"agentSelector": {"matchLabels": {"cluster": name}}}},
                "pullSecretRef": {"name": PULL_SECRET},
            }
        },
        _cluster_install(deployment),
        _resource("agent-install.openshift.io/v1beta1", "InfraEnv", name, namespace)
        | {
            "spec": {
                "clusterRef": {"name": name, "namespace": namespace},
                "pullSecretRef": {"name": PULL_SECRET},
                "sshAuthorizedKey": access.ssh_key,
                "additionalNTPSources": [topology.gateway],
                "nmStateConfigLabelSelector": {"matchLabels": {"cluster": name}},
            }
        },
    ]
    for node in topology.nodes:
        if needs_document(topology, node):
            documents.append(
                _resource("agent-install.openshift.io/v1beta1", "NMStateConfig", node.name, namespace, cluster=name)
                | {"spec": {"config": nmstate(topology, node), "interfaces": interfaces(node)}}
            )
        documents += _machine(node, bmcs[node.name], namespace, name)
    return documents


def _resource(version: str, kind: str, name: str, namespace: str, **labels: str) -> Json:
    metadata: Json = {"name": name, "namespace": namespace} | ({"labels": labels} if labels else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _cluster_install(deployment: Deployment) -> Json:
    topology, access = deployment.topology, deployment.lab.access
    name = topology.cluster_name
    networking: Json = {
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        "serviceNetwork": ["172.30.0.0/16"],
    }
    if topology.platform == "none":
        networking["machineNetwork"] = [{"cidr": str(subnet)} for subnet in topology.machine_subnets]
    spec: Json = {
        "clusterDeploymentRef": {"name": name},
        "imageSetRef": {"name": IMAGE_SET},
        "networking": networking,
        "provisionRequirements": {
            "controlPlaneAgents": len(topology.masters),
            "workerAgents": len(topology.workers),
        },
        "sshPublicKey": access.ssh_key,
    }
    if topology.platform == "baremetal":
        spec |= {"apiVIPs": list(topology.vips("api")), "ingressVIPs": list(topology.vips("ingress"))}
    return _resource("extensions.hive.openshift.io/v1beta1", "AgentClusterInstall", name, name) | {"spec": spec}


def _machine(node: NodeSpec, bmc: BmcAccess, namespace: str, infra_env: str) -> list[Json]:
    """Return a machine's BareMetalHost and the login of its BMC."""
    login = {"username": bmc.username, "password": bmc.password}
    host = _resource(
        "metal3.io/v1alpha1",
        "BareMetalHost",
        node.name,
        namespace,
        **{"infraenvs.agent-install.openshift.io": infra_env},
    )
    host["metadata"]["annotations"] = {f"{_BMAC}/hostname": node.name, f"{_BMAC}/role": node.role}
    host["spec"] = {
        "online": True,
        "automatedCleaningMode": "disabled",
        "bootMACAddress": node.mac,
        "bmc": {
            "address": bmc.address.replace("redfish+", "redfish-virtualmedia+", 1),
            "credentialsName": f"{BMC_SECRET}-{node.name}",
            # Its certificate is of the lab's CA, which nobody else knows.
            "disableCertificateVerification": True,
        },
        "rootDeviceHints": root_device_hints(node),
    }
    return [_resource("v1", "Secret", f"{BMC_SECRET}-{node.name}", namespace) | {"stringData": login}, host]


def bound_late(documents: list[Json]) -> list[Json]:
    """Return the resources with an InfraEnv of no cluster, whose machines are bound by their BareMetalHosts."""
    for document in documents:
        if document["kind"] == "InfraEnv":
            cluster = document["spec"].pop("clusterRef")
    for document in documents:
        if document["kind"] == "BareMetalHost":
            document["metadata"]["annotations"][f"{_BMAC}/cluster-reference"] = (
                f"{cluster['namespace']}/{cluster['name']}"
            )
    return documents


def booted_by_hand(documents: list[Json]) -> list[Json]:
    """Return the resources without the machines."""
    return [document for document in documents if document["kind"] != "BareMetalHost"]
