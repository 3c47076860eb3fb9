"""The worker of bootkube.sh: renders, fills the temporary API, and writes master.ign (reference/cluster.md §2).

It runs in one container and synchronises with the script through marker files in a directory. Bootstrap in place: it
writes `rendered` when the temporary control plane can be started and `applied` when it can be stopped, waits for
`stopped`, and writes `written`. Several nodes: it writes `rendered`, `serving` when the controller manager has an API
to talk to (the nodes' first certificates wait for it), `applied` when the version operator can start too, `joined` when
two nodes run the control plane, or one beside an arbiter, waits for `operators-stopped`, and writes `released` when the
API server can stop too.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from installer.common.secretfiles import write_private
from lab.release.cluster import templates, tls
from lab.release.cluster.errors import ClusterError, WaitError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import keepalived, machineconfig
from lab.release.cluster.ignition.document import Config, file, unit
from lab.release.cluster.kube import apply, lease, payload
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.machineconfigs.generated import generated
from lab.release.cluster.nodes import revisions, scaling
from lab.release.cluster.nodes.etcdapi import Etcd
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.assets import Cluster, Host, control_plane_files, etcd_files, load
from lab.release.cluster.pods.installerpod import manifests
from lab.release.cluster.pods.pod import RESOURCES, Stage, StaticPod

log = logging.getLogger(__name__)

#: Directory of the marker files by which the script and this program synchronise.
TURNS = "turns"
TURN_SECONDS = 20 * 60.0
API_SECONDS = 20 * 60.0  # §2.8
JOIN_SECONDS = 60 * 60.0
ASSETS_SECONDS = 60 * 60.0
#: Spare zero bytes kept after the last record of a write-ahead log, well over what a record's padding needs.
WAL_TAIL = 4096


def stages(cluster: Cluster, host: Host) -> list[Stage]:
    """Return the node's static pods."""
    return staticpods.control_plane(cluster.config, cluster.release_image, host.node_ip, host.node_name)


def temporary_pods(cluster: Cluster, host: Host) -> list[StaticPod]:
    """Return the bootstrap host's own control plane, in the order in which it starts."""
    config = cluster.config
    if config.in_place:
        etcd = staticpods.etcd(host.node_ip, host.node_name, alone=True, listen=config.any_address)
        return [etcd, staticpods.kube_apiserver(config, host.node_ip)]
    return [
        *([staticpods.keepalived()] if config.holds_vips else []),
        staticpods.etcd(host.node_ip, scaling.BOOTSTRAP_MEMBER, listen=config.any_address),
        staticpods.kube_apiserver(config, host.node_ip),
        staticpods.kube_controller_manager(config),
        staticpods.kube_scheduler(config),
        staticpods.machine_config_server(bootstrap=True),
        staticpods.cluster_version_operator(cluster.release_image),
    ]


def static_pod_files(cluster: Cluster, host: Host, machines: Sequence[Object]) -> dict[str, str]:
    """Return the temporary control plane's files, by path under static-pod-resources; in place, for the node's pods
    too."""
    config = cluster.config
    signer = cluster.pairs["etcd-signer"]
    files = {**control_plane_files(cluster), **etcd_files(signer, host.node_name, host.addresses)}
    if config.in_place:
        return files
    for pool in config.pools:
        if pool != "worker":
            files[f"machine-config-server/{pool}.json"] = json.dumps(served_config(cluster, host, machines, pool))
    if config.holds_vips:
        files["keepalived/keepalived.conf"] = keepalived.bootstrap(config).replace(keepalived.INTERFACE, host.interface)
    return files


def render(cluster: Cluster, host: Host, machines: Sequence[Object]) -> None:
    """Write the static pods' files and the commands that start the temporary control plane."""
    for name, text in static_pod_files(cluster, host, machines).items():
        write_private(host.kubernetes / "static-pod-resources" / name, text)
    for pod in temporary_pods(cluster, host):
        script = host.assets / "bootstrap-manifests" / f"{pod.name}.sh"
        write_private(script, pod.podman(cluster.images) + "\n")


