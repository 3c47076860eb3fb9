"""The objects that the installer itself puts into the cluster (reference/cluster.md §9.3)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from installer.common.certificates import Pair
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube.client import Kube, Object

CONFIG = "config.openshift.io/v1"
MACHINE_CONFIG = "openshift-machine-config-operator"


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config_map(namespace: str, name: str, data: Mapping[str, str]) -> Object:
    """Return a ConfigMap."""
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def read_config(kube: Kube) -> InstallConfig | None:
    """Return the install-config that the cluster was made from, without its secrets; None while it is not there."""
    config_map = kube.get("v1", "ConfigMap", "cluster-config-v1", "kube-system")
    if config_map is None:
        return None
    return parse(config_map["data"]["install-config"], "ConfigMap kube-system/cluster-config-v1")


def is_installed(kube: Kube) -> bool:
    """Return whether the cluster's installation is complete: some release has been, whatever becomes of another."""
    version = kube.get(CONFIG, "ClusterVersion", "version") or {}
    return any(entry.get("state") == "Completed" for entry in (version.get("status") or {}).get("history") or [])


def secret(namespace: str, name: str, data: Mapping[str, str], kind: str = "Opaque") -> Object:
    """Return a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": kind,
        "data": {key: _b64(value) for key, value in data.items()},
    }


def _tls_secret(namespace: str, name: str, pair: Pair) -> Object:
    return secret(namespace, name, {"tls.crt": pair.certificate, "tls.key": pair.key}, "kubernetes.io/tls")


def cluster_scoped(kind: str, spec: Object, name: str = "cluster", status: Object | None = None) -> Object:
    """Return a config.openshift.io object."""
    obj: Object = {"apiVersion": CONFIG, "kind": kind, "metadata": {"name": name}, "spec": spec}
    if status is not None:
        obj["status"] = status
    return obj


def _infrastructure(config: InstallConfig, infra_id: str) -> Object:
    kind = {"none": "None", "baremetal": "BareMetal", "external": "External"}.get(config.platform, "None")
    platform: Object = {"type": kind}
    if kind == "BareMetal":
        platform["baremetal"] = {
            "apiServerInternalIPs": list(config.api_vips),
            "ingressIPs": list(config.ingress_vips),
            "loadBalancer": {"type": "UserManaged" if config.own_load_balancer else "OpenShiftManagedDefault"},
        }
    highly = (
        "HighlyAvailableArbiter" if config.arbiter_replicas else "DualReplica" if config.fenced else "HighlyAvailable"
    )
    topology = "SingleReplica" if config.control_plane_replicas == 1 else highly
    workers = "SingleReplica" if config.single_node or config.compute_replicas == 1 else "HighlyAvailable"
    status = {
        "apiServerURL": f"https://api.{config.domain}:6443",
        "apiServerInternalURI": f"https://api-int.{config.domain}:6443",
        "controlPlaneTopology": topology,
        "infrastructureTopology": workers,
        "cpuPartitioning": "None",
        "etcdDiscoveryDomain": "",
        "infrastructureName": infra_id,
        "platform": kind,
        "platformStatus": platform,
    }
    spec = {"cloudConfig": {"name": ""}, "platformSpec": {"type": kind}}
    return cluster_scoped("Infrastructure", spec, status=status)


def _network(config: InstallConfig) -> Object:
    spec = {
        "clusterNetwork": [{"cidr": cidr, "hostPrefix": prefix} for cidr, prefix in config.cluster_networks],
        "externalIP": {"policy": {}},
        "networkType": "Bridge",
        "serviceNetwork": list(config.service_networks),
    }
    return cluster_scoped("Network", spec)


def proxy(config: InstallConfig) -> Object:
    """Return the cluster's Proxy object: what is configured, and as its status what is in force."""
    spec: Object = {"trustedCA": {"name": "user-ca-bundle" if config.trust_bundle else ""}}
    for key in ("httpProxy", "httpsProxy", "noProxy"):
        if config.proxy.get(key):
            spec[key] = config.proxy[key]
    status = {k: v for k, v in spec.items() if k != "trustedCA"}
    return cluster_scoped("Proxy", spec, status={**status, "noProxy": config.no_proxy} if status else {})


