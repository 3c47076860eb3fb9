"""What a cluster at rest costs: CPU and memory of each machine, as the lab's host and as the guest see them."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from ci.bench.measure import table
from lab.lab import Lab

TICK = os.sysconf("SC_CLK_TCK")
SHOWN = 8  # programs of a machine, those with the most CPU time
# One program that reads much is cheaper in an emulated guest than many that read little.
SNAPSHOT = "sudo sh -c 'cat /proc/[0-9]*/stat 2>/dev/null; echo; grep -H VmHWM: /proc/[0-9]*/status 2>/dev/null'; true"
STAT = re.compile(r"^(\d+) \((.*)\) \S (.*)$", re.MULTILINE)
PEAK = re.compile(r"^/proc/(\d+)/status:VmHWM:\s+(\d+) kB$", re.MULTILINE)


def read(text: str) -> tuple[dict[int, tuple[str, int]], dict[int, int]]:
    """A snapshot: name and CPU ticks by process, and the most memory that each has had, in KiB."""
    ticks = {}
    for pid, name, rest in STAT.findall(text):
        words = rest.split()
        # utime and stime: the 14th and 15th field of proc(5), of which three are before `rest`.
        ticks[int(pid)] = (name, int(words[10]) + int(words[11]))
    return ticks, {int(pid): int(kib) for pid, kib in PEAK.findall(text)}


def spent(before: dict[int, tuple[str, int]], after: dict[int, tuple[str, int]]) -> dict[str, int]:
    """Ticks between two snapshots by name; a process that has come in between counts from zero."""
    used: dict[str, int] = {}
    for pid, (name, ticks) in after.items():
        old, begun = before.get(pid, (name, 0))
        used[name] = used.get(name, 0) + ticks - (begun if old == name else 0)
    return used


def machines(root: Path) -> dict[str, Path]:
    """QEMU's /proc directory by the guest's name, of those that have their disk below a lab's root."""
    guests = {}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            words = (proc / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        name = next((w[6:].split(b",")[0] for w in words if w.startswith(b"guest=")), None)
        if name and any(str(root).encode() in w for w in words):
            guests[name.decode()] = proc
    return guests


def run(lab_id: str, seconds: int) -> None:
    """Look at the nodes of a kept lab for some seconds and print who used what."""
    lab = Lab.attach(lab_id)
    hosts = {name: node.ssh() for name, node in lab.nodes.items()}
    guests = machines(lab.layout.root)

    def host_cpu() -> dict[str, int]:
        return {name: sum(t for _, t in read((proc / "stat").read_text())[0].values()) for name, proc in guests.items()}

    first = {name: read(host.check_output(SNAPSHOT)) for name, host in hosts.items()}
    begin, cpu = time.monotonic(), host_cpu()
    time.sleep(seconds)
    window, used = time.monotonic() - begin, host_cpu()
    total = 0.0
    for name, host in hosts.items():
        ticks, peaks = read(host.check_output(SNAPSHOT))
        cores = (used[name] - cpu[name]) / TICK / window
        total += cores
        hwm = re.search(r"VmHWM:\s+(\d+) kB", (guests[name] / "status").read_text())
        rows = [("its QEMU: CPU and peak memory", f"{cores:6.3f} cores {int(hwm[1]) >> 10 if hwm else 0:6d} MiB")]
        most: dict[str, int] = {}
        for pid, (comm, _) in ticks.items():
            most[comm] = max(most.get(comm, 0), peaks.get(pid, 0))
        ranked = sorted(spent(first[name][0], ticks).items(), key=lambda item: -item[1])[:SHOWN]
        rows += [(f"  {c}", f"{t / TICK / window:6.3f} cores {most[c] >> 10:6d} MiB") for c, t in ranked]
        table(f"{name} at rest, over {window:.0f} s", rows)
    table("all machines", [("CPU", f"{total:6.3f} of {os.cpu_count()} cores")])
