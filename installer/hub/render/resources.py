"""The resources of a cluster, named and filled as the field's generators do it by their default templates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from installer.hub.admission.rules import RULES
from installer.hub.crds.manifests import definitions
from installer.hub.kube.kinds import (
    AGENT_CLUSTER_INSTALL,
    BARE_METAL_HOST,
    CLUSTER_DEPLOYMENT,
    CONFIG_MAP,
    INFRA_ENV,
    NAMESPACE,
    NMSTATE_CONFIG,
    Json,
    Key,
    Kind,
)
from installer.hub.render import schema
from installer.hub.render.inputs import Cluster

_BMAC = "bmac.agent-install.openshift.io"
#: Kinds that the generators make beside these.
LEFT_OUT = {
    "SiteConfig": "ManagedCluster, KlusterletAddonConfig, NetworkPolicy, and the ConfigMap of its own manifests",
    "ClusterInstance": "ManagedCluster, KlusterletAddonConfig",
}


@dataclass(frozen=True)
class Resource:
    """A rendered object, and the field that it was made of."""

    path: str
    obj: Json


class _Maker:
    """Makes the objects of one cluster, with the annotations and labels of its form."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.spec, self.name = cluster, cluster.spec, cluster.spec["clusterName"]
        self.is_site = cluster.form == "SiteConfig"
        self.found: list[Resource] = []

    def add(self, kind: Kind, key: Key, wave: int, metadata: Json, *, node: int = -1, **members: Any) -> None:
        """Add an object, unless its kind is suppressed; it is a node's if `node` is its number."""
        level = self.spec["nodes"][node] if node >= 0 else self.spec
        for source in (self.spec, level):
            pruned = [item["kind"] for item in source.get("pruneManifests", [])]
            if kind.name in [*source.get("suppressedManifests", []), *pruned]:
                return
        obj = kind.new(key, **members)
        group = "argocd.argoproj.io" if self.is_site else "siteconfig.open-cluster-management.io"
        own = {f"{group}/sync-wave": str(wave)}
        if self.is_site:
            own["ran.openshift.io/ztp-gitops-generated"] = "{}"
        own |= metadata.get("annotations", {})
        annotations = self._nearest("extraAnnotations", kind, level) | own
        labels = self._nearest("extraLabels", kind, level) | metadata.get("labels", {})
        obj["metadata"] |= {"annotations": annotations} | ({"labels": labels} if labels else {})
        path = f"{self.cluster.path}.nodes[{node}]" if node >= 0 else self.cluster.path
        self.found.append(Resource(path, obj))

    def _nearest(self, field: str, kind: Kind, level: Json) -> dict[str, str]:
        """Return what is added to a kind: the node's if it has any, else the cluster's."""
        for source in (level, self.spec):
            if kind.name in source.get(field, {}):
                return dict(source[field][kind.name])
        return {}


def _some(source: Json, *names: str) -> Json:
    """Return the members that are there and not empty."""
    return {name: source[name] for name in names if source.get(name) not in (None, "", [], {})}


def _overrides(spec: Json) -> str:
    """Return the install-config's overrides with the network's type and the partitioning of CPUs."""
    found = json.loads(spec.get("installConfigOverrides") or "{}")
    networking = found.get("networking")
    networking = (networking if isinstance(networking, dict) else {}) | {"networkType": spec["networkType"]}
    found = {"networking": networking, **{key: item for key, item in found.items() if key != "networking"}}
    if spec["cpuPartitioningMode"] == "AllNodes":
        found["cpuPartitioningMode"] = "AllNodes"
    return json.dumps(found, separators=(",", ":"))


def resources(cluster: Cluster) -> list[Resource]:
    """Return the objects of a cluster in the order in which they are to be applied."""
    make = _Maker(cluster)
    spec, name, key = make.spec, make.name, Key(make.name, make.name)
    if make.is_site:
        make.add(NAMESPACE, Key("", name), 0, {"labels": {"name": name}})
        if cluster.manifests:
            make.add(CONFIG_MAP, key, 1, {}, data=cluster.manifests)
    make.add(
        CLUSTER_DEPLOYMENT,
        key,
        1,
        {},
        spec={
            "baseDomain": spec["baseDomain"],
            "clusterName": name,
            "clusterInstallRef": {
                "group": AGENT_CLUSTER_INSTALL.group,
                "version": AGENT_CLUSTER_INSTALL.version,
                "kind": AGENT_CLUSTER_INSTALL.name,
                "name": name,
            },
            "platform": {"agentBareMetal": {"agentSelector": {"matchLabels": {"cluster-name": name}}}},
            "pullSecretRef": {"name": spec["pullSecretRef"]["name"]},
        },
    )
    annotations = {"agent-install.openshift.io/install-config-overrides": _overrides(spec)}
    make.add(AGENT_CLUSTER_INSTALL, key, 1, {"annotations": annotations}, spec=_install(cluster))
    if make.is_site:
        make.add(INFRA_ENV, key, 1, {}, spec=_infra_env(spec, name, spec))
    for number, node in enumerate(spec["nodes"]):
        host = node.get("hostRef") or {"name": node["hostName"], "namespace": name}
        own = Key(host["namespace"], host["name"])
        env = name if make.is_site else own.name
        if not make.is_site:
            make.add(INFRA_ENV, own, 1, {}, node=number, spec=_infra_env(spec, env, node))
        network = _some(node.get("nodeNetwork", {}), "config", "interfaces")
        if network:
            make.add(NMSTATE_CONFIG, own, 1, {"labels": {"nmstate-label": env}}, node=number, spec=network)
        make.add(
            BARE_METAL_HOST,
            own,
            3,
            _host_metadata(node, env, is_site=make.is_site),
            node=number,
            spec=_host(spec, node),
        )
    return make.found