def manifests(
    config: InstallConfig,
    pairs: Mapping[str, Pair],
    *,
    cluster_id: str,
    infra_id: str,
    invoker: str,
    version: str,
    kubeadmin_hash: str,
) -> dict[str, list[Object]]:
    """File name to objects: what `create manifests` writes into manifests/."""
    files: dict[str, list[Object]] = {
        "cluster-config.yaml": [config_map("kube-system", "cluster-config-v1", {"install-config": config.redacted()})],
        "cluster-dns-02-config.yml": [cluster_scoped("DNS", {"baseDomain": config.domain})],
        "cluster-infrastructure-02-config.yml": [_infrastructure(config, infra_id)],
        "cluster-ingress-02-config.yml": [cluster_scoped("Ingress", {"domain": f"apps.{config.domain}"})],
        "cluster-network-02-config.yml": [_network(config)],
        "cluster-proxy-01-config.yaml": [proxy(config)],
        "cluster-scheduler-02-config.yml": [
            cluster_scoped("Scheduler", {"mastersSchedulable": config.schedulable_masters, "policy": {"name": ""}})
        ],
        "cvo-overrides.yaml": [
            cluster_scoped(
                "ClusterVersion",
                {"channel": f"stable-{'.'.join(version.split('.')[:2])}", "clusterID": cluster_id},
                "version",
            )
        ],
        "kube-system-configmap-root-ca.yaml": [
            config_map("kube-system", "root-ca", {"ca.crt": pairs["root-ca"].certificate})
        ],
        "machine-config-server-ca-secret.yaml": [
            _tls_secret(MACHINE_CONFIG, "machine-config-server-ca", pairs["root-ca"])
        ],
        "machine-config-server-tls-secret.yaml": [
            _tls_secret(
                "openshift-machine-config-operator", "machine-config-server-tls", pairs["machine-config-server"]
            )
        ],
        "router-ca-secret.yaml": [_tls_secret("openshift-ingress-operator", "router-ca", pairs["router-ca"])],
        "router-certs-default-secret.yaml": [
            _tls_secret("openshift-ingress", "router-certs-default", pairs["router-certs"])
        ],
        # What OpenShift's service-ca operator would make.
        "console-serving-cert-secret.yaml": [
            _tls_secret("openshift-console", "console-serving-cert", pairs["console-serving-cert"])
        ],
        "service-ca-bundle-config.yaml": [
            config_map(
                "openshift-ingress",
                "service-ca-bundle",
                {"service-ca.crt": pairs["openshift-service-serving-signer"].certificate},
            )
        ],
        "openshift-config-secret-pull-secret.yaml": [
            secret(
                "openshift-config",
                "pull-secret",
                {".dockerconfigjson": config.pull_secret},
                "kubernetes.io/dockerconfigjson",
            )
        ],
        "openshift-install-manifests.yaml": [
            config_map("openshift-config", "openshift-install-manifests", {"invoker": invoker, "version": version})
        ],
    }
    if config.mirrors:
        files["image-digest-mirror-set.yaml"] = [_digest_mirrors(config)]
    if config.trust_bundle:
        files["user-ca-bundle-config.yaml"] = [
            config_map("openshift-config", "user-ca-bundle", {"ca-bundle.crt": config.trust_bundle})
        ]
    if kubeadmin_hash:
        files["99_kubeadmin-password-secret.yaml"] = [
            secret("kube-system", "kubeadmin", {"kubeadmin": kubeadmin_hash.strip()})
        ]
    return files


def _digest_mirrors(config: InstallConfig) -> Object:
    entries = [
        {
            "source": entry.source,
            "mirrors": list(entry.mirrors),
            **({} if entry.contact_source else {"mirrorSourcePolicy": "NeverContactSource"}),
        }
        for entry in config.mirrors
    ]
    return cluster_scoped("ImageDigestMirrorSet", {"imageDigestMirrors": entries}, "image-digest-mirror")
