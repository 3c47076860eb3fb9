"""A process that reads an image or a disk: without rights, and with nothing open but what it is to read.

It is a child of the machine's monitor, forked for one question, as root of the machine's user namespace (an ordinary
user of the host), without capabilities, with an empty root directory and no network. Its system calls are those of
reading, memory and answers; its memory and its time are limited. The monitor decodes its answer by its type.
"""

from __future__ import annotations

import codecs
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from lab.errors import LabError
from lab.host.namespaces import die_with_parent, setns, unshare
from lab.machines.container.fence import seccomp
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import Fence

T = TypeVar("T")

# The largest message: 1024 partitions in JSON are smaller.
_MESSAGE_BYTES = 1 << 20
# Linux, SCM_MAX_FD: 253.
MOST_DESCRIPTORS = 250
_BROKEN = b"!"
# Modules that Python would load when they are first needed: behind the fence it cannot.
for _name in ("utf-16-be", "utf-16-le", "utf-8", "latin-1", "ascii"):
    codecs.lookup(_name)
# Python's own memory while it reads, besides what the process that it was forked from had mapped: 100 MiB in a
# monitor, several hundred in a test that has imported much.
_OWN_MIB = 256
# asm/unistd_64.h
_CALLS = (
    *(0, 1, 3, 5, 7, 8, 9, 10, 11, 12),  # read write close fstat poll lseek mmap mprotect munmap brk
    *(13, 14, 15, 17, 25, 28),  # rt_sigaction rt_sigprocmask rt_sigreturn pread64 mremap madvise
    *(44, 45, 46, 47),  # sendto recvfrom sendmsg recvmsg
    *(60, 63, 96, 202, 228, 231),  # exit uname gettimeofday futex clock_gettime exit_group
    *(262, 318, 319, 437),  # newfstatat getrandom memfd_create openat2
)
_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


class CannotRead(LabError):
    """The reader came to no answer; `str()` says why in a line."""


def ask(
    fence: Fence,
    read: Callable[[socket.socket], None],
    *,
    descriptors: Iterable[int],
    answer: Callable[[bytes, list[int], socket.socket], bool],
    memory_mib: int,
    file_mib: int,
    seconds: float,
) -> None:
    """Run `read` in a reader that has these descriptors and a line, and pass each message at its other end to `answer`,
    with the descriptors that came with it, until that returns True.

    `memory_mib` limits the memory of what it reads, `file_mib` each file in memory that it makes. Raises CannotRead,
    and the exceptions of `answer`.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        for end in (ours, theirs):
            # SO_SNDBUFFORCE, asm-generic/socket.h; halved by the kernel for its own.
            end.setsockopt(socket.SOL_SOCKET, 32, 2 * _MESSAGE_BYTES)
        pid = os.fork()
        if pid == 0:
            limits = (memory_mib + _OWN_MIB + _mapped_mib(), file_mib, seconds)
            _be_reader(fence, read, theirs, [*descriptors, theirs.fileno()], limits=limits)
        theirs.close()
        try:
            if fence.enclose is not None:
                fence.enclose(pid)
            ours.send(b"go")
            _listen(ours, answer, time.monotonic() + seconds)
        except OSError as error:
            raise CannotRead(f"its reader: {error.strerror}") from error
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _listen(line: socket.socket, answer: Callable[[bytes, list[int], socket.socket], bool], deadline: float) -> None:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while True:
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise CannotRead("time is up")
        try:
            message, descriptors, flags, _ = socket.recv_fds(line, _MESSAGE_BYTES, MOST_DESCRIPTORS)
        except ConnectionError:
            message, descriptors, flags = b"", [], 0
        if not message or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            for descriptor in descriptors:
                os.close(descriptor)
            # The reader was killed, or had no memory left to send its error.
            raise CannotRead("it says too much" if message else "no memory left")
        if message.startswith(_BROKEN):
            raise CannotRead(message[len(_BROKEN) :].decode(errors="replace"))
        if answer(message, descriptors, line):
            return


def value(fence: Fence, read: Callable[[], object], kind: type[T], *, descriptors: Iterable[int], seconds: float) -> T:
    """Return what `read` does, of type `kind`, by way of JSON. Raises CannotRead."""
    values: list[T] = []

    def answer(message: bytes, descriptors: list[int], line: socket.socket) -> bool:
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            values.append(msgspec.json.decode(message, type=kind))
        except (msgspec.DecodeError, RecursionError) as error:
            raise CannotRead(f"its reader says nonsense: {error}") from None
        return True

    def send(line: socket.socket) -> None:
        line.send(msgspec.json.encode(read()))

    ask(fence, send, descriptors=descriptors, answer=answer, memory_mib=64, file_mib=0, seconds=seconds)
    return values[0]


def _be_reader(
    fence: Fence,
    read: Callable[[socket.socket], None],
    line: socket.socket,
    kept: list[int],
    *,
    limits: tuple[int, int, float],
) -> NoReturn:
    try:
        die_with_parent()
        line.recv(2)
        _shut(fence, kept, limits)
        read(line)
    except (MemoryError, RecursionError) as error:
        line.send(_BROKEN + f"no memory left ({type(error).__name__})".encode())
    except Exception as error:
        line.send(_BROKEN + f"{type(error).__name__}: {error}".encode(errors="replace")[:400])
    finally:
        os._exit(0)


def _shut(fence: Fence, kept: list[int], limits: tuple[int, int, float]) -> None:
    """Go behind the fence, for good: no rights, no files, no network."""
    empty = os.open(fence.empty, os.O_PATH | os.O_DIRECTORY)
    _close_others([*kept, empty, fence.users])
    syscalls.hide()
    setns(fence.users, syscalls.CLONE_NEWUSER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # At a change of user the kernel forgets the parent-death signal (PR_SET_PDEATHSIG).
    die_with_parent()
    unshare(_NAMESPACES)
    os.fchdir(empty)
    os.chroot(".")
    for descriptor in (empty, fence.users):
        if descriptor not in kept:
            os.close(descriptor)
    memory_mib, file_mib, seconds = limits
    for limit, most in (
        (resource.RLIMIT_AS, memory_mib << 20),
        (resource.RLIMIT_FSIZE, file_mib << 20),
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(limit, (most, most))
    syscalls.drop_all()
    seccomp.only(_CALLS)


def _mapped_mib() -> int:
    """Sum up the memory that this process has mapped (proc(5))."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() >> 20


def _close_others(kept: Iterable[int]) -> None:
    below = -1
    for descriptor in sorted({*kept}):
        os.closerange(below + 1, descriptor)
        below = descriptor
    os.closerange(below + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