def user_objects(cluster: Cluster, assets: Path) -> list[Object]:
    """Return the objects of /opt/openshift/{manifests,openshift}. Raises ManifestError."""
    objects: list[Object] = []
    for folder in ("manifests", "openshift"):
        for path in sorted((assets / folder).glob("*")):
            if path.suffix in (".yaml", ".yml", ".json"):
                text = path.read_text().replace(payload.SNAPSHOT, cluster.images.version)
                objects += payload.read_objects(text, path.name)
    return objects


def machine_configs(cluster: Cluster, from_user: list[Object]) -> list[Object]:
    """MachineConfigs (ours and the user's), and for each role the rendered one, directly followed by its pool."""
    pools = cluster.config.pools
    own = [c for role in pools for c in machineconfig.standard(cluster.config, cluster.images, role)]
    configs = [*own, *(obj for obj in from_user if obj["kind"] == "MachineConfig")]
    all_configs = list(own)
    others = [obj for obj in from_user if obj["apiVersion"] == machineconfig.API and obj["kind"] != "MachineConfig"]
    for pool in pools:
        pool_object = machineconfig.machine_config_pool(pool)
        for config in generated(pool_object, configs, others):
            configs.append(config)
            all_configs.append(config)
        sources = machineconfig.selected(pool_object, configs)
        merged = machineconfig.rendered(pool, sources)
        pool_object["spec"]["configuration"] = machineconfig.configuration(merged, sources)
        all_configs += [merged, pool_object]
    return all_configs


def bootstrap_objects(root: Path, release_image: str) -> list[Object]:
    """Return the payload's manifests that the installer's own need: definitions, namespaces, bindings."""
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


def etcd_data(data: Path) -> tuple[list[Config], list[Config]]:
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
    """Return the node's config after its reboot: its pool's, and everything that makes it a control plane (§2.6)."""
    served = served_config(cluster, host, objects, "master")
    files = ignition.tree(host.kubernetes / "static-pod-resources", RESOURCES)
    at_start = revisions.at_start(control_plane_files(cluster))
    for name, text in manifests(stages(cluster, host), cluster.images, at_start).items():
        # The script after the reboot moves these in place once there is an API for them to talk to. But for the
        # approver: a kubelet that has no certificate within 13 s tries to register its node each 7 s only.
        stage, _, pod = name.removesuffix(".yaml").partition("_")
        waits = stage.endswith("-operators") and pod != staticpods.APPROVER
        files.append(file(f"/etc/kubernetes/manifests{'-operators' if waits else ''}/{pod}-pod.yaml", text, 0o600))
    loopback = (host.assets / "auth" / "kubeconfig-loopback").read_text()
    admin = cluster.pairs["admin-kubeconfig-client"]
    secrets = {
        "kubeconfig": loopback,
        "ca.crt": cluster.pairs["kube-apiserver-localhost-signer"].certificate,
        "admin.crt": admin.certificate,
        "admin.key": admin.key,
    }
    files += [file(f"/etc/kubernetes/bootstrap-secrets/{name}", text, 0o600) for name, text in secrets.items()]
    script = templates.text("bootstrap-in-place-post-reboot.sh")
    files.append(file("/usr/local/bin/bootstrap-in-place-post-reboot.sh", script, 0o555))
    files += [
        file(f"/usr/local/bin/{name}", templates.text(name), 0o555)
        for name in ("api-call.sh", "pause.sh", "installer-gather.sh")
    ]
    data, directories = etcd_data(host.etcd_data)
    units = [unit("bootkube.service", templates.text("bootstrap-in-place-post-reboot.service"))]
    return ignition.merge(served, ignition.config([*files, *data], units, directories))


def served_config(cluster: Cluster, host: Host, objects: Sequence[Object], pool: str) -> Config:
    """Return the machine-config server's config for a node of a pool during the bootstrap (§3.2)."""
    current = next(
        o for o in objects if o["kind"] == "MachineConfig" and o["metadata"]["name"].startswith(f"rendered-{pool}-")
    )
    return machineconfig.served(
        pool,
        current,
        cluster.kubeconfig("kubelet", "kubelet-client", f"api-int.{cluster.config.domain}"),
        tls.bundle(cluster.pairs, ["kube-apiserver-to-kubelet-signer"]),
        os_id=host.os_id,
    )


