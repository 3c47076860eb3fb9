"""The cluster-version-operator of the lab release (reference/cluster.md §1.1, §5).

cluster-version-operator image <tag>      prints a component's pullspec, without a newline
cluster-version-operator render ...       writes the payload's manifests for a bootstrap
cluster-version-operator start ...        applies the payload and reports on the cluster
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import yaml

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube import payload
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.kube.resources import CONFIG, read_config
from lab.release.cluster.machineconfigs.controller import Controller
from lab.release.cluster.network.podnetworks import PodNetworks
from lab.release.cluster.nodes import policies
from lab.release.cluster.nodes.certificates import Rotation
from lab.release.cluster.nodes.revisions import Wanted
from lab.release.cluster.pki import syncer as certificate_files
from lab.release.cluster.version_operator.operators import Operators, control_plane
from lab.release.cluster.version_operator.sync import Syncer
from lab.release.cluster.version_operator.upgrade import Upgrader

log = logging.getLogger(__name__)

#: Seconds that the operators' loop may take to end its round.
END_SECONDS = 5.0
#: Between two looks for what the installer puts into the cluster.
LOOK_SECONDS = 1.0


def render(output: Path, release_image: str, root: Path) -> None:
    """Write what a bootstrap needs into ``output``/manifests, and /bootstrap as it is. Raises PayloadError."""
    (output / "manifests").mkdir(parents=True, exist_ok=True)
    (output / "bootstrap").mkdir(parents=True, exist_ok=True)
    files: dict[str, list[object]] = {}
    for manifest in payload.load_manifests(root, release_image):
        if manifest.annotated(payload.BOOTSTRAP):
            files.setdefault(manifest.source, []).append(manifest.object)
    for name, objects in files.items():
        (output / "manifests" / name).write_text(yaml.safe_dump_all(objects, sort_keys=False))
    images = payload.load_images(root)
    for path in sorted((root / "bootstrap").glob("*")):
        (output / "bootstrap" / path.name).write_text(payload.fill(path.read_text(), images, release_image))


def read_values(kube: Kube, stop: threading.Event) -> dict[str, str] | None:
    """Return the values of {{.Cluster.<name>}} as soon as the cluster has its configuration; None when told to stop."""
    last = ""
    while not stop.is_set():
        try:
            config, ingress = read_config(kube), kube.get(CONFIG, "Ingress", "cluster")
            if config is not None and ingress is not None:
                return payload.cluster_values(config, str(ingress["spec"]["domain"]))
            seen = "it is not there"
        except ClusterError as error:
            seen = str(error)
        if seen != last:
            log.info("Waiting for the cluster's configuration: %s", seen)
        last = seen
        stop.wait(LOOK_SECONDS)
    return None


def start(kube: Kube, files: Path, release_image: str, root: Path, *, stop: threading.Event) -> None:
    """Run until ``stop``: the operators in a thread, the payload in this one. Raises PayloadError, LeaseLost."""
    images = payload.load_images(root)
    values = read_values(kube, stop)
    if values is None:
        return
    config = read_config(kube)
    if config is None:
        return
    manifests = payload.load_manifests(root, release_image, values)
    images = payload.Images(images.version, {**images.tags, "cluster-version-operator": release_image})
    version = images.version
    log.info("Release %s, %d manifests", version, len(manifests))
    # On each node, whoever leads: where all certificates have run out, nobody can.
    follow = (kube, socket.gethostname(), files.parent, stop)
    threading.Thread(target=certificate_files.run, args=follow, name="certificate files", daemon=True).start()
    upgrader = Upgrader(kube, manifests, Wanted(config, images, release_image), values)
    syncer = Syncer(kube, manifests, version, release_image, upgrader=upgrader)
    operators = Operators(kube, files, images, release_image, rollout=syncer.rollout)
    if not syncer.lead(stop):
        return
    machine_configs = Controller(kube, lambda: control_plane(kube, files), socket.gethostname())
    # A daemon: when the lease is lost, this process ends at once, and its kubelet starts one that waits for the lease.
    threads = [
        threading.Thread(target=operators.run, args=(stop,), name="operators", daemon=True),
        threading.Thread(target=syncer.follow, args=(stop,), name="cluster version", daemon=True),
        threading.Thread(target=PodNetworks(kube).run, args=(stop,), name="pod networks", daemon=True),
        threading.Thread(target=Rotation(kube, release_image, images).run, args=(stop,), name="rotation", daemon=True),
        threading.Thread(target=machine_configs.run, args=(stop,), name="machine configs", daemon=True),
        threading.Thread(target=policies.follow, args=(kube, stop), name="network policies", daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        syncer.run(stop)
    finally:
        stop.set()
        threads[0].join(END_SECONDS)  # the others may be waiting for an event


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 1 with one line on stderr when the payload or an argument is wrong."""
    parser = argparse.ArgumentParser(prog="cluster-version-operator")
    parser.add_argument("--payload", type=Path, default=Path("/"), help="where the payload's directories are")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("image").add_argument("tag")
    rendering = verbs.add_parser("render")
    rendering.add_argument("--output-dir", type=Path, required=True)
    rendering.add_argument("--release-image", required=True)
    rendering.add_argument("--cluster-version-manifest-path", help="accepted, not needed")
    rendering.add_argument("--feature-gate-manifest-path", help="accepted, not needed")
    starting = verbs.add_parser("start")
    starting.add_argument("--release-image", required=True)
    starting.add_argument("--kubeconfig", type=Path, required=True)
    starting.add_argument("--dir", type=Path, required=True, help="CAs and client certificates for the probes")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        if arguments.verb == "image":
            sys.stdout.write(payload.load_images(arguments.payload)[arguments.tag])
        elif arguments.verb == "render":
            render(arguments.output_dir, arguments.release_image, arguments.payload)
        else:
            stop = threading.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
            kube = Kube.from_kubeconfig(arguments.kubeconfig)
            start(kube, arguments.dir, arguments.release_image, arguments.payload, stop=stop)
    except (ClusterError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
