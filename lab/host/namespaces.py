"""Linux namespaces from Python 3.11: four system calls that `os` lacks, and what labs build on them."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# <linux/sched.h>
CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
CLONE_NEWPID = 0x20000000
# <sys/mount.h>
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
# <sys/prctl.h>
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """unshare(2). A new PID namespace takes effect for the next child."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """setns(2): this thread joins the namespace behind `fd`."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, fstype: str | None = None, flags: int = 0) -> None:
    """mount(2) without data."""
    kind = fstype.encode() if fstype else None
    _check(
        _libc.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), None),
        f"mount {source} on {target}",
    )


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    """Have the kernel send `sig` to this process when its parent ends, however it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(sig), 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def enter_argv(pid: int, argv: list[str], cwd: str = "/") -> list[str]:
    """`argv` run in the network, mount and PID namespaces of `pid`, in directory `cwd`.

    The PID namespace is included so that what is started this way ends with the lab's first process, and cannot keep
    the other two namespaces alive.
    """
    return ["nsenter", "--target", str(pid), "--net", "--mount", "--pid", f"--wdns={cwd}", "--", *argv]


class NamespaceThreads:
    """Threads of this process that live in another process's network and mount namespaces.

    `call` runs a callable in one of them. A thread must stop sharing its root and working directory with the others
    (`CLONE_FS`) before it may join a mount namespace, and there is no way back, so these threads do nothing else.
    """

    def __init__(self, pid: int, workers: int = 16) -> None:
        self._namespaces = (Path(f"/proc/{pid}/ns/net"), Path(f"/proc/{pid}/ns/mnt"))
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"lab-{pid}", initializer=self._join)

    def _join(self) -> None:
        cwd = os.getcwd()
        unshare(CLONE_FS)
        for path, kind in zip(self._namespaces, (CLONE_NEWNET, CLONE_NEWNS), strict=True):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                setns(fd, kind)
            finally:
                os.close(fd)
        os.chdir(cwd)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return or raise the outcome of `function(*args, **kwargs)`, run inside the namespaces."""
        return self._pool.submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End the threads: an idle one would keep the namespaces alive."""
        self._pool.shutdown(wait=True, cancel_futures=True)
