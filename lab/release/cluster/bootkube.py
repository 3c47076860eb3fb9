"""The worker of bootkube.sh: renders, fills the temporary API, and writes master.ign (reference/cluster.md §2).

It runs in one container and takes turns with the script over stdin and stdout, one word a line: it says
`rendered` when the temporary control plane can be started, `applied` when it can be stopped, is told `stopped`, and
says `written`.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.release.cluster import apply, ignition, kubeconfig, machineconfig, payload, staticpods, templates, tls
from lab.release.cluster.certs import KeyPair
from lab.release.cluster.errors import ClusterError, ConfigError
from lab.release.cluster.ignition import Config, file, unit
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube import Kube, Object
from lab.release.cluster.payload import Images

log = logging.getLogger(__name__)

API_SECONDS = 20 * 60.0  # §2.8
ASSETS_SECONDS = 60 * 60.0
#: Spare zero bytes kept behind the last record of a write-ahead log, well over what a record's padding needs.
WAL_TAIL = 4096


@dataclass(frozen=True)
class Host:
    """The bootstrap host: where its assets are and how the node is called."""

    assets: Path
    kubernetes: Path
    etcd_data: Path
    node_ip: str
    node_name: str
    os_id: str


@dataclass(frozen=True)
class Cluster:
    """What the installer left in /opt/openshift."""

    config: InstallConfig
    pairs: Mapping[str, KeyPair]
    release_image: str
    images: Images

    @property
    def server_ca(self) -> str:
        """What a client of the API must trust."""
        return tls.bundle(self.pairs, tls.SERVER_CAS)

    def kubeconfig(self, user: str, client: str, host: str = "localhost") -> str:
        """A kubeconfig of one of our clients."""
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
    known = Images(images.version, {**images.tags, "cluster-version-operator": release})
    return Cluster(parse((assets / "install-config.yaml").read_text()), tls.load(assets / "tls"), release, known)


def secrets_of_node(cluster: Cluster, host: Host) -> dict[str, str]:
    """Everything the static pods read, by path under static-pod-resources."""
    pairs = cluster.pairs
    etcd = tls.etcd_server(pairs, [host.node_ip], host.node_name)
    found = {
        "etcd-certs/ca.crt": pairs["etcd-signer"].cert,
        "etcd-certs/server.crt": etcd.cert,
        "etcd-certs/server.key": etcd.key,
        "kube-apiserver-certs/client-ca.crt": tls.bundle(pairs, tls.CLIENT_CAS),
        "kube-apiserver-certs/etcd-ca.crt": pairs["etcd-signer"].cert,
        "kube-apiserver-certs/kubelet-ca.crt": pairs["kubelet-signer"].cert,
        "kube-apiserver-certs/aggregator-ca.crt": pairs["aggregator-signer"].cert,
        "kube-controller-manager-certs/csr-signer.crt": pairs["kubelet-signer"].cert,
        "kube-controller-manager-certs/csr-signer.key": pairs["kubelet-signer"].key,
        "kube-controller-manager-certs/service-account.key": pairs["service-account"].key,
        "kube-controller-manager-certs/service-ca-bundle.crt": cluster.server_ca,
        "machine-config-server/kubelet-ca.crt": tls.bundle(pairs, ["kube-apiserver-to-kubelet-signer"]),
        "machine-config-server/kubeconfig-kubelet": cluster.kubeconfig(
            "kubelet", "kubelet-client", f"api-int.{cluster.config.domain}"
        ),
        "cluster-version-operator/router-ca.crt": pairs["router-ca"].cert,
        "cluster-version-operator/root-ca.crt": pairs["root-ca"].cert,
        "cluster-version-operator/etcd-ca.crt": pairs["etcd-signer"].cert,
        "cluster-version-operator/etcd-client.crt": pairs["etcd-client"].cert,
        "cluster-version-operator/etcd-client.key": pairs["etcd-client"].key,
        "router/default.pem": pairs["router-certs"].cert + pairs["router-certs"].key,
        "router/haproxy.cfg": templates.fill(
            "haproxy.cfg",
            secrets=f"{staticpods.RESOURCES}/router",
            console_host=f"console-openshift-console.apps.{cluster.config.domain}",
        ),
    }
    for target, asset in (
        ("kube-apiserver-certs/service-network-server", "kube-apiserver-service-network-server"),
        ("kube-apiserver-certs/localhost-server", "kube-apiserver-localhost-server"),
        ("kube-apiserver-certs/lb-server", "kube-apiserver-lb-server"),
        ("kube-apiserver-certs/internal-lb-server", "kube-apiserver-internal-lb-server"),
        ("kube-apiserver-certs/etcd-client", "etcd-client"),
        ("kube-apiserver-certs/kubelet-client", "kube-apiserver-to-kubelet-client"),
        ("kube-apiserver-certs/aggregator-client", "aggregator-client"),
        ("kube-apiserver-certs/service-account", "service-account"),
        ("machine-config-server/tls", "machine-config-server"),
    ):
        found[f"{target}.crt"] = pairs[asset].cert
        found[f"{target}.key"] = pairs[asset].key
    for component, client in (
        ("kube-controller-manager-certs", "kube-controller-manager-client"),
        ("machine-config-server", "machine-config-server-client"),
        ("cluster-version-operator", "cluster-version-operator-client"),
        ("assisted-installer-controller", "assisted-installer-controller-client"),
        ("console", "console-client"),
    ):
        found[f"{component}/kubeconfig"] = cluster.kubeconfig(client.removesuffix("-client"), client)
    return found


def pods(cluster: Cluster, host: Host) -> list[staticpods.StaticPod]:
    """The node's static pods."""
    return staticpods.control_plane(cluster.config, cluster.release_image, host.node_ip, host.node_name)