def _install(cluster: Cluster) -> Json:
    spec, name = cluster.spec, cluster.spec["clusterName"]
    roles = [node["role"] for node in spec["nodes"]]
    workers = len(roles) - roles.count("master") - roles.count("arbiter")
    required = {
        "controlPlaneAgents": roles.count("master"),
        # Workers join a single node after its installation.
        "workerAgents": 0 if spec.get("clusterType") == "SNO" else workers,
    }
    if cluster.form == "ClusterInstance":
        required["arbiterAgents"] = roles.count("arbiter")
    networking = _some(spec, "clusterNetwork", "machineNetwork")
    if spec.get("serviceNetwork"):
        networking["serviceNetwork"] = [item["cidr"] for item in spec["serviceNetwork"]]
    references = [{"name": item["name"]} for item in spec.get("extraManifestsRefs", [])]
    references += [{"name": name}] if cluster.manifests else []
    manifests: Json = {"manifestsConfigMapRefs": references} if references else {}
    if references and cluster.api_version == "ran.openshift.io/v1":
        manifests = {"manifestsConfigMapRef": references[0]}
    return {
        "clusterDeploymentRef": {"name": name},
        "holdInstallation": spec["holdInstallation"],
        "imageSetRef": {"name": spec["clusterImageSetNameRef"]},
        **_some(spec, "apiVIP", "ingressVIP", "apiVIPs", "ingressVIPs"),
        "networking": networking,
        "provisionRequirements": required,
        **_some(spec, "proxy", "platformType", "sshPublicKey"),
        **manifests,
    }


def _architecture(spec: Json, node: Json) -> str:
    common = str(spec.get("cpuArchitecture") or "")
    return str(node.get("cpuArchitecture") or ("" if common == "multi" else common))


def _infra_env(spec: Json, label: str, node: Json) -> Json:
    architecture = _architecture(spec, node)
    return {
        "clusterRef": {"name": spec["clusterName"], "namespace": spec["clusterName"]},
        "sshAuthorizedKey": spec["sshPublicKey"],
        "pullSecretRef": {"name": spec["pullSecretRef"]["name"]},
        "nmStateConfigLabelSelector": {"matchLabels": {"nmstate-label": label}},
        **_some(spec, "proxy", "ignitionConfigOverride", "additionalNTPSources"),
        **({"cpuArchitecture": architecture} if architecture else {}),
    }


def _host_metadata(node: Json, env: str, *, is_site: bool) -> Json:
    annotations = {f"{_BMAC}/hostname": node["hostName"], f"{_BMAC}/role": node["role"]}
    # A SiteConfig's annotation is there only where it says something, a ClusterInstance's always.
    if node["ironicInspect"] == "disabled" or not is_site:
        annotations["inspect.metal3.io"] = node["ironicInspect"]
    annotations |= {f"{_BMAC}.node-label.{key}": value for key, value in node.get("nodeLabels", {}).items()}
    names = {"installerArgs": "installer-args", "ignitionConfigOverride": "ignition-config-overrides"}
    annotations |= {f"{_BMAC}/{names[field]}": value for field, value in _some(node, *names).items()}
    labels = {"infraenvs.agent-install.openshift.io": env}
    if not is_site:
        labels["cluster.open-cluster-management.io/backup"] = "cluster-activation"
    return {"annotations": annotations, "labels": labels}


def _host(spec: Json, node: Json) -> Json:
    architecture = _architecture(spec, node)
    return {
        "bootMode": node["bootMode"],
        "bmc": {
            "address": node["bmcAddress"],
            "disableCertificateVerification": True,
            "credentialsName": node["bmcCredentialsName"]["name"],
        },
        "bootMACAddress": node["bootMACAddress"],
        "automatedCleaningMode": node["automatedCleaningMode"],
        "online": True,
        **_some(node, "rootDeviceHints", "userData"),
        **({"architecture": architecture} if architecture else {}),
    }


@cache
def _schemas() -> dict[str, Json]:
    return {
        item["spec"]["names"]["kind"]: item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for item in definitions()
    }


def problems(found: list[Resource]) -> Iterator[str]:
    """Yield what a hub would refuse of all that is to be applied: by its definitions, its rules, or as a twin."""
    by_kind = {kind.name: rule.check for kind, rule in RULES.items()}
    seen: dict[tuple[str, str], Resource] = {}
    for resource in found:
        obj, metadata = resource.obj, resource.obj["metadata"]
        kind, name = obj["kind"], "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        label = f"{resource.path}: {kind} {name}"
        if kind in _schemas():
            yield from (f"{label}: {line}" for line in schema.problems(obj["spec"], _schemas()[kind], "spec"))
        yield from (f"{label}: {line}" for line in (by_kind[kind](None, obj) if kind in by_kind else ()))
        marks = [(kind, name)]
        if kind == BARE_METAL_HOST.name:
            marks.append(("bootMACAddress", obj["spec"]["bootMACAddress"].lower()))
        for mark in marks:
            other = seen.setdefault(mark, resource)
            if other is not resource:
                yield f"{resource.path}: {' '.join(mark)}: is that of {other.path} as well"
