"""The ingress controller's program: ingress-controller --run DIRECTORY."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ingress import endpoints, ingresses, routes
from lab.release.cluster.ingress.claims import Domain
from lab.release.cluster.ingress.controller import Controller, State
from lab.release.cluster.ingress.haproxy import Haproxy
from lab.release.cluster.ingress.health import Health, serve
from lab.release.cluster.kube.client import Kube, Objects
from lab.release.cluster.kube.resources import CONFIG

log = logging.getLogger(__name__)

#: The kinds that it follows: field of State, API, kind, and the field selector.
WATCHED = (
    ("routes", routes.API, "Route", ""),
    ("ingresses", ingresses.API, "Ingress", ""),
    ("services", "v1", "Service", ""),
    ("slices", endpoints.API, "EndpointSlice", ""),
    ("secrets", "v1", "Secret", "type=kubernetes.io/tls"),
)
#: Between two rounds at least, for changes come in swarms; and at most, for what a round could not do is tried again.
THROTTLE_SECONDS = 2.0
ROUND_SECONDS = 30.0
RETRY_SECONDS = 2.0


class Watched:
    """The objects of all kinds, as the API had them last."""

    def __init__(self, kube: Kube, stop: threading.Event) -> None:
        self._seen: dict[str, Objects] = {}
        self.changed = threading.Event()
        for name, api_version, kind, fields in WATCHED:
            versions = kube.watch(api_version, kind, stop, fields=fields)
            threading.Thread(target=self._follow, args=(name, versions), name=kind, daemon=True).start()

    def _follow(self, name: str, versions: Iterable[Objects]) -> None:
        for objects in versions:
            self._seen[name] = objects
            self.changed.set()

    @property
    def missing(self) -> list[str]:
        """Kinds that have not been read yet."""
        return [kind for name, _, kind, _ in WATCHED if name not in self._seen]

    def state(self) -> State:
        """Return the state as it is now."""
        return State(**{name: self._seen[name] for name, _, _, _ in WATCHED})


def read_domain(kube: Kube, stop: threading.Event) -> Domain | None:
    """Return the cluster's ingress domain and addresses as soon as the API tells them; None when stopped before."""
    while not stop.is_set():
        try:
            ingress = kube.get(CONFIG, "Ingress", "cluster")
            infrastructure = kube.get(CONFIG, "Infrastructure", "cluster")
            if ingress is not None and infrastructure is not None:
                platform = infrastructure["status"]["platformStatus"].get("baremetal") or {}
                return Domain(str(ingress["spec"]["domain"]), tuple(platform.get("ingressIPs") or ()))
            seen = "Ingress or Infrastructure `cluster` is not there"
        except ClusterError as error:
            seen = str(error)
        log.info("Waiting for the cluster's configuration: %s", seen)
        stop.wait(RETRY_SECONDS)
    return None


def run(kube: Kube, controller: Controller, health: Health, stop: threading.Event) -> None:
    """Make a round after each change until ``stop``; while the API is away, haproxy goes on as it is."""
    watched = Watched(kube, stop)

    def end() -> None:
        stop.wait()
        watched.changed.set()

    # At once: haproxy learns by it that the pod is ending, and only so long as it serves on can the address leave.
    threading.Thread(target=end, name="end", daemon=True).start()
    while not stop.is_set():
        watched.changed.wait(RETRY_SECONDS if controller.problem else ROUND_SECONDS)
        watched.changed.clear()
        if stop.is_set():
            return
        began = time.monotonic()
        if watched.missing:
            health.say(f"not read yet: {', '.join(watched.missing)}")
            continue
        try:
            controller.step(watched.state())
        except ClusterError as error:
            log.warning("%s", error)
        except (KeyError, TypeError, ValueError, AttributeError, OSError):
            # A malformed object that gets past the API's own checks must not end the loop that serves all others.
            log.exception("This round failed")
        health.say(controller.problem)
        stop.wait(max(THROTTLE_SECONDS - (time.monotonic() - began), 0.0))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="ingress-controller")
    parser.add_argument("--run", type=Path, required=True, help="the directory that it shares with haproxy")
    parser.add_argument("--service-ca", type=Path, help="the CA for servers of re-encrypted routes that name none")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        kube, health = Kube.in_cluster(), Health()
        serve(health, arguments.run / "controller.sock")
        domain = read_domain(kube, stop)
        if domain is not None:
            controller = Controller(kube, Haproxy(arguments.run), domain, arguments.service_ca)
            run(kube, controller, health, stop)
    except (ClusterError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
