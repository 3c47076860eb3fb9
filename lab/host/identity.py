"""Unique identity of processes: a pid alone may be reused, a pid with its start time may not."""

from __future__ import annotations

import os
from pathlib import Path


def start_time(pid: int) -> int | None:
    """Return the process' start time, in clock ticks since boot (proc(5), stat field 22); None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name may contain blanks and parentheses: count fields from its closing parenthesis.
    return int(stat.rpartition(")")[2].split()[19])


def alive(pid: int, started: int) -> bool:
    """Return whether that pid is still the process that started then, and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) == started and fields[0] not in "ZX"


def this_process() -> tuple[int, int]:
    """Return the pid and start time of this process."""
    pid = os.getpid()
    started = start_time(pid)
    if started is None:
        raise RuntimeError("/proc is not mounted")
    return pid, started


def boot_id() -> str:
    """Return the kernel's id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
