"""The set of certificates of one cluster, by their asset names (reference/cluster.md §7.2).

What signs what, and for how long; `pki` renews them (docs/certificates.md). Two deviations, on purpose. A certificate
that OpenShift's installer makes for 24 hours lives 30 days from the beginning, as its operators' do, since a lab may be
switched off before they were renewed. And keys are ECDSA, not RSA: they are made on the host that is being installed,
where software emulation makes an RSA key cost a second; signers that the user brings may be RSA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509

from installer.common import certificates
from installer.common.certificates import BOTH, CLIENT, DAY, SERVER, TEN_YEARS, YEAR, Pair
from installer.common.secretfiles import write_private
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.installconfig import InstallConfig

SHORT = 30 * DAY
#: As cluster-etcd-operator's: a cluster that was off for long starts etcd, and with it all else.
ETCD = 3 * YEAR
#: The client by which each control plane node's operator gets at its own API server when all others have run out, as
#: OpenShift's localhost-recovery-client, whose token does not expire.
RECOVERY = "cluster-version-operator-client"
CONTROL_PLANE = "kube-control-plane-signer"
#: CAs: asset name (their CN too) and lifetime.
SIGNERS = {
    "root-ca": TEN_YEARS,
    "admin-kubeconfig-signer": TEN_YEARS,
    "kube-apiserver-localhost-signer": TEN_YEARS,
    "kube-apiserver-service-network-signer": TEN_YEARS,
    "kube-apiserver-lb-signer": TEN_YEARS,
    "localhost-recovery-signer": TEN_YEARS,
    "aggregator-signer": SHORT,
    "kube-apiserver-to-kubelet-signer": YEAR,
    CONTROL_PLANE: YEAR,
    "kubelet-signer": YEAR,
    "kubelet-bootstrap-kubeconfig-signer": TEN_YEARS,
    "etcd-signer": TEN_YEARS,
    "router-ca": TEN_YEARS,
    "openshift-service-serving-signer": TEN_YEARS,
}
#: CAs whose client certificates the API server accepts.
CLIENT_CAS = (
    "admin-kubeconfig-signer",
    "kubelet-signer",
    CONTROL_PLANE,
    "kube-apiserver-to-kubelet-signer",
    "kubelet-bootstrap-kubeconfig-signer",
)
#: CAs that an API client outside must trust.
SERVER_CAS = ("kube-apiserver-localhost-signer", "kube-apiserver-service-network-signer", "kube-apiserver-lb-signer")
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
BOOTSTRAPPER_GROUPS = ("system:serviceaccounts:openshift-machine-config-operator", "system:serviceaccounts")


@dataclass(frozen=True)
class Leaf:
    """A certificate's subject and its signer."""

    signer: str
    common_name: str
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    usages: tuple[x509.ObjectIdentifier, ...] = CLIENT
    lifetime: timedelta = SHORT


