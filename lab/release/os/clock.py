"""The speed of this machine's time stamp counter, which QEMU's emulated CPUs show to their guests.

A guest measures it when it boots, against the emulated PIT. When another guest takes the CPU between the start of the
PIT's counter and the first read of the TSC, it measures too low a rate (652 MHz instead of 2,596 was seen) and keeps
it, although it knows better from the HPET (native_calibrate_cpu in arch/x86/kernel/tsc.c). Its clock then runs four
times too fast: leases expire, probes time out, chrony cannot correct it, and the cluster never becomes stable. So the
guest gets the rate as a kernel argument (tsc_early_khz).
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from collections.abc import Callable
from pathlib import Path

from lab.release.stage.store import Store

#: rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_TSC = bytes.fromhex("0f3148c1e2204809d0c3")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SECONDS = 0.25


def measure_khz(seconds: float = SECONDS) -> int:
    """Return the counter's rate in kHz, rounded to the MHz, measured for that long; 0 where there is no counter."""
    if platform.machine() != "x86_64":
        return 0
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return 0  # memory may not be executable here; the guest measures, as elsewhere
    page.write(_READ_TSC)
    read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    began, first = _look(read)
    end = began + seconds * 1e9
    while time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) < end:
        pass
    now, last = _look(read)
    return round((last - first) / (now - began) * 1e3) * 1000


def _look(read: Callable[[], int]) -> tuple[float, int]:
    """Time (ns) and counter at one moment: of many readings, the one with the least delay in between."""
    looks = []
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        counter = read()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        looks.append((after - before, (before + after) / 2, counter))
    _, moment, counter = min(looks)
    return moment, counter


def tsc_khz(store: Store) -> int:
    """As `measure_khz`, measured once per boot of this machine, since the rate is part of the image's cache key."""
    kept = store.root / f"tsc-{_BOOT_ID.read_text().strip()}"
    with store.hold("tsc"):
        try:
            return int(kept.read_text())
        except (OSError, ValueError):
            pass  # not measured yet, or half-written by a build that was killed
        for old in store.root.glob("tsc-*"):
            old.unlink()
        rate = measure_khz()
        kept.write_text(str(rate))
    return rate


def kargs(rate: int) -> str:
    """Return the kernel argument with the rate in kHz; empty for 0."""
    return f"tsc_early_khz={rate}" if rate else ""