def render(cluster: Cluster, host: Host) -> None:
    """Write the static pods' files and the commands that start the temporary control plane."""
    for name, text in secrets_of_node(cluster, host).items():
        tls.write_private(host.kubernetes / "static-pod-resources" / name, text)
    for pod in pods(cluster, host)[:2]:
        script = host.assets / "bootstrap-manifests" / f"{pod.name}.sh"
        tls.write_private(script, pod.podman(cluster.images) + "\n")


def user_objects(cluster: Cluster, assets: Path) -> list[Object]:
    """The objects of /opt/openshift/{manifests,openshift}. Raises ManifestError."""
    found: list[Object] = []
    for folder in ("manifests", "openshift"):
        for path in sorted((assets / folder).glob("*")):
            if path.suffix in (".yaml", ".yml", ".json"):
                text = path.read_text().replace(payload.SNAPSHOT, cluster.images.version)
                found += payload.read_objects(text, path.name)
    return found


def machine_configs(cluster: Cluster, given: list[Object]) -> list[Object]:
    """MachineConfigs (ours and the user's), rendered ones and pools, for both roles; rendered ones directly behind."""
    own = [c for role in ("master", "worker") for c in machineconfig.standard(cluster.config, cluster.images, role)]
    configs = [*own, *(obj for obj in given if obj["kind"] == "MachineConfig")]
    found = list(own)
    for pool in ("master", "worker"):
        done = machineconfig.rendered(pool, configs)
        sources = [c["metadata"]["name"] for c in configs if c["metadata"]["labels"].get(machineconfig.ROLE) == pool]
        found += [done, machineconfig.machine_config_pool(pool, done["metadata"]["name"], sorted(sources))]
    return found


def bootstrap_objects(root: Path, release_image: str) -> list[Object]:
    """The payload's manifests that the installer's own need: definitions, namespaces, bindings."""
    return [m.object for m in payload.load_manifests(root, release_image) if m.annotated(payload.BOOTSTRAP)]


