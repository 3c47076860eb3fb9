"""The remover of a dead lab's control groups and limits: `python -m lab.machines.container.reaper LAB < PIPE`.

It waits until the pipe has no writer any more: every process of the lab's supervisor is a writer. It is outside of the
lab's PID namespace, so that it outlives all of it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from lab.machines.container.kernel import cgroups, syscalls, throttle


def reap(lab: str) -> None:
    """Remove the groups of a lab that has ended, and the limits of its disks. Raises OSError when a process is left in
    them."""
    syscalls.own_mounts()
    with tempfile.TemporaryDirectory() as folder:
        syscalls.mount("groups", folder, "tmpfs")
        try:
            hierarchies = cgroups.mount_all(Path(folder) / "cgroups")
            for top in filter(throttle.limits, hierarchies.at.values()):
                throttle.lift(top, lab)
            cgroups.Group(hierarchies, lab).remove()
        finally:
            for place in (Path(folder) / "cgroups").iterdir():
                syscalls.umount(str(place))
            syscalls.umount(folder)


def main(argv: list[str]) -> int:
    """Run the reaper with the arguments of the module's docstring."""
    while os.read(0, 64):
        pass
    reap(argv[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
