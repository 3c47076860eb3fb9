"""Cold and warm builds of the machine OS and of Kubernetes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ci.bench.measure import seconds_of, table
from lab.host.paths import cache_dir
from lab.release.kubernetes import build_kubernetes
from lab.release.os import build_machine_os


def run(*, cold: bool) -> None:
    """Print warm figures, and with `cold` those of builds into an empty cache (about six minutes)."""
    cache = cache_dir()
    rows = [
        ("Kubernetes, warm", f"{seconds_of(lambda: build_kubernetes(cache)):.1f} s"),
        ("machine OS, warm", f"{seconds_of(lambda: build_machine_os(cache, {})):.1f} s"),
    ]
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            target = Path(empty)
            system = seconds_of(lambda: build_machine_os(target, {}))
            kube = seconds_of(lambda: build_kubernetes(target))
        rows += [("machine OS, cold, target under 90 s", f"{system:.1f} s"), ("Kubernetes, cold", f"{kube:.1f} s")]
    table("builds", rows)
