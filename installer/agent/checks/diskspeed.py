"""installation-disk-speed-check without fio: the same write pattern, by this program itself.

Upstream runs fio with 2300-byte writes, each followed by fdatasync, 22 MB in all, and takes the 99th percentile: the
pattern of etcd's log. fio on a raw path would overwrite the disk. Here the disk is written to only where nothing can
be lost: an empty disk (no partition table, no filesystem signature, not mounted) in the megabyte range that the
installation overwrites anyway; a disk that holds something is written to not at all, and is measured by re-writing
the bytes that were just read from the same place, so that its content stays what it was even after a power cut.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from installer.agent.errors import StepError
from installer.assisted.steparguments import DiskSpeedRequest
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

BLOCK = 2300
# Enough samples for a 99th percentile; fio's 22 MB would be 9500 of them, minutes of a slow disk.
SAMPLES = 1000
BUDGET_SECONDS = 10.0
LEAST_SAMPLES = 20
OFFSET = 4 * 1024 * 1024


def percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile; 0 for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))] if ordered else 0.0


def measure(path: str, samples: int = SAMPLES, budget: float = BUDGET_SECONDS, *, called: str = "") -> int:
    """Worst 99th percentile of write + fdatasync in ms on a device or file, which users know as `called` (default: by
    its path). Raises StepError."""
    name = called or path
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise StepError(f"{name} cannot be opened: {error.strerror or error}") from None
    times: list[float] = []
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size < OFFSET + samples * BLOCK:
            raise StepError(f"{name} is too small to measure: {size} bytes")
        deadline = time.monotonic() + budget
        for index in range(samples):
            at = OFFSET + index * BLOCK
            data = os.pread(descriptor, BLOCK, at)
            start = time.monotonic()
            os.pwrite(descriptor, data, at)
            os.fdatasync(descriptor)
            times.append((time.monotonic() - start) * 1000)
            if time.monotonic() > deadline and len(times) >= LEAST_SAMPLES:
                break
    except OSError as error:
        raise StepError(f"{name} cannot be measured: {error}") from None
    finally:
        with suppress(OSError):
            os.close(descriptor)
    return max(1, round(percentile(times, 0.99)))


def disk_speed(host: HostSystem, request: DiskSpeedRequest, seconds: float = BUDGET_SECONDS) -> str:
    """Run the step: measure the disk that ``path`` names, in ``seconds`` at most. Refuses a device that is
    mounted."""
    path = request.path
    if not path.startswith("/dev/"):
        raise StepError(f"path {path!r} is not a device")
    device = host.path(path)
    try:
        # Links under /dev/disk are relative: they resolve within the host's own tree.
        resolved = device.resolve(strict=True)
    except OSError as error:
        raise StepError(f"{path} does not exist: {error}") from None
    try:
        mounted = host.run("lsblk", "-n", "-o", "MOUNTPOINTS", path).split()
    except CommandError as error:
        # Nothing is written to a disk of which nobody can say whether it is in use.
        raise StepError(f"{path} cannot be looked at: {error}") from None
    if mounted:
        raise StepError(f"{path} is in use, mounted on {', '.join(mounted)}")
    duration = measure(str(resolved), budget=min(seconds, BUDGET_SECONDS), called=path)
    return json.dumps({"path": path, "io_sync_duration": duration})
