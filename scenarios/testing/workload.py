"""A user's application on an installed cluster, and the one who uses it from outside without a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

import requests

from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

NAMESPACE = "workload"
HERE = Path(__file__).parent
READY_SECONDS = 180
#: Seconds between two notes, and those that one request may take.
PERIOD_SECONDS, REQUEST_SECONDS = 0.5, 5.0


def host_of(installation: Installation) -> str:
    """Return the host name of the application's Route."""
    console = urlsplit(installation.deployment.console_url).hostname or ""
    return f"notes-{NAMESPACE}.{console.partition('.')[2]}"


def ready_on(installation: Installation) -> list[str]:
    """Return the nodes of the application's replicas that are Ready."""
    pods = installation.kubectl_json("-n", NAMESPACE, "get", "pods", "-l", "app=notes")["items"]
    return sorted(
        pod["spec"]["nodeName"]
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    )


def deploy(installation: Installation) -> None:
    """Apply the application, by an image of the release that has Python; until all replicas are ready."""
    pod = next(iter(installation.pods("assisted-installer", "assisted-installer-controller").values()))
    values = {"image": pod["spec"]["containers"][0]["image"], "host": host_of(installation)}
    folder = installation.lab.layout.root
    manifests = folder / "workload.yaml"
    manifests.write_text(Template((HERE / "workload.yaml").read_text()).substitute(values))
    installation.kubectl("create", "namespace", NAMESPACE)
    installation.kubectl("-n", NAMESPACE, "create", "configmap", "notes-app", f"--from-file={HERE / 'notes.py'}")
    installation.kubectl("-n", NAMESPACE, "apply", "-f", str(manifests))
    wait_until(
        lambda: len(ready_on(installation)) == 3, READY_SECONDS, "three replicas", lambda: ready_on(installation)
    )


@dataclass
class Use:
    """The user's account: the notes that were acknowledged, by name; the requests that failed, each with seconds since
    the beginning; and the longest time without a note that was written and read back."""

    kept: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    longest: float = 0.0

    def since(self, other: Use) -> Use:
        """Return what has come since an earlier copy; `longest` is that of all."""
        return Use(dict(list(self.kept.items())[len(other.kept) :]), self.failed[len(other.failed) :], self.longest)


class User:
    """A thread that writes a note each PERIOD_SECONDS and reads it back, each time by a new connection."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._url = f"https://{host_of(installation)}"
        self._ca = installation.lab.layout.root / "workload-ca.crt"
        self._ca.write_text(installation.ca_bundle)
        self._stop = threading.Event()
        self._begin = self._last = time.monotonic()
        self.use = Use()

    def _exchange(self, name: str) -> None:
        text = f"note {name}"
        with requests.Session() as session:
            session.trust_env, session.verify = False, str(self._ca)
            answer = session.put(f"{self._url}/{name}", text, timeout=REQUEST_SECONDS)
            if answer.status_code != 201:
                raise OSError(f"PUT: {answer.status_code} {answer.text[:200]}")
            self.use.kept[name] = text
            answer = session.get(f"{self._url}/{name}", timeout=REQUEST_SECONDS)
            if (answer.status_code, answer.text) != (200, text):
                raise OSError(f"GET: {answer.status_code} {answer.text[:200]}")

    def run(self) -> None:
        """Write and read until the end."""
        number = 0
        while not self._stop.is_set():
            began = time.monotonic()
            number += 1
            try:
                self._exchange(f"n{number}")
                now = time.monotonic()
                self.use.longest = max(self.use.longest, now - self._last)
                self._last = now
            except OSError as error:
                self.use.failed.append(f"{began - self._begin:.1f} s: n{number}: {type(error).__name__}: {error}")
            self._stop.wait(max(PERIOD_SECONDS - (time.monotonic() - began), 0))

    def part(self) -> Use:
        """Return what was seen until now, and measure the longest pause anew."""
        seen = Use(dict(self.use.kept), list(self.use.failed), max(self.use.longest, time.monotonic() - self._last))
        self.use.longest = 0.0
        return seen

    @contextmanager
    def using(self) -> Iterator[None]:
        """Use the application for the length of the block."""
        thread = threading.Thread(target=self._installation.lab.inside, args=(self.run,), name="user", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(4 * REQUEST_SECONDS)


def notes(installation: Installation) -> dict[str, str]:
    """Return all notes that the cluster has, by name."""
    listed = installation.kubectl_json("-n", NAMESPACE, "get", "configmaps", "-l", "kind=note")["items"]
    return {note["metadata"]["name"]: note["data"]["text"] for note in listed}
