"""Limits of the host's kernel that all machines of all labs share."""

from __future__ import annotations

import logging
from pathlib import Path

# Inotify instances of all that one user of the host owns, its user namespaces included (user_namespaces(7)): so of all
# container machines together. systemd, udev, containerd and kubelet have about ten in each, the kernel's default is
# 128, and where none is left containerd runs on without CRI and its kubelet never starts. An instance without watches
# takes less than a KiB.
INOTIFY_INSTANCES = 8192
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")

log = logging.getLogger(__name__)


def raise_inotify(path: Path = _INSTANCES) -> None:
    """
    Let this host's users have `INOTIFY_INSTANCES` instances of inotify; a higher limit stays as it is.

    It is the host's and outlasts the lab. Where it cannot be set (/proc/sys is read-only in many containers) a warning
    names the limit and the command.
    """
    current = int(path.read_text())
    if current >= INOTIFY_INSTANCES:
        return
    try:
        path.write_text(f"{INOTIFY_INSTANCES}\n")
    except OSError as error:
        log.warning(
            "fs.inotify.max_user_instances is %d and cannot be raised here (%s), which is enough for about %d container"
            " machines: sysctl -w fs.inotify.max_user_instances=%d",
            current,
            error.strerror,
            current // 10,
            INOTIFY_INSTANCES,
        )
        return
    log.debug("fs.inotify.max_user_instances raised from %d to %d", current, INOTIFY_INSTANCES)
