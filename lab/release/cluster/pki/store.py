"""The cluster's certificates in its API: a Secret each, by OpenShift's names, and the CAs that are trusted."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from installer.common import certificates
from installer.common.certificates import Pair
from lab.release.cluster.kube import resources
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.resources import NOT_AFTER, config_map, tls_secret

log = logging.getLogger(__name__)

APISERVER, CONTROLLERS = "openshift-kube-apiserver", "openshift-kube-controller-manager"
OPERATOR = f"{APISERVER}-operator"
MACHINE_CONFIG = "openshift-machine-config-operator"
#: Namespace and name of the Secret of each signer that is renewed, by asset (`tls.SIGNERS`).
SIGNERS = {
    "admin-kubeconfig-signer": (OPERATOR, "admin-kubeconfig-signer"),
    "aggregator-signer": (OPERATOR, "aggregator-client-signer"),
    "kube-apiserver-localhost-signer": (OPERATOR, "localhost-serving-signer"),
    "kube-apiserver-service-network-signer": (OPERATOR, "service-network-serving-signer"),
    "kube-apiserver-lb-signer": (OPERATOR, "loadbalancer-serving-signer"),
    "localhost-recovery-signer": (OPERATOR, "localhost-recovery-serving-signer"),
    "kube-apiserver-to-kubelet-signer": (OPERATOR, "kube-apiserver-to-kubelet-signer"),
    "kube-control-plane-signer": (OPERATOR, "kube-control-plane-signer"),
    "kubelet-signer": (f"{CONTROLLERS}-operator", "csr-signer"),
    "etcd-signer": ("openshift-etcd", "etcd-signer"),
    "router-ca": ("openshift-ingress-operator", "router-ca"),
    "openshift-service-serving-signer": ("openshift-service-ca", "signing-key"),
}
#: The same of what they sign (`tls.leaves`).
TARGETS = {
    "kube-apiserver-localhost-server": (APISERVER, "localhost-serving-cert-certkey"),
    "localhost-recovery-server": (APISERVER, "localhost-recovery-serving-certkey"),
    "kube-apiserver-service-network-server": (APISERVER, "service-network-serving-certkey"),
    "kube-apiserver-lb-server": (APISERVER, "external-loadbalancer-serving-certkey"),
    "kube-apiserver-internal-lb-server": (APISERVER, "internal-loadbalancer-serving-certkey"),
    "aggregator-client": (APISERVER, "aggregator-client"),
    "kube-apiserver-to-kubelet-client": (APISERVER, "kubelet-client"),
    "etcd-client": ("openshift-etcd", "etcd-client"),
    "kube-controller-manager-client": ("openshift-config-managed", "kube-controller-manager-client-cert-key"),
    "kube-scheduler-client": ("openshift-config-managed", "kube-scheduler-client-cert-key"),
    "machine-config-server-client": (MACHINE_CONFIG, "machine-config-server-client"),
    "assisted-installer-controller-client": ("assisted-installer", "assisted-installer-controller-client"),
    "cluster-version-operator-client": (APISERVER, "localhost-recovery-client"),
    "router-certs": ("openshift-ingress", "router-certs-default"),
    "console-serving-cert": ("openshift-console", "console-serving-cert"),
}
#: The same of what stays as long as the cluster does.
FIXED = {
    "root-ca": (MACHINE_CONFIG, "machine-config-server-ca"),
    "machine-config-server": (MACHINE_CONFIG, "machine-config-server-tls"),
    "kubelet-bootstrap-kubeconfig-signer": (MACHINE_CONFIG, "node-bootstrapper-signer"),
    "kubelet-client": (MACHINE_CONFIG, "node-bootstrapper-client"),
    "control-plane-localhost-server": (CONTROLLERS, "localhost-serving-cert-certkey"),
    "service-account": (APISERVER, "service-account-signing-key"),
}
#: What users may replace by a Secret of their own, which has no label.
USERS = {"router-certs"}
#: The CAs that are trusted, by the asset of the newest: those that something still in force was signed with, too.
AUTHORITIES = (OPERATOR, "certificate-authorities")


@dataclass(frozen=True)
class Kept:
    """A certificate as it is kept; a signer may have a successor, ``next``, that is trusted and does not sign yet.
    ``asked`` when somebody wants it renewed at once: its Secret lacks the annotation NOT_AFTER."""

    pair: Pair
    next: Pair | None = None
    asked: bool = False


def to_secret(asset: str, kept: Kept) -> Object:
    """Return the Secret of a certificate."""
    namespace, name = (SIGNERS | TARGETS | FIXED)[asset]
    kind = resources.SIGNER if asset in SIGNERS else resources.TARGET if asset in TARGETS else resources.FIXED
    obj = tls_secret(namespace, name, kept.pair, kind)
    if kept.next is not None:
        obj["data"] |= resources.encoded({"next.crt": kept.next.certificate, "next.key": kept.next.key})
    return obj


def from_secrets(listed: Iterable[Object]) -> dict[str, Kept]:
    """Return the certificates in Secrets, by asset; others are left out, and so are those that cannot be used."""
    assets = {place: asset for asset, place in (SIGNERS | TARGETS | FIXED).items()}
    found = {}
    for obj in listed:
        asset = assets.get((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        if asset is None:
            continue
        if (pair := _pair(obj, "tls", asset)) is not None:
            follower = _pair(obj, "next", asset) if "next.crt" in obj["data"] else None
            asked = asset not in FIXED and not (obj["metadata"].get("annotations") or {}).get(NOT_AFTER)
            found[asset] = Kept(pair, follower, asked)
    return found


def _pair(obj: Object, prefix: str, asset: str) -> Pair | None:
    """Return a pair of a Secret, if it can be used."""
    data = obj.get("data") or {}
    parts = (base64.b64decode(data.get(f"{prefix}.{end}", "")) for end in ("crt", "key"))
    pair = Pair(*(part.decode(errors="replace") for part in parts))
    try:
        if asset != "service-account":
            certificates.check(pair)
        elif not (pair.certificate and pair.key):  # two keys
            raise ValueError("a key is missing")
    except ValueError as error:
        meta = obj["metadata"]
        log.error("Secret %s/%s: %s.crt and %s.key: %s", meta["namespace"], meta["name"], prefix, prefix, error)
        return None
    return pair


def authorities(trusted: Mapping[str, str]) -> Object:
    """Return the ConfigMap with the CAs that are trusted, PEM by asset."""
    return config_map(*AUTHORITIES, trusted)


def objects(pairs: Mapping[str, Pair]) -> list[Object]:
    """Return what a new cluster begins with."""
    stored = [to_secret(asset, Kept(pairs[asset])) for asset in SIGNERS | TARGETS | FIXED]
    return [*stored, authorities({asset: pairs[asset].certificate for asset in SIGNERS})]
