"""ClusterDeployment and AgentClusterInstall as the service has them: parameters of a cluster, overrides, manifests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from installer.common.formats import jsontext
from installer.hub.tables.cluster import PLATFORMS, Numbers
from installer.hub.tables.facts import Json
from installer.rendezvous.resources.requests.values import ignition_url

GROUP = "agent-install.openshift.io"
OVERRIDES = f"{GROUP}/install-config-overrides"
IGNORED_CLUSTER = f"{GROUP}/ignored-cluster-validations"
IGNORED_HOST = f"{GROUP}/ignored-host-validations"
CONSUMER = "agentclusterinstalls.agent-install.openshift.io/consumer"
PAUSE = "hive.openshift.io/reconcile-pause"
# A type of load balancer as the custom resource has it, and as the API does.
_BALANCERS = {"UserManaged": "user-managed", "ClusterManaged": "cluster-managed"}
_POOLS = (("controlPlane", "masters"), ("arbiter", "arbiters"), ("compute", "workers"))


class SpecError(ValueError):
    """An error in a resource or in an object that it refers to, as one sentence that names it."""


@dataclass(frozen=True)
class Release:
    """A release as the service has read it."""

    image: str
    version: str
    architectures: tuple[str, ...] = ()


def spec_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's spec; empty without one."""
    return obj.get("spec") or {}


def required(install: Mapping[str, Any]) -> Numbers:
    """Return the numbers of Agents by role that an AgentClusterInstall requires."""
    found = spec_of(install).get("provisionRequirements") or {}
    return Numbers(*(int(found.get(f"{name}Agents") or 0) for name in ("controlPlane", "arbiter", "worker")))


def is_held(deployment: Mapping[str, Any], install: Mapping[str, Any]) -> bool:
    """Return whether the installation is not to begin yet."""
    annotations = deployment["metadata"].get("annotations") or {}
    return bool(spec_of(install).get("holdInstallation")) or str(annotations.get(PAUSE)).lower() == "true"


def _networking(spec: Mapping[str, Any]) -> Json:
    found = spec.get("networking") or {}
    body: Json = {}
    if found.get("machineNetwork"):
        body["machine_networks"] = [{"cidr": item["cidr"]} for item in found["machineNetwork"]]
    if found.get("clusterNetwork"):
        body["cluster_networks"] = [
            {"cidr": item["cidr"], "host_prefix": int(item.get("hostPrefix") or 0)} for item in found["clusterNetwork"]
        ]
    if found.get("serviceNetwork"):
        body["service_networks"] = [{"cidr": cidr} for cidr in found["serviceNetwork"]]
    if found.get("networkType"):
        body["network_type"] = found["networkType"]
    for kind in ("api", "ingress"):
        addresses = spec.get(f"{kind}VIPs") or ([spec[f"{kind}VIP"]] if spec.get(f"{kind}VIP") else [])
        if addresses:
            body[f"{kind}_vips"] = [{"ip": address} for address in addresses]
    return body


def _platform(spec: Mapping[str, Any], *, is_single: bool) -> Json:
    """Return platform and user_managed_networking, the missing one derived from the other and from `is_single`."""
    kind = {name: key for key, name in PLATFORMS.items()}.get(str(spec.get("platformType") or ""))
    managed = (spec.get("networking") or {}).get("userManagedNetworking")
    if kind is None:
        kind = "none" if is_single or managed else "baremetal"
    if managed is None:
        managed = is_single or kind in ("none", "external")
    platform: Json = {"type": kind}
    external = spec.get("external") or {}
    names = {"platform_name": "platformName", "cloud_controller_manager": "cloudControllerManager"}
    if kind == "external" and any(external.get(name) for name in names.values()):
        platform["external"] = {key: external[name] for key, name in names.items() if external.get(name)}
    return {"platform": platform, "user_managed_networking": bool(managed)}


def _hyperthreading(spec: Mapping[str, Any]) -> str:
    """Return the roles with hyperthreading in the API's form; empty if no pool sets it."""
    found = {}
    for key, role in _POOLS:
        pools = spec.get(key) or []
        for pool in [pools] if isinstance(pools, dict) else pools:
            found[role] = (pool.get("hyperthreading") or "Enabled") != "Disabled"
    if not found:
        return ""
    roles = [role for _, role in _POOLS if found.get(role, True)]
    return "all" if len(roles) == len(_POOLS) else ",".join(roles) or "none"


