"""A check of the discovery media, before steps and after one that failed (installer.md §6.1)."""

from __future__ import annotations

import os
import re
import time

from installer.agent.errors import MediaLost
from installer.hostsys.system import HostSystem

MEDIA = "/run/media/iso"
# The device of a mount in /proc/<pid>/mountinfo (proc(5)): after the dash come type, source and options.
MOUNT = re.compile(rf"^\d+ \d+ \S+ \S+ {re.escape(MEDIA)} .*? - \S+ (\S+) ", re.MULTILINE)


def check(host: HostSystem) -> None:
    """Read two bytes of the media's device. Raises MediaLost. A minimal ISO mounts no media: nothing to check."""
    if not host.path(MEDIA).is_dir():
        return
    mount = MOUNT.search(host.read("/proc/1/mountinfo"))
    # Where the host's processes cannot be seen from here, ask a program of the host.
    source = mount[1] if mount else host.run("findmnt", "-n", "-o", "SOURCE", MEDIA, check=False).strip()
    if not source.startswith("/dev/"):
        return
    try:
        descriptor = os.open(host.path(source), os.O_RDONLY)
        try:
            # What is in the page cache says nothing about the device.
            os.posix_fadvise(descriptor, 0, 4096, os.POSIX_FADV_DONTNEED)
            if len(os.pread(descriptor, 2, 0)) < 2:
                raise MediaLost(f"cannot read {source} of {MEDIA}: it is empty")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise MediaLost(f"cannot read {source} of {MEDIA}: {error.strerror}") from None


class Watch:
    """Checks the discovery medium at most once in ``every`` seconds: steps come in batches, each in its own thread."""

    def __init__(self, every: float = 30.0) -> None:
        self._every = every
        self._good_until = 0.0

    def check(self, host: HostSystem) -> None:
        """Raise MediaLost."""
        if time.monotonic() >= self._good_until:
            check(host)
            self._good_until = time.monotonic() + self._every
