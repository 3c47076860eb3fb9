"""The caller of a system call that a monitor answers (seccomp_unotify(2)): its memory, capabilities, files and mounts.

All of it is the machine's to choose, in any bytes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError
from lab.machines.container.kernel import syscalls

# linux/seccomp.h
_ID_VALID = 0x40082102
# linux/nsfs.h: the user namespace that owns a namespace.
_NS_GET_USERNS = 0xB701
_PATH_BYTES = 4096
# How runtimes of containers name their targets.
_OWN_FD = re.compile(r"/proc/(?:thread-)?self/fd/(\d+)")


class Refusal(LabError):
    """The caller gets this error number."""

    def __init__(self, code: int) -> None:
        super().__init__(os.strerror(code))
        self.code = code


class Caller:
    """The process of a call that waits at a listener. `users` is the machine's user namespace, `pid` the host's name of
    the process."""

    def __init__(self, listener: int, users: int, identity: int, pid: int) -> None:
        self._listener = listener
        self._users = users
        self.identity = identity
        self.pid = pid

    def memory(self, address: int, count: int, *, all_of_it: bool = False) -> bytes:
        """Read bytes of its memory; fewer where its memory ends. Raises Refusal."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            try:
                memory.seek(address)
                data = memory.read(count)
            except (OSError, OverflowError, ValueError):
                raise Refusal(errno.EFAULT) from None
        if not data or (all_of_it and len(data) < count):
            raise Refusal(errno.EFAULT)
        return data

    def string(self, address: int) -> str:
        """Read a zero-terminated text in its memory. Raises Refusal."""
        if address == 0:
            return ""
        data = b""
        while b"\0" not in data and len(data) < _PATH_BYTES:
            # Page by page: the next one may not be mapped.
            begin = address + len(data)
            data += self.memory(begin, 4096 - begin % 4096)
        return os.fsdecode(data.split(b"\0", 1)[0])

    def check(self) -> None:
        """Raise Refusal unless the pid still is the caller's: for after its files were opened by it."""
        try:
            fcntl.ioctl(self._listener, _ID_VALID, bytearray(struct.pack("=Q", self.identity)))
        except OSError:
            raise Refusal(errno.EINTR) from None

    def may(self, capability: int, *, as_root: bool = True) -> bool:
        """Look whether the caller has a capability as the machine's root, or else over its mount namespace: in a user
        namespace of its own every process has all capabilities."""
        own = os.stat(f"/proc/{self.pid}/ns/user").st_ino
        with mounts_of(self.pid) as mounts:
            owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
            owned_by = os.fstat(owner).st_ino
            os.close(owner)
        # Split at newlines alone: the caller chose the name, which may hold other characters that end lines.
        status = Path(f"/proc/{self.pid}/status").read_bytes().split(b"\n")
        self.check()
        effective = int(next(line for line in status if line.startswith(b"CapEff:")).split()[1], 16)
        # The machine's root has it over all that are below.
        machines = os.fstat(self._users).st_ino
        return bool(effective >> capability & 1) and own in ((machines,) if as_root else (owned_by, machines))

    def open(self, path: str) -> int:
        """Open `path` as the caller sees it, for its place alone (O_PATH)."""
        own = _OWN_FD.fullmatch(path)
        if own is not None:
            descriptor = os.open(f"/proc/{self.pid}/fd/{own[1]}", os.O_PATH | os.O_CLOEXEC)
            self.check()
            return descriptor
        if not os.path.isabs(path):
            # It may lead up: it is looked up from the root, with the directory's name before it.
            path = os.path.join(os.readlink(f"/proc/{self.pid}/cwd"), path)
        root = os.open(f"/proc/{self.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.check()
            return syscalls.open_in_root(root, path, os.O_PATH)
        finally:
            os.close(root)


@contextlib.contextmanager
def mounts_of(pid: int) -> Iterator[int]:
    """Open the mount namespace of a process."""
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


def mountinfo(pid: int) -> list[list[str]]:
    """Read a process's list of mounts (proc(5)), as words of lines: names are bytes, and may hold what ends lines
    elsewhere."""
    return lines_of(Path(f"/proc/{pid}/mountinfo").read_bytes())


def lines_of(text: bytes) -> list[list[str]]:
    """Split a text of the kernel's at its newlines and spaces."""
    return [line.split(" ") for line in os.fsdecode(text).split("\n") if line]


def devices(lines: list[list[str]]) -> set[tuple[int, int]]:
    """List the device numbers of all mounts of a mountinfo."""
    pairs = (words[2].partition(":") for words in lines)
    return {(int(major), int(minor)) for major, _, minor in pairs}


def has_flag(lines: list[list[str]], number: int, flag: str) -> bool:
    """Look in a mountinfo whether the mount of this number has a flag of its own, such as "nodev"."""
    return any(words[0] == str(number) and flag in words[5].split(",") for words in lines)


def kinds(lines: list[list[str]]) -> dict[str, str]:
    """List the kinds of file systems of a mountinfo, by their device numbers ("0:25")."""
    return {words[2]: words[words.index("-") + 1] for words in lines}