def cluster_params(
    deployment: Mapping[str, Any], install: Mapping[str, Any], release: Release, pull_secret: str
) -> Json:
    """Return cluster-create-params of a ClusterDeployment and its AgentClusterInstall. Raises SpecError."""
    spec, numbers = spec_of(install), required(install)
    is_single = numbers == Numbers(1)
    proxy = spec.get("proxy") or {}
    encryption = spec.get("diskEncryption") or {}
    balancer = str((spec.get("loadBalancer") or {}).get("type") or "")
    body: Json = {
        "name": spec_of(deployment).get("clusterName") or deployment["metadata"]["name"],
        "base_dns_domain": spec_of(deployment).get("baseDomain") or "",
        "openshift_version": release.version,
        "ocp_release_image": release.image,
        "pull_secret": pull_secret,
        "ssh_public_key": spec.get("sshPublicKey") or "",
        "control_plane_count": numbers.masters,
        "http_proxy": proxy.get("httpProxy") or "",
        "https_proxy": proxy.get("httpsProxy") or "",
        "no_proxy": proxy.get("noProxy") or "",
        "schedulable_masters": bool(spec.get("mastersSchedulable")),
        **_platform(spec, is_single=is_single),
        **_networking(spec),
    }
    optional: Json = {
        "hyperthreading": _hyperthreading(spec),
        "tags": (install["metadata"].get("labels") or {}).get(CONSUMER),
        "load_balancer": {"type": _BALANCERS.get(balancer, balancer)} if balancer else None,
        "cpu_architecture": release.architectures[0] if len(release.architectures) == 1 else None,
    }
    if encryption.get("enableOn", "none") != "none":
        names = {"enable_on": "enableOn", "mode": "mode", "tang_servers": "tangServers"}
        optional["disk_encryption"] = {key: encryption[name] for key, name in names.items() if encryption.get(name)}
    return body | {key: value for key, value in optional.items() if value}


def install_config_overrides(install: Mapping[str, Any], mirror: Mapping[str, Any]) -> str:
    """Return the overrides of install-config: a mirror's, and over them the annotation's. Raises SpecError."""
    text = str((install["metadata"].get("annotations") or {}).get(OVERRIDES) or "")
    if not mirror:
        return text
    try:
        own = jsontext.parsed(text) if text else {}
    except ValueError as error:
        raise SpecError(f"annotation {OVERRIDES} is not JSON: {error}") from None
    if not isinstance(own, dict):
        raise SpecError(f"annotation {OVERRIDES} must be a JSON object")
    return json.dumps({**mirror, **own}, sort_keys=True)


def ignition_endpoint_problem(install: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the server of Ignition for hosts that are added, None if nothing is."""
    endpoint = spec_of(install).get("ignitionEndpoint") or {}
    if (url := endpoint.get("url")) and (problem := ignition_url(url)):
        return f"spec.ignitionEndpoint.url: {problem}"
    namespace = (endpoint.get("caCertificateReference") or {}).get("namespace")
    own = install["metadata"].get("namespace")
    if namespace and namespace != own:
        return (
            f"spec.ignitionEndpoint.caCertificateReference.namespace: {namespace!r}: must be {own!r}, as the resource's"
        )
    return None


def mirror_overrides(name: str, data: Mapping[str, str]) -> Json:
    """Return install-config's members of a mirror, the ConfigMap ``name`` with registries.conf and ca-bundle.crt.

    Raises SpecError.
    """
    from installer.errors import ConfigError
    from installer.manifests.files import MIRROR, REGISTRIES
    from installer.manifests.mirror import read_mirror

    try:
        sources, bundle = read_mirror({path: data.get(path.rpartition("/")[2], "").encode() for path in MIRROR})
    except ConfigError as error:
        raise SpecError(f"ConfigMap {name}: {error}") from None
    if not sources:
        raise SpecError(f"ConfigMap {name}: its {REGISTRIES} names no mirror")
    found: Json = {"imageDigestSources": [{"source": item.source, "mirrors": list(item.mirrors)} for item in sources]}
    return found | ({"additionalTrustBundle": bundle} if bundle else {})


def ignored_validations(install: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return ids of validations of hosts and of the cluster that may fail, JSON lists; None where unset."""
    annotations = install["metadata"].get("annotations") or {}
    if IGNORED_HOST not in annotations and IGNORED_CLUSTER not in annotations:
        return None
    lists = []
    for name in (IGNORED_HOST, IGNORED_CLUSTER):
        ids = str(annotations.get(name) or "").strip()
        # Upstream's document has the list with or without JSON's brackets and quotes.
        found = [item.strip(' "[]') for item in ids.split(",")]
        lists.append(json.dumps([item for item in found if item]))
    return lists[0], lists[1]


def manifest_names(install: Mapping[str, Any]) -> list[str]:
    """Return the names of the ConfigMaps of manifests; the older single reference is used if the list is empty."""
    spec = spec_of(install)
    refs = spec.get("manifestsConfigMapRefs")
    if not refs:
        refs = [spec["manifestsConfigMapRef"]] if spec.get("manifestsConfigMapRef") else []
    return [str(ref.get("name")) for ref in refs]


def manifests(maps: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, bytes]:
    """Return files by name from the data of ConfigMaps. Raises SpecError for a file in two ConfigMaps."""
    files: dict[str, bytes] = {}
    owners: dict[str, str] = {}
    for name, data in maps:
        for file, content in data.items():
            if file in files:
                raise SpecError(f"ConfigMaps {owners[file]} and {name} both have a manifest {file}")
            owners[file], files[file] = name, content.encode()
    return files


def import_params(deployment: Mapping[str, Any], release: Release | None) -> Json:
    """Return import-cluster-params of an installed cluster; ``release``: for hosts to be added."""
    spec = spec_of(deployment)
    name = spec.get("clusterName") or deployment["metadata"]["name"]
    # Who imports a cluster need not know its id.
    cluster_id = (spec.get("clusterMetadata") or {}).get("clusterID") or deployment["metadata"]["uid"]
    body = {"name": name, "api_vip_dnsname": f"api.{name}.{spec.get('baseDomain') or ''}".rstrip(".")}
    return body | {"openshift_cluster_id": cluster_id} | ({"openshift_version": release.version} if release else {})
