"""The programs that a real openshift-install starts on its machine: `oc` and `nmstatectl`, which Debian has not.

`oc` is the lab's own (`lab.seam.oc`), `nmstatectl` runs node0.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# The directory above `lab`: the programs run from this checkout whatever directory they are started in.
_CHECKOUT = Path(__file__).parents[2]


def write_programs(folder: Path, node0: Sequence[str]) -> None:
    """Write `oc` and `nmstatectl` into a folder; the second runs our installer, whose command line `node0` is."""
    folder.mkdir(parents=True, exist_ok=True)
    python = f"PYTHONPATH={shlex.quote(str(_CHECKOUT))} exec {shlex.quote(sys.executable)}"
    programs = {
        "oc": f'{python} -m lab.seam.oc "$@"',
        # nmstatectl gc FILE
        "nmstatectl": f'exec {shlex.join(node0)} nmstate --log-level error "$@"',
    }
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)


def environment(folder: Path, caches: Path) -> Mapping[str, str]:
    """Return variables with which openshift-install finds them and leaves the user's cache alone."""
    return {"PATH": f"{folder}:{os.environ.get('PATH', os.defpath)}", "XDG_CACHE_HOME": str(caches)}
