"""A machine for these tests: power-on in plain namespaces, its firmware first, then its init as this very process.

    unshare -mpuiCn --fork --kill-child python -m lab.tests.firmware.up SPEC ROOT TERMINAL TARGET=DEVICE...

Fences only so far that a healthy system changes nothing of the host; the lab's machines have a runtime for the rest.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from lab.machines.container import firmware
from lab.machines.container.spec import MachineSpec

# linux/capability.h, linux/prctl.h
CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_SYSLOG = 16, 17, 22, 25, 34
PR_CAPBSET_DROP, MNT_DETACH = 24, 2
NODES = ("null", "zero", "full", "random", "urandom", "tty")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, timeout=30)


def main(spec_directory: str, root_path: str, terminal: str, *disks: str) -> None:
    devices = {target: Path(path) for target, _, path in (disk.partition("=") for disk in disks)}
    spec, root = MachineSpec.load(Path(spec_directory)), Path(root_path)
    with open(terminal, "wb", buffering=0) as console:
        boot = firmware.boot(spec, devices=devices, root=root, console=console, netns=Path("/proc/self/ns/net"))
    mount("-t", "proc", "proc", f"{root}/proc")
    line = Path(f"{root}/run/cmdline")
    line.write_text(" ".join(boot.arguments) + "\n")
    mount("--bind", str(line), f"{root}/proc/cmdline")
    mount("--bind", "-o", "ro", f"{root}/proc/sys", f"{root}/proc/sys")
    mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    mount("-t", "cgroup2", "cgroup2", f"{root}/sys/fs/cgroup")
    mount("-t", "tmpfs", "-o", "mode=755", "devtmpfs", f"{root}/dev")
    for name in NODES:
        Path(f"{root}/dev/{name}").touch()
        mount("--bind", f"/dev/{name}", f"{root}/dev/{name}")
    for name in ("pts", "shm"):
        Path(f"{root}/dev/{name}").mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", f"{root}/dev/pts")
    Path(f"{root}/dev/ptmx").symlink_to("pts/ptmx")
    Path(f"{root}/dev/fd").symlink_to("/proc/self/fd")
    for name, source in (("console", terminal), ("kmsg", "/dev/null")):
        Path(f"{root}/dev/{name}").touch()
        mount("--bind", source, f"{root}/dev/{name}")
    mount("-t", "tmpfs", "tmpfs", f"{root}/tmp")
    os.chdir(root)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.pivot_root(b".", b".") or libc.umount2(b".", MNT_DETACH):
        raise OSError(ctypes.get_errno(), "pivot_root")
    for capability in (CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_SYSLOG):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.execve(boot.init[0], boot.init, {**boot.environment, "container": "node0"})


if __name__ == "__main__":
    main(*sys.argv[1:])
