"""`create image` against `cp` of the same base ISO, and the start of the command, in one run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ci.bench.measure import pairs, seconds_of, table
from lab import topology
from lab.configs import write_configs
from lab.lab import Lab
from lab.release.build import latest_release

NODE0 = str(Path(sys.executable).with_name("node0"))
ROUNDS = 5


def run() -> None:
    """Print the figures; needs a lab release (`python -m lab.release build`)."""
    release = latest_release()
    if release.machine_os_iso is None:
        raise SystemExit("the latest lab release was built without a machine OS")
    base = release.machine_os_iso
    with tempfile.TemporaryDirectory() as work, Lab(topology.sno(), Path(work) / "artifacts", release) as lab:
        directory, copy = Path(work) / "cluster", Path(work) / "copy.iso"

        def create() -> None:
            result = lab.run(
                [NODE0, "agent", "create", "image", "--dir", str(directory)],
                timeout=300,
                env={"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": release.pullspec},
            )
            if result.returncode:
                raise SystemExit(f"create image failed: {result.stderr[-500:]}")

        def fresh() -> None:
            shutil.rmtree(directory, ignore_errors=True)
            write_configs(directory, lab.topology, lab.access)

        def cp() -> None:
            subprocess.run(["cp", "--reflink=auto", str(base), str(copy)], check=True)
            os.sync()
            copy.unlink()

        fresh()
        first = seconds_of(create)

        def again() -> None:
            create()
            os.sync()

        taken = []
        for _ in range(ROUNDS):
            fresh()
            taken.append(pairs(again, cp, 1))
        taken.sort(key=lambda row: row[2])
        ours, theirs, ratio = taken[len(taken) // 2]
        start = min(
            seconds_of(lambda: subprocess.run([NODE0, "--help"], capture_output=True, check=True)) for _ in range(5)
        )
    table(
        f"create image ({base.stat().st_size / 1e6:.0f} MB base ISO, {ROUNDS} pairs, both synced to disk)",
        [
            ("first run, ISO fetched from the registry or cached", f"{first:.2f} s"),
            ("create image, cached base (median pair)", f"{ours:.2f} s"),
            ("cp of the base ISO (same pair)", f"{theirs:.2f} s"),
            ("ratio, target under 1.3", f"{ratio:.2f}"),
            ("node0 --help, target under 0.25 s", f"{start:.3f} s"),
        ],
    )
