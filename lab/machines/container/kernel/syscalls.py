"""System calls of mounts and namespaces that Python 3.11 lacks, by their numbers (x86-64; asm/unistd_64.h)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

from lab.host.namespaces import die_with_parent, unshare

# linux/sched.h
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# sys/mount.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC = 0x20, 0x1000, 0x2000, 0x4000
MS_SILENT, MS_RELATIME = 0x8000, 0x200000
MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED = 0x20000, 0x40000, 0x80000, 0x100000
_MNT_DETACH = 2
# linux/mount.h
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 0x1, 0x2, 0x4, 0x8
MOUNT_ATTR_IDMAP = 0x00100000
_OPEN_TREE_CLONE, _AT_RECURSIVE, _AT_EMPTY_PATH = 1, 0x8000, 0x1000
_MOVE_FROM_EMPTY, _MOVE_TO_EMPTY = 0x4, 0x40
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CREATE = 0, 1, 6
_AT_FDCWD = -100
_PIVOT_ROOT, _OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 155, 428, 429, 430, 431, 432
_OPENAT2, _MOUNT_SETATTR = 437, 442
_RESOLVE_IN_ROOT = 0x10

# linux/securebits.h, linux/prctl.h: that a change of user leaves the capabilities alone.
_PR_GET_SECUREBITS, _PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 27, 28, 1 << 2
_PR_CAPBSET_DROP, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 24, 4, 38
# linux/capability.h
_CAPSET, _CAPABILITY_VERSION_3 = 126, 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a system call. Raises OSError with this name of it."""
    words = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *words)), name)


def _checked(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, *, data: str = "") -> None:
    """Call mount(2)."""
    words = (os.fsencode(source), os.fsencode(target), os.fsencode(kind) if kind else None)
    result = _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None)
    _checked(result, f"mount {source} on {target}")


def own_mounts() -> None:
    """Give this process a mount namespace whose mounts no other one sees. Raises OSError."""
    unshare(CLONE_NEWNS)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def umount(target: str) -> None:
    """Detach a mount and all below it (umount2(2))."""
    _checked(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)), f"umount {target}")


def pivot_root_here() -> None:
    """Make the working directory, a mount point, the root of this mount namespace, and let go of the old root."""
    call("pivot_root", _PIVOT_ROOT, b".", b".")
    umount(".")
    os.chdir("/")


def open_tree(path: str, *, recursive: bool = False) -> int:
    """Open a detached copy of the mount at or above `path`, with `path` as its root."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    return call(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def set_attributes(
    tree: int, attributes: int, *, users: int | None = None, recursive: bool = False, clear: int = 0
) -> None:
    """Add attributes of a mount, clear others, and map its owners by the user namespace `users` (mount_setattr(2))."""
    if users is not None:
        attributes |= MOUNT_ATTR_IDMAP
    changes = struct.pack("=QQQQ", attributes, clear, 0, users if users is not None else 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    call("mount_setattr", _MOUNT_SETATTR, tree, b"", flags, changes, len(changes))


def attach(tree: int, target: str) -> None:
    """Mount a detached mount at a path of this mount namespace."""
    call(f"move_mount to {target}", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_FROM_EMPTY)


def attach_at(tree: int, target: int) -> None:
    """Mount a detached mount on the directory that is open as `target`, in this mount namespace."""
    call("move_mount", _MOVE_MOUNT, tree, b"", target, b"", _MOVE_FROM_EMPTY | _MOVE_TO_EMPTY)


def new_mount(kind: str, source: str, options: dict[str, str | None]) -> int:
    """Open a new, detached file system. Raises OSError."""
    context = call(f"fsopen {kind}", _FSOPEN, os.fsencode(kind), 1)
    try:
        name = f"mount {source} as {kind}"
        call(name, _FSCONFIG, context, _FSCONFIG_SET_STRING, b"source", os.fsencode(source), 0)
        for option, value in options.items():
            command = _FSCONFIG_SET_FLAG if value is None else _FSCONFIG_SET_STRING
            text = None if value is None else os.fsencode(value)
            call(f"{name}: {option}", _FSCONFIG, context, command, os.fsencode(option), text, 0)
        call(name, _FSCONFIG, context, _FSCONFIG_CREATE, None, None, 0)
        return call(name, _FSMOUNT, context, 1, 0)
    finally:
        os.close(context)


def open_in_root(root: int, path: str, flags: int) -> int:
    """Open `path` as a process with the root directory `root` does: no link leads out of it (openat2(2))."""
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT)
    return call(f"open {path}", _OPENAT2, root, os.fsencode(path), how, len(how))


def _prctl(option: int, value: int) -> int:
    return _checked(int(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)), f"prctl {option}")


def change_user(user: int) -> None:
    """Make `user` the effective user of this process, which keeps its capabilities (capabilities(7),
    SECBIT_NO_SETUID_FIXUP) and its real user, whose limits count."""
    _prctl(_PR_SET_SECUREBITS, _prctl(_PR_GET_SECUREBITS, 0) | _NO_SETUID_FIXUP)
    os.seteuid(user)


def drop_for_good(capability: int) -> None:
    """Take a capability from the bounding set: neither this process nor its children gain it again."""
    _prctl(_PR_CAPBSET_DROP, capability)


def drop_all() -> None:
    """Drop all capabilities of this process; no program that it starts gets any."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    call("capset", _CAPSET, struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def hide() -> None:
    """Hide this process's memory, environment and files from all but the host's root, until it executes another program
    (prctl(2), PR_SET_DUMPABLE)."""
    _prctl(_PR_SET_DUMPABLE, 0)


def children(pid: int) -> list[int]:
    """List the children of a process; none when it has just ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def by_a_child(action: Callable[[], None]) -> None:
    """Change namespaces or the root directory in a child, since this process has to keep its own.

    Raises OSError with the child's error number, EPERM for other exceptions.
    """
    pid = os.fork()
    if pid == 0:
        code = errno.EPERM
        try:
            die_with_parent()
            action()
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        code = code if code > 0 else errno.EINTR
        raise OSError(code, os.strerror(code))