def say(host: Host, word: str) -> None:
    """Tell bootkube.sh that a step is done."""
    (host.assets / TURNS).mkdir(exist_ok=True)
    (host.assets / TURNS / f"said-{word}").touch()


def expect(host: Host, word: str) -> None:
    """Wait for a marker of bootkube.sh, which writes it when containers have stopped. Raises WaitError."""
    deadline = time.monotonic() + TURN_SECONDS
    while not (host.assets / TURNS / f"told-{word}").exists():
        if time.monotonic() > deadline:
            raise WaitError(f"the word {word!r} of bootkube.sh", TURN_SECONDS, "nothing")
        time.sleep(1.0)


def fill_api(host: Host, objects: list[Object]) -> Kube:
    """Wait for the temporary API, announce it, and create everything in it (§2.3)."""
    kube = Kube.from_kubeconfig(host.assets / "auth" / "kubeconfig-loopback")
    apply.wait_ready(kube, API_SECONDS)
    say(host, "serving")
    log.info("The temporary API is ready; creating %d manifests", len(objects))
    apply.create_all(kube, [event("bootstrap-success"), *objects], ASSETS_SECONDS)
    kube.create(event("bootstrap-finished"))
    return kube


def run_in_place(cluster: Cluster, host: Host, machines: list[Object], objects: list[Object]) -> None:
    """One node: the temporary API's content is written to its disk."""
    fill_api(host, [*objects, *scaling.bootstrap_objects(cluster, host.node_ip)])
    say(host, "applied")
    expect(host, "stopped")
    text = json.dumps(master_ignition(cluster, host, machines))
    temporary = host.assets / ".master.ign.new"
    write_private(temporary, text)
    temporary.rename(host.assets / "master.ign")
    log.info("Wrote master.ign, %d bytes", len(text))
    say(host, "written")


def run_for_others(cluster: Cluster, host: Host, machines: list[Object], objects: list[Object]) -> None:
    """Several nodes: serve the control plane nodes until enough of them run it, then hand over."""
    kube = fill_api(host, [*objects, *scaling.bootstrap_objects(cluster, host.node_ip)])
    say(host, "applied")
    scaling.wait_for_control_plane(kube, JOIN_SECONDS, servers=cluster.config.first_api_servers)
    say(host, "joined")
    expect(host, "operators-stopped")
    # Release the stopped programs' leases, so that their successors need not wait for them to expire.
    for namespace, name in (
        ("openshift-cluster-version", "version"),
        ("kube-system", "kube-controller-manager"),
        ("kube-system", "kube-scheduler"),
    ):
        kube.delete(lease.API, "Lease", name, namespace)
    if cluster.config.etcd_members < 3:
        files = host.kubernetes / "static-pod-resources" / "cluster-version-operator"
        cert = (str(files / "etcd-client.crt"), str(files / "etcd-client.key"))
        scaling.leave(Etcd(["https://localhost:2379"], str(files / "etcd-ca.crt"), cert))
    say(host, "released")


def run(host: Host, root: Path = Path("/")) -> None:
    """Run the whole bootstrap, in step with bootkube.sh. Raises ClusterError."""
    cluster = load(host.assets, root)
    from_user = user_objects(cluster, host.assets)
    machines = machine_configs(cluster, from_user)
    objects = [*bootstrap_objects(root, cluster.release_image), *from_user, *machines]
    render(cluster, host, machines)
    say(host, "rendered")
    way = run_in_place if cluster.config.in_place else run_for_others
    way(cluster, host, machines, objects)


def main() -> int:
    """Entry point inside the container; the host comes from NODE_IPS (the first: its own), NODE_NAME and OS_ID."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    addresses = tuple(os.environ["NODE_IPS"].split(","))
    try:
        run(
            Host(
                assets=Path("/opt/openshift"),
                kubernetes=Path("/etc/kubernetes"),
                etcd_data=Path(staticpods.ETCD_DATA),
                addresses=addresses,
                node_name=os.environ["NODE_NAME"],
                os_id=os.environ.get("OS_ID", "debian"),
                interface=os.environ.get("NODE_INTERFACE", ""),
            )
        )
    except ClusterError as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
