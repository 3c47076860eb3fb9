"""node-network: the one process of ours on each node, for the cluster's network and what else a node does itself.

NODE_NAME names the node, CLUSTER_NETWORKS all networks of pods, separated by commas.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.machineconfigs import daemon
from lab.release.cluster.metrics import server
from lab.release.cluster.network import kubeletca, zone
from lab.release.cluster.network.routes import Routes
from lab.release.cluster.storage import volumes


def serve(parts: dict[str, Callable[[threading.Event], None]], stop: threading.Event) -> list[str]:
    """Run each part in a thread until ``stop``, or until one of them ends; the names of those that did so by
    themselves."""
    ended: list[str] = []

    def run(name: str, part: Callable[[threading.Event], None]) -> None:
        try:
            part(stop)
        finally:
            if not stop.is_set():
                ended.append(name)
                stop.set()

    for name, part in parts.items():
        threading.Thread(target=run, args=(name, part), name=name, daemon=True).start()
    stop.wait()
    return ended


def main() -> int:
    """Entry point; 1 when a part has ended, upon which the kubelet starts this process again."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        kube = Kube.in_cluster()
        routes = Routes(kube, os.environ["NODE_NAME"], os.environ["CLUSTER_NETWORKS"].split(","))
    except (ClusterError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    parts: dict[str, Callable[[threading.Event], None]] = {
        "pod routes": routes.run,
        "DNS zone": partial(zone.run, kube),
        "volumes": partial(volumes.run, kube, os.environ["NODE_NAME"]),
        "metrics": partial(server.run, kube),
        "kubelet CA": partial(kubeletca.run, kube),
        "machine config": partial(daemon.run, kube, os.environ["NODE_NAME"]),
    }
    return 1 if serve(parts, stop) else 0


if __name__ == "__main__":
    sys.exit(main())
