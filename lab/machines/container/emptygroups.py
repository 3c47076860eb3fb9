"""Tells a machine's systemd which of its control groups have run empty.

With cgroup v1 systemd learns it from the hierarchy's release agent, of which a host has one; a machine's systemd would
wait for ever for users' managers and scopes to end. So the warden looks, and sends what the agent
(systemd-cgroups-agent) would: the group's path, in a datagram. systemd looks for itself before it believes it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from lab.machines.container.kernel import syscalls, treewalk

# systemd's socket, in the machine's root file system; PID 1 passes messages on to users' managers.
SOCKET = "run/systemd/cgroups-agent"
_PATH_BYTES = 4096
# Deeper than any that a systemd makes.
_DEEPEST = 128


def populated(top: Path) -> dict[str, bool]:
    """Whether there is a process in a group or below it, by systemd's names of the groups below `top`: those that one
    can name, which end at a path's length."""
    by_group: dict[str, bool] = {}
    # By depth: whether a group of that depth, of those below the next one to be visited, has a process.
    below: dict[int, bool] = {}

    def look(folder: int, names: list[str]) -> None:
        depth = len(names)
        full = below.pop(depth + 1, False)
        try:
            with treewalk.file_in(folder, "cgroup.procs", os.O_RDONLY) as file:
                full = bool(os.read(file, 1)) or full
        except OSError:
            # The group has just been removed.
            return
        below[depth] = below.get(depth, False) or full
        if depth < _DEEPEST and len(path := f"/{'/'.join(names)}") < _PATH_BYTES:
            by_group[path] = full

    treewalk.visit(top, after=look)
    return by_group


class Watch:
    """The groups below `top`, the machine's own group in systemd's hierarchy."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._populated: dict[str, bool] = {}

    def look(self) -> list[str]:
        """The groups that are empty and were not, or were not there, when this was called last."""
        now = populated(self._top)
        emptied = [path for path, full in now.items() if not full and self._populated.get(path, True)]
        self._populated = now
        return emptied

    def tell(self, root: Path) -> None:
        """Look, and tell the systemd that runs in `root`."""
        emptied = self.look()
        if not emptied:
            return
        # What cannot be sent now is sent the next time: systemd's queue is short.
        self._populated.update(dict.fromkeys(emptied, True))
        # systemd does not run yet, or has ended.
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, top)
            # The machine's links lead to the machine's files, wherever they point.
            agent = syscalls.open_in_root(top, SOCKET, os.O_PATH)
            held.callback(os.close, agent)
            line = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            line.setblocking(False)
            for path in emptied:
                line.sendto(os.fsencode(path), f"/proc/self/fd/{agent}")
                self._populated[path] = False
