"""An administrator's work on an upgrade, and the view of users of the API and of a Route meanwhile."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from lab import updates
from lab.deploy import console_url
from lab.release.build import Release, build_release
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

PERIOD_SECONDS = 0.5
#: As long as `kubectl` users wait for an answer before they call it none.
REQUEST_SECONDS = 5.0
#: Within which a wish must be told of (its condition or message), and the cluster be upgraded.
ACKNOWLEDGED_SECONDS = 120
UPGRADED_SECONDS = 900


def next_release(variant: str) -> Release:
    """Build a release to upgrade to; its layers but a few are those of the lab release."""
    return build_release(variant=variant)


def cluster_version(installation: Installation) -> Any:
    """Return ClusterVersion `version`."""
    return installation.kubectl_json("get", "clusterversion", "version")


def condition(installation: Installation, kind: str) -> dict[str, str]:
    """Return a condition of ClusterVersion; empty when it is not there."""
    conditions = cluster_version(installation)["status"]["conditions"]
    return next((found for found in conditions if found["type"] == kind), {})


def patch(installation: Installation, **spec: Any) -> None:
    """Change fields of ClusterVersion's spec; None removes one."""
    installation.kubectl("patch", "clusterversion", "version", "--type=merge", "-p", json.dumps({"spec": spec}))


def sign(installation: Installation, *pullspecs: str) -> None:
    """Give the cluster the signatures of releases."""
    file = installation.lab.layout.root / "signatures.yaml"
    file.write_text(updates.signatures(pullspecs))
    installation.kubectl("apply", "-f", str(file))


def reached(installation: Installation, version: str) -> bool:
    """Return whether the newest entry of the history is that version, completed, and nothing is under way."""
    from subprocess import TimeoutExpired

    try:
        status = cluster_version(installation)["status"]
    except (AssertionError, TimeoutExpired):  # the API of one node is away while it is replaced
        return False
    entry, states = status["history"][0], {c["type"]: c["status"] for c in status["conditions"]}
    done = (entry["version"], entry["state"]) == (version, "Completed")
    return done and states["Progressing"] == "False" and states["Failing"] == "False"


def wait_for(installation: Installation, version: str, seconds: float = UPGRADED_SECONDS) -> None:
    """Wait until the cluster is at a version."""

    def seen() -> str:
        try:
            return condition(installation, "Progressing").get("message", "")
        except AssertionError as error:
            return str(error)[-300:]

    wait_until(lambda: reached(installation, version), seconds, f"the cluster to be at {version}", seen)


@dataclass
class Probe:
    """The account of one kind of request: how many, those that failed with seconds since the beginning, and the most
    in a row."""

    count: int = 0
    failed: list[str] = field(default_factory=list)
    row: int = 0
    longest_row: int = 0

    def note(self, seconds: float, error: str) -> None:
        """Count a request; ``error`` is empty for a good one."""
        self.count += 1
        self.row = self.row + 1 if error else 0
        self.longest_row = max(self.longest_row, self.row)
        if error:
            self.failed.append(f"{seconds:.1f} s: {error}")


class Watch:
    """Threads that ask the API, by a new connection each time and by one that is kept, and the console's Route."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._context = ssl.create_default_context(cadata=installation.ca_bundle)
        self._api = f"https://api.{installation.topology.cluster_domain}:6443/readyz"
        self._route = f"{console_url(installation.topology)}/health"
        self._stop = threading.Event()
        self.probes = {name: Probe() for name in ("API, new connections", "API, one connection", "Route")}

    def _ask(self, connection: http.client.HTTPSConnection, path: str) -> str:
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return f"{type(error).__name__}: {error}"
        return "" if answer.status == 200 else str(answer.status)

    def _repeat(self, name: str, url: str, *, keep: bool) -> None:
        parts, begin = urlsplit(url), time.monotonic()

        def connect() -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection(
                parts.hostname or "", parts.port or 443, timeout=REQUEST_SECONDS, context=self._context
            )

        connection = connect()
        while not self._stop.is_set():
            began = time.monotonic()
            if not keep:
                connection.close()
                connection = connect()
            self.probes[name].note(began - begin, self._ask(connection, parts.path))
            self._stop.wait(max(PERIOD_SECONDS - (time.monotonic() - began), 0))
        connection.close()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Ask for the length of the block."""
        names = list(self.probes)
        wanted: list[tuple[str, str, bool]] = [
            (names[0], self._api, False),
            (names[1], self._api, True),
            (names[2], self._route, False),
        ]
        threads = [
            threading.Thread(
                target=self._installation.lab.inside, args=(partial(self._repeat, name, url, keep=keep),), daemon=True
            )
            for name, url, keep in wanted
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(4 * REQUEST_SECONDS)

    def report(self) -> str:
        """Return a line for each kind of request."""
        return "\n".join(
            f"{name}: {probe.count} requests, {len(probe.failed)} failed, {probe.longest_row} in a row"
            for name, probe in self.probes.items()
        )
