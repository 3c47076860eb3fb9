"""A sandbox for a run of tests: it sees the machine's files read-only, some of them replaced, and no disks.

Mutated code runs as root, with commands that write disks and reboot among what it does. Its mounts, processes and
network are therefore a namespace's, ``/dev`` has no disks, ``/tmp``, ``/run`` and ``/var/tmp`` are its own, and when
its first process ends the kernel ends all that it has started.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.mutation.errors import Timeout

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_SET_PDEATHSIG = 1
OWN = ("/tmp", "/run", "/var/tmp")
NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
#: Exit codes that no run of tests has: the action raised an exception; there was no sandbox.
BROKEN, NO_SANDBOX = 70, 71
MEMORY = 6 * 1024**3
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel end this process when the one that forked it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _check(result: int, what: str) -> None:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def _mount(source: str, target: str, kind: str, flags: int = 0, *, data: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(done, f"mount {target}")


def _read_only(path: str) -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, len(attributes))
    _check(done, f"mount_setattr {path}")


def _devices() -> None:
    devices = Path("/tmp/.dev")
    devices.mkdir()
    _mount("tmpfs", str(devices), "tmpfs", 0, data="mode=755")
    for name, numbers in NODES.items():
        os.mknod(devices / name, stat.S_IFCHR, os.makedev(*numbers))
        (devices / name).chmod(0o666)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (devices / name).symlink_to(f"/proc/self/fd{target}")
    for name in ("pts", "shm", "net"):
        (devices / name).mkdir()
    os.mknod(devices / "net/tun", stat.S_IFCHR | 0o666, os.makedev(10, 200))
    (devices / "shm").chmod(0o1777)
    _mount("devpts", str(devices / "pts"), "devpts", 0, data="newinstance,ptmxmode=0666")
    (devices / "ptmx").symlink_to("pts/ptmx")
    _mount(str(devices), "/dev", "none", MS_BIND | MS_REC)


def _loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = bytearray(struct.pack("16sH14x", b"lo", 0))
        fcntl.ioctl(control, 0x8913, request)  # SIOCGIFFLAGS
        flags = struct.unpack_from("H", request, 16)[0]
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP


def _arrange(covers: Mapping[Path, Path], writable: Mapping[str, Path], keep: list[Path]) -> None:
    """``covers``: what is seen at a path instead; ``writable``: folders put below /tmp; ``keep``: seen even in /tmp."""
    handles = {path: os.open(path, os.O_PATH) for path in {*keep, *covers.values(), *writable.values()}}
    _mount("none", "/", "none", MS_REC | MS_PRIVATE)
    _read_only("/")
    for place in OWN:
        _mount("tmpfs", place, "tmpfs", 0, data="mode=1777,size=4g")
    for path in keep:
        if any(path.is_relative_to(place) for place in OWN):
            path.mkdir(parents=True)
            _mount(f"/proc/self/fd/{handles[path]}", str(path), "none", MS_BIND | MS_REC)
    for place_below, path in writable.items():
        below = Path("/tmp", place_below)
        below.mkdir()
        _mount(f"/proc/self/fd/{handles[path]}", str(below), "none", MS_BIND)
    for target, path in covers.items():
        _mount(f"/proc/self/fd/{handles[path]}", str(target), "none", MS_BIND)
    for handle in handles.values():
        os.close(handle)
    _devices()
    _mount("proc", "/proc", "proc")
    _loopback()


def _first(action: Callable[[], int], seconds: float) -> int:
    """Run ``action`` in a child, as the namespace's first process: reap orphans until it has ended."""
    child = os.fork()
    if child == 0:
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os._exit(_quietly(action))
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def _quietly(action: Callable[[], int]) -> int:
    try:
        return action()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return BROKEN
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run(
    action: Callable[[], int],
    output: Path,
    seconds: float,
    covers: Mapping[Path, Path] | None = None,
    *,
    writable: Mapping[str, Path] | None = None,
    keep: list[Path] | None = None,
) -> int:
    """Exit code of ``action`` (negative: the signal) in a sandbox; what it prints goes to ``output``.

    Raises Timeout after ``seconds`` of the clock or of the CPU, OSError when the sandbox cannot be made.
    """
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    reader, writer = os.pipe()
    outer = os.fork()
    if outer == 0:
        os.close(reader)
        try:
            os.setsid()
            die_with_parent()
            _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET), "unshare")
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            inner = os.fork()
            if inner == 0:
                die_with_parent()
                os.close(writer)
                try:
                    _arrange(covers or {}, writable or {}, keep or [])
                except OSError:
                    traceback.print_exc()
                    os._exit(NO_SANDBOX)
                code = _first(action, seconds)
                os._exit(code if code >= 0 else 128 - code)
            _, status = os.waitpid(inner, 0)
            code = os.waitstatus_to_exitcode(status)
            os.write(writer, struct.pack("i", code))
        finally:
            os._exit(0)
    os.close(writer)
    os.close(handle)
    try:
        end = time.monotonic() + seconds
        while not select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            if time.monotonic() >= end:
                raise Timeout
        answer = os.read(reader, 4)
    finally:
        os.close(reader)
        os.kill(outer, signal.SIGKILL)
        os.waitpid(outer, 0)
    code = struct.unpack("i", answer)[0] if answer else NO_SANDBOX
    if code == NO_SANDBOX:
        raise OSError(f"no sandbox: {output.read_text(errors='replace')[-1000:]}")
    if code in (128 + signal.SIGXCPU, 128 + signal.SIGKILL):
        raise Timeout
    return code if code < 128 else 128 - code
