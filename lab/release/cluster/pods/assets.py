"""The installer's files on the bootstrap host, and those that static pods read, made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from installer.common.certificates import Pair
from lab.release.cluster import tls
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube import kubeconfig, payload
from lab.release.cluster.kube.payload import Images


@dataclass(frozen=True)
class Host:
    """The bootstrap host: where its assets are, how the node is called, its addresses, one a family, the one that it
    is known by first, and its interface in the machine network."""

    assets: Path
    kubernetes: Path
    etcd_data: Path
    addresses: tuple[str, ...]
    node_name: str
    os_id: str
    interface: str = ""

    @property
    def node_ip(self) -> str:
        """The address that it is known by."""
        return self.addresses[0]


#: The client certificate of each component that has a kubeconfig.
CLIENTS = {
    "kube-controller-manager-certs": "kube-controller-manager-client",
    "kube-scheduler": "kube-scheduler-client",
    "machine-config-server": "machine-config-server-client",
    "cluster-version-operator": "cluster-version-operator-client",
    "assisted-installer-controller": "assisted-installer-controller-client",
}
#: Files that programs read at their start alone: a pod whose own of these change is started anew, as a revision. All
#: others are read again by themselves (docs/certificates.md).
READ_AT_START = frozenset(
    {
        "etcd-certs/ca.crt",
        "kube-apiserver-certs/etcd-ca.crt",
        "kube-apiserver-certs/kubelet-ca.crt",
        "kube-apiserver-certs/service-account.crt",
        "kube-apiserver-certs/service-account.key",
        "kube-controller-manager-certs/kubeconfig",
        "kube-controller-manager-certs/server-ca.crt",
        "kube-controller-manager-certs/service-account.key",
        "kube-controller-manager-certs/service-ca-bundle.crt",
        "kube-scheduler/kubeconfig",
        "kube-scheduler/server-ca.crt",
    }
)


@dataclass(frozen=True)
class Cluster:
    """The content of /opt/openshift, as the installer left it; later, the certificates as they are then, with the
    ``authorities`` of which several are trusted, PEM by the name of the newest."""

    config: InstallConfig
    pairs: Mapping[str, Pair]
    release_image: str
    images: Images
    authorities: Mapping[str, str] = field(default_factory=dict)

    def bundle(self, *names: str) -> str:
        """Join the certificates of CAs, those that come before and after a change of one included."""
        return "".join(self.authorities.get(name, "") or self.pairs[name].certificate for name in names)

    @property
    def server_ca(self) -> str:
        """The CAs that a client of the API must trust."""
        return self.bundle(*tls.SERVER_CAS)

    def kubeconfig(self, user: str, client: str, host: str = "localhost") -> str:
        """Return a kubeconfig of one of our clients."""
        return kubeconfig.render(
            cluster=self.config.name,
            server=f"https://{host}:6443",
            ca=self.server_ca,
            user=user,
            client=self.pairs[client],
        )


def load(assets: Path, root: Path = Path("/")) -> Cluster:
    """Read the assets and, under ``root``, the payload. Raises ConfigError, PayloadError."""
    facts = json.loads((assets / "cluster.json").read_text())
    images = payload.load_images(root)
    release = str(facts["releaseImage"])
    all_images = Images(images.version, {**images.tags, "cluster-version-operator": release})
    return Cluster(parse((assets / "install-config.yaml").read_text()), tls.load(assets / "tls"), release, all_images)


def control_plane_files(cluster: Cluster) -> dict[str, str]:
    """Make the files that the static pods of every control plane node read, by path under static-pod-resources."""
    pairs, bundle = cluster.pairs, cluster.bundle
    etcd_ca, root_ca = bundle("etcd-signer"), pairs["root-ca"].certificate
    files = {
        "etcd-certs/ca.crt": etcd_ca,
        "kube-apiserver-certs/client-ca.crt": bundle(*tls.CLIENT_CAS),
        "kube-apiserver-certs/etcd-ca.crt": etcd_ca,
        "kube-apiserver-certs/kubelet-ca.crt": bundle("kubelet-signer"),
        "kube-apiserver-certs/aggregator-ca.crt": bundle("aggregator-signer"),
        "kube-controller-manager-certs/csr-signer.crt": pairs["kubelet-signer"].certificate,
        "kube-controller-manager-certs/csr-signer.key": pairs["kubelet-signer"].key,
        "kube-controller-manager-certs/service-account.key": pairs["service-account"].key,
        "kube-controller-manager-certs/service-ca-bundle.crt": cluster.server_ca,
        "machine-config-server/kubelet-ca.crt": bundle("kube-apiserver-to-kubelet-signer"),
        "machine-config-server/kubeconfig-kubelet": cluster.kubeconfig(
            "kubelet", "kubelet-client", f"api-int.{cluster.config.domain}"
        ),
        "cluster-version-operator/router-ca.crt": bundle("router-ca"),
        "cluster-version-operator/root-ca.crt": root_ca,
        "cluster-version-operator/etcd-ca.crt": etcd_ca,
        "cluster-version-operator/etcd-client.crt": pairs["etcd-client"].certificate,
        "cluster-version-operator/etcd-client.key": pairs["etcd-client"].key,
    }
    for target, asset in (
        ("kube-apiserver-certs/service-network-server", "kube-apiserver-service-network-server"),
        ("kube-apiserver-certs/localhost-server", "kube-apiserver-localhost-server"),
        ("kube-apiserver-certs/localhost-recovery", "localhost-recovery-server"),
        ("kube-apiserver-certs/lb-server", "kube-apiserver-lb-server"),
        ("kube-apiserver-certs/internal-lb-server", "kube-apiserver-internal-lb-server"),
        ("kube-apiserver-certs/etcd-client", "etcd-client"),
        ("kube-apiserver-certs/kubelet-client", "kube-apiserver-to-kubelet-client"),
        ("kube-apiserver-certs/aggregator-client", "aggregator-client"),
        ("kube-apiserver-certs/service-account", "service-account"),
        ("machine-config-server/tls", "machine-config-server"),
        ("kube-controller-manager-certs/localhost", "control-plane-localhost-server"),
        ("kube-scheduler/localhost", "control-plane-localhost-server"),
        *((f"{component}/client", client) for component, client in CLIENTS.items()),
    ):
        files[f"{target}.crt"] = pairs[asset].certificate
        files[f"{target}.key"] = pairs[asset].key
    for component, client in CLIENTS.items():
        recovers = client == tls.RECOVERY
        ca = bundle("localhost-recovery-signer", *tls.SERVER_CAS) if recovers else cluster.server_ca
        files[f"{component}/server-ca.crt"] = ca
        files[f"{component}/kubeconfig"] = kubeconfig.of_files(
            cluster=cluster.config.name,
            user=client.removesuffix("-client"),
            server_name="localhost-recovery" if recovers else "",
        )
    return files


def etcd_files(
    signer: Pair, node_name: str, addresses: Sequence[str], lifetime: timedelta = tls.ETCD
) -> dict[str, str]:
    """One host's own etcd certificate, by path under static-pod-resources."""
    pair = tls.etcd_server(signer, addresses, node_name, lifetime)
    return {"etcd-certs/server.crt": pair.certificate, "etcd-certs/server.key": pair.key}