def service_account(namespace: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the user name and groups by which RBAC knows a service account; a certificate may carry them too."""
    groups = (f"system:serviceaccounts:{namespace}", "system:serviceaccounts")
    return f"system:serviceaccount:{namespace}:{name}", groups


def leaves(config: InstallConfig) -> dict[str, Leaf]:
    """Return every leaf certificate that does not depend on a host."""
    server = "system:kube-apiserver"
    group = ("kube-master",)
    service = [
        f"{name}{suffix}"
        for name in ("kubernetes", "openshift")
        for suffix in ("", ".default", ".default.svc", ".default.svc.cluster.local")
    ]
    internal = (f"api-int.{config.domain}", *config.api_vips)
    console = "console.openshift-console.svc"
    leaves_by_name = {
        "admin-kubeconfig-client": Leaf(
            "admin-kubeconfig-signer", "system:admin", ("system:masters",), (), BOTH, TEN_YEARS
        ),
        "kube-apiserver-localhost-server": Leaf(
            "kube-apiserver-localhost-signer", server, group, ("localhost", "127.0.0.1", "::1"), SERVER
        ),
        "localhost-recovery-server": Leaf(
            "localhost-recovery-signer", server, group, ("localhost-recovery",), SERVER, TEN_YEARS
        ),
        "kube-apiserver-service-network-server": Leaf(
            "kube-apiserver-service-network-signer", server, group, (*service, config.service_ip), SERVER
        ),
        "kube-apiserver-lb-server": Leaf(
            "kube-apiserver-lb-signer", server, group, (f"api.{config.domain}", *config.api_vips), SERVER
        ),
        "kube-apiserver-internal-lb-server": Leaf("kube-apiserver-lb-signer", server, group, internal, SERVER),
        "aggregator-client": Leaf("aggregator-signer", "system:kube-apiserver-proxy", group),
        "kube-apiserver-to-kubelet-client": Leaf("kube-apiserver-to-kubelet-signer", server, group),
        "kube-controller-manager-client": Leaf(CONTROL_PLANE, "system:admin", ("system:masters",)),
        "control-plane-localhost-server": Leaf(
            "root-ca", "localhost", (), ("localhost", "127.0.0.1", "::1"), SERVER, TEN_YEARS
        ),
        "kube-scheduler-client": Leaf(CONTROL_PLANE, "system:kube-scheduler"),
        "kubelet-client": Leaf(
            "kubelet-bootstrap-kubeconfig-signer", BOOTSTRAPPER, BOOTSTRAPPER_GROUPS, (), CLIENT, TEN_YEARS
        ),
        "machine-config-server": Leaf(
            "root-ca", "system:machine-config-server", (), (*internal, "localhost"), SERVER, TEN_YEARS
        ),
        "etcd-client": Leaf("etcd-signer", "etcd-client", lifetime=ETCD),
        "console-serving-cert": Leaf(
            "openshift-service-serving-signer", console, (), (console, f"{console}.cluster.local"), SERVER
        ),
        "router-certs": Leaf("router-ca", f"*.apps.{config.domain}", (), (f"*.apps.{config.domain}",), SERVER),
    }
    for asset, namespace, name in (
        ("cluster-version-operator-client", "openshift-cluster-version", "default"),
        ("machine-config-server-client", "openshift-machine-config-operator", "machine-config-server"),
        ("assisted-installer-controller-client", "assisted-installer", "assisted-installer-controller"),
    ):
        user, groups = service_account(namespace, name)
        signer, lifetime = ("admin-kubeconfig-signer", TEN_YEARS) if asset == RECOVERY else (CONTROL_PLANE, SHORT)
        leaves_by_name[asset] = Leaf(signer, user, groups, lifetime=lifetime)
    return leaves_by_name


def make(leaf: Leaf, signer: Pair) -> Pair:
    """Issue one leaf. Raises ConfigError where the signer cannot be used."""
    try:
        return certificates.leaf(
            signer,
            leaf.common_name,
            organizations=leaf.organizations,
            names=leaf.names,
            usages=leaf.usages,
            lifetime=leaf.lifetime,
        )
    except ValueError as error:
        raise ConfigError("signer", "", str(error)) from error


def service_account_keys() -> Pair:
    """Make the key that signs service account tokens; its public part stands for the certificate."""
    key = certificates.ec_key()
    return Pair(certificates.public_pem(key), certificates.private_pem(key))


def load(directory: Path) -> dict[str, Pair]:
    """Read every pair `<name>.crt` + `<name>.key` in a directory."""
    return {
        path.stem: Pair(path.read_text(), path.with_suffix(".key").read_text())
        for path in sorted(directory.glob("*.crt"))
        if path.with_suffix(".key").exists()
    }


def complete(config: InstallConfig, existing: Mapping[str, Pair]) -> dict[str, Pair]:
    """Complete the set: existing pairs are kept, missing ones made (leaves by existing signers where possible)."""
    pairs = dict(existing)
    for name, lifetime in SIGNERS.items():
        if name not in pairs:
            pairs[name] = certificates.authority(name, unit="openshift", lifetime=lifetime)
    for name, leaf in leaves(config).items():
        if name not in pairs:
            pairs[name] = make(leaf, pairs[leaf.signer])
    if "service-account" not in pairs:
        pairs["service-account"] = service_account_keys()
    return pairs


def etcd_server(signer: Pair, addresses: Sequence[str], hostname: str, lifetime: timedelta = ETCD) -> Pair:
    """Issue a host's etcd certificate, for clients and peers alike."""
    names = ("localhost", "127.0.0.1", "::1", hostname, *addresses)
    return make(Leaf("etcd-signer", f"etcd-{hostname}", ("system:etcd-servers",), names, BOTH, lifetime), signer)


def bundle(pairs: Mapping[str, Pair], names: Sequence[str]) -> str:
    """Join the certificates of several CAs to one PEM text."""
    return "".join(pairs[name].certificate for name in names)


def save(pairs: Mapping[str, Pair], directory: Path) -> None:
    """Write all pairs, keys and certificates 0600."""
    for name, pair in pairs.items():
        write_private(directory / f"{name}.crt", pair.certificate)
        write_private(directory / f"{name}.key", pair.key)
