"""A hub without a lab: its three daemons on loopback, in namespaces of their own, for tests of custom resources."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lab import topology
from lab.host.identity import this_process
from lab.host.namespaces import NamespaceThreads, enter_argv
from lab.hub.controlplane import ControlPlane
from lab.layout import Layout
from lab.supervisor.plan import Plan
from lab.supervisor.spawn import Supervisor

T = TypeVar("T")


class LoopbackHub:
    """A running hub. `init` is the first process of its namespaces."""

    def __init__(self, plane: ControlPlane, init: int, threads: NamespaceThreads) -> None:
        self.kubeconfig = plane.kubeconfig
        self.init = init
        self._threads = threads

    def inside(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return the result of `function(*args, **kwargs)`, run by a thread in the hub's network."""
        return self._threads.call(function, *args, **kwargs)

    def kubectl(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator with this standard input, for a minute at most; any exit code is a
        result."""
        argv = enter_argv(self.init, ["kubectl", f"--kubeconfig={self.kubeconfig}", *words])
        return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def loopback_hub(folder: Path) -> Iterator[LoopbackHub]:
    """Run a hub with its files in `folder`, which must not exist yet and is removed with it. Raises LabStartError."""
    plane = ControlPlane(folder / "hub", "127.0.0.1")
    (folder / "log").mkdir(parents=True)
    services = plane.services()
    plan = Plan(id="hub", state=str(folder), bridges=(), mounts=(), services=services, owner=this_process())
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    alive = os.open(folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        supervisor = Supervisor(Layout(folder, topology.sno()), alive)
    finally:
        os.close(alive)
    try:
        init, _ = supervisor.up()
        threads = NamespaceThreads(init)
        try:
            yield LoopbackHub(plane, init, threads)
        finally:
            threads.close()
    finally:
        supervisor.end()
