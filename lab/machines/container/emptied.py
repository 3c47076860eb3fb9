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

from lab.machines.container.kernel import syscalls

# In its root file system; of PID 1, which passes it on to users' managers.
SOCKET = "run/systemd/cgroups-agent"


def populated(top: Path) -> dict[str, bool]:
    """Whether there is a process in a group or below it, by systemd's names of the groups below `top`."""
    found: dict[str, bool] = {}
    for folder, below, _ in os.walk(top, topdown=False):
        path = folder[len(str(top)) :] or "/"
        try:
            own = bool(Path(folder, "cgroup.procs").read_bytes())
        except OSError:
            # Just removed.
            continue
        found[path] = own or any(found.get(f"{path.rstrip('/')}/{name}", False) for name in below)
    return found


class Watch:
    """The groups below `top`, the machine's own group in systemd's hierarchy."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: dict[str, bool] = {}

    def look(self) -> list[str]:
        """The groups that are empty and were not, or were not there, when this was called last."""
        now = populated(self._top)
        emptied = [path for path, full in now.items() if not full and self._known.get(path, True)]
        self._known = now
        return emptied

    def tell(self, root: Path) -> None:
        """Look, and tell the systemd that runs in `root`."""
        emptied = self.look()
        if not emptied:
            return
        # No systemd yet, or no more.
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
