"""Limits of the host's kernel that all machines of all labs share."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

_SYSCTL = Path("/proc/sys")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limit:
    """A sysctl, by its file below /proc/sys, the least that it shall be, and what a lower one means."""

    file: str
    least: int
    else_: str

    @property
    def name(self) -> str:
        """Its name as sysctl(8) writes it."""
        return self.file.replace("/", ".")


# systemd, udev, containerd and kubelet have about ten instances of inotify in a machine, the kernel's default is 128
# for each user of the host, which a machine is one of (lab.machines.container.holder), and where none is left
# containerd runs on without CRI and its kubelet never starts. An instance without watches takes less than a KiB. A
# machine's open files and terminals are limited only by their memory, which the kernel counts (systemd lifts the limit
# of open files too: NEWS, 240); four machines may have all processes that a kernel numbers by default
# (lab.machines.container.kernel.cgroups). By default there may be as many threads as have stacks in an eighth of the
# memory (65536 with 8 GiB), and the kernel itself starts one a processor for each `threaded` tunnel of a machine. The
# host's limits are set as high as they go, so that no machine uses up what
# the others need. The table of neighbours (ARP, NDP) is one for all network namespaces, and where it is full nobody
# reaches anybody new. An entry unused for five seconds may be removed (Linux, neigh_forced_gc), so the table has to be
# larger than what a machine adds within five; an entry takes half a KiB.
LIMITS = (
    Limit("fs/inotify/max_user_instances", 8192, "containerd and kubelet of a machine may find none left"),
    Limit("fs/file-max", (1 << 63) - 1, "one machine can open so much that no other one can open anything"),
    Limit("kernel/pid_max", 1 << 22, "four machines can take all processes of the host"),
    Limit("kernel/threads-max", 1 << 22, "a few machines can take all threads of the host"),
    Limit("kernel/pty/max", 1 << 20, "one machine can take all terminals of the others"),
    Limit("net/ipv4/neigh/default/gc_thresh3", 1 << 20, "one machine can take all neighbours of the others"),
    Limit("net/ipv6/neigh/default/gc_thresh3", 1 << 20, "one machine can take all neighbours of the others"),
)


def raise_limits(sysctl: Path = _SYSCTL) -> None:
    """Raise what machines need of this host's kernel; a higher limit stays as it is.

    They are the host's and outlast the lab. For one that cannot be set (/proc/sys is read-only in many containers) a
    warning names the limit and the command.
    """
    for limit in LIMITS:
        file = sysctl / limit.file
        if not file.exists():
            # The kernel has no IPv6, or this is not the first network namespace, which alone has these limits.
            continue
        current = int(file.read_text())
        if current >= limit.least:
            continue
        try:
            file.write_text(f"{limit.least}\n")
        except OSError as error:
            log.warning(
                "%s is %d and cannot be raised here (%s): %s; sysctl -w %s=%d",
                limit.name,
                current,
                error.strerror,
                limit.else_,
                limit.name,
                limit.least,
            )
            continue
        log.debug("%s raised from %d to %d", limit.name, current, limit.least)