def event(name: str) -> Object:
    """One of cluster-bootstrap's two events (§2.3)."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "kube-system"},
        "involvedObject": {"namespace": "kube-system"},
        "message": "Required control plane pods have been created",
        "source": {"component": "cluster-bootstrap"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Normal",
    }


def etcd_files(data: Path) -> tuple[list[Config], list[Config]]:
    """Ignition files and directories of a cleanly stopped etcd's data, small.

    etcd fills each write-ahead log up to 64 MB with zeros in advance and reads one that ends early just as well, so the
    zeros are cut off; and what it has only as a spare (*.tmp) is left out.
    """
    files = []
    for path in sorted((data / "member").rglob("*")):
        if not path.is_file() or path.suffix == ".tmp":
            continue
        raw = path.read_bytes()
        if path.suffix == ".wal":
            used = len(raw.rstrip(b"\0"))
            raw = raw[: (used // WAL_TAIL + 2) * WAL_TAIL]
        target = f"{staticpods.ETCD_DATA}/{path.relative_to(data)}"
        files.append(file(target, raw, 0o600, compress=True))
    names = ("", "/member", "/member/snap", "/member/wal")
    return files, [{"path": staticpods.ETCD_DATA + name, "mode": 0o700, "overwrite": False} for name in names]


def master_ignition(cluster: Cluster, host: Host, objects: list[Object]) -> Config:
    """The config of the node after its reboot: its pool's, and all that makes it a control plane (§2.6)."""
    current = next(
        o for o in objects if o["kind"] == "MachineConfig" and o["metadata"]["name"].startswith("rendered-master-")
    )
    resources = staticpods.RESOURCES
    served = machineconfig.served(
        "master",
        current,
        cluster.kubeconfig("kubelet", "kubelet-client", f"api-int.{cluster.config.domain}"),
        tls.bundle(cluster.pairs, ["kube-apiserver-to-kubelet-signer"]),
        host.os_id,
    )
    files = ignition.tree(host.kubernetes / "static-pod-resources", resources)
    files += [
        file(f"/etc/kubernetes/manifests/{pod.name}-pod.yaml", pod.manifest(cluster.images), 0o600)
        for pod in pods(cluster, host)
    ]
    loopback = (host.assets / "auth" / "kubeconfig-loopback").read_text()
    admin = cluster.pairs["admin-kubeconfig-client"]
    secrets = {
        "kubeconfig": loopback,
        "ca.crt": cluster.pairs["kube-apiserver-localhost-signer"].cert,
        "admin.crt": admin.cert,
        "admin.key": admin.key,
    }
    files += [file(f"/etc/kubernetes/bootstrap-secrets/{name}", text, 0o600) for name, text in secrets.items()]
    script = templates.text("bootstrap-in-place-post-reboot.sh")
    files.append(file("/usr/local/bin/bootstrap-in-place-post-reboot.sh", script, 0o555))
    files.append(file("/usr/local/bin/installer-gather.sh", templates.text("installer-gather.sh"), 0o555))
    data, directories = etcd_files(host.etcd_data)
    units = [unit("bootkube.service", templates.text("bootstrap-in-place-post-reboot.service"))]
    return ignition.merge(served, ignition.config([*files, *data], units, directories))


def run(host: Host, root: Path = Path("/")) -> None:
    """The whole bootstrap, in step with bootkube.sh. Raises ClusterError."""
    cluster = load(host.assets, root)
    if not cluster.config.single_node:
        raise ConfigError("install-config.yaml", "controlPlane.replicas", "this bootstrap serves a single node only")
    render(cluster, host)
    given = user_objects(cluster, host.assets)
    machines = machine_configs(cluster, given)
    objects = [*bootstrap_objects(root, cluster.release_image), *given, *machines]
    print("rendered", flush=True)
    kube = Kube.from_kubeconfig(host.assets / "auth" / "kubeconfig-loopback")
    apply.wait_ready(kube, API_SECONDS)
    log.info("The temporary API is ready; creating %d manifests", len(objects))
    apply.create_all(kube, [event("bootstrap-success"), *objects], ASSETS_SECONDS)
    kube.create(event("bootstrap-finished"))
    print("applied", flush=True)
    answer = sys.stdin.readline().strip()
    if answer != "stopped":
        raise ClusterError(f"bootkube.sh said {answer!r} where 'stopped' was due")
    text = json.dumps(master_ignition(cluster, host, machines))
    fresh = host.assets / ".master.ign.new"
    tls.write_private(fresh, text)
    fresh.rename(host.assets / "master.ign")
    log.info("Wrote master.ign, %d bytes", len(text))
    print("written", flush=True)


def main() -> int:
    """Entry point inside the container; the host comes from NODE_IP, NODE_NAME and OS_ID."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    try:
        run(
            Host(
                assets=Path("/opt/openshift"),
                kubernetes=Path("/etc/kubernetes"),
                etcd_data=Path(staticpods.ETCD_DATA),
                node_ip=os.environ["NODE_IP"],
                node_name=os.environ["NODE_NAME"],
                os_id=os.environ.get("OS_ID", "debian"),
            )
        )
    except ClusterError as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
