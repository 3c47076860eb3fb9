"""Mounts that a machine's monitor makes for it: the options that it passes on, and the flags that the kernel keeps.

Options are those between a machine and its file system (mount(8), "FILESYSTEM-SPECIFIC MOUNT OPTIONS"). Others name
devices by a path that the host would look up (`journal_path`, `logdev`, `rtdev`, `device`), or have the host's kernel
panic when the file system is broken, which its owner can see to (`errors=panic`, `fatal_errors=panic`).

The file systems of a machine's disks are the host's to the kernel, so device files on them would open, and a mount that
is only put into a machine's mount namespace has flags which its root may take away. A mount that is copied through a
less privileged namespace has the flags locked that it had there, against every call that changes mounts
(mount_namespaces(7), "Restrictions"). So each mount passes through a namespace of its own on its way, with `nodev`
alone: the machine may still change the other flags, which it asked for.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping

from lab.errors import LabError
from lab.host.namespaces import setns, unshare
from lab.machines.container.kernel import syscalls

_PLACE = "/dev/.mount"


class NotAllowed(LabError):
    """An option that no machine may use."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXT = _names(
    "acl noacl barrier nobarrier commit data delalloc nodelalloc discard nodiscard noload norecovery user_xattr "
    "nouser_xattr inode_readahead_blks stripe init_itable noinit_itable auto_da_alloc noauto_da_alloc"
)
ALLOWED: Mapping[str, frozenset[str]] = {
    "ext4": _EXT,
    "ext3": _EXT,
    "ext2": _EXT,
    "xfs": _names(
        "attr2 inode32 inode64 discard nodiscard noquota norecovery nouuid largeio nolargeio logbufs logbsize "
        "allocsize ikeep noikeep swalloc uquota usrquota gquota grpquota pquota prjquota"
    ),
    "vfat": _names(
        "uid gid umask fmask dmask codepage iocharset shortname utf8 check quiet discard flush tz showexec nfs"
    ),
    "btrfs": _names(
        "compress compress-force datacow nodatacow datasum nodatasum discard nodiscard ssd nossd subvol subvolid "
        "commit autodefrag noautodefrag space_cache degraded flushoncommit"
    ),
}
# A broken file system must not panic the host, whatever its superblock says (tune2fs -e).
_ERRORS = {"ext4": "continue", "ext3": "continue", "ext2": "continue", "vfat": "remount-ro"}
_MILD = ("continue", "remount-ro")


def passed_on(kind: str, text: str) -> dict[str, str | None]:
    """Turn a mount's options into those of fsconfig(2). Raises NotAllowed."""
    pairs: dict[str, str | None] = {"errors": _ERRORS[kind]} if kind in _ERRORS else {}
    for option in filter(None, text.split(",")):
        name, equal, value = option.partition("=")
        mild = name == "errors" and name in pairs and value in _MILD
        if not mild and name not in ALLOWED.get(kind, ()):
            raise NotAllowed(option)
        pairs[name] = value if equal else None
    return pairs


def mount_for(
    namespace: int,
    target: int,
    kind: str,
    nodes: Mapping[str, int],
    *,
    pairs: Mapping[str, str | None],
    attributes: int,
    users: int | None,
) -> None:
    """Mount the first of `nodes`, device numbers by their names, in a mount namespace on the directory that is open as
    `target`.

    `users` is the user namespace that its owners are mapped by. Raises OSError."""

    def mount() -> None:
        # The device file is the only one in a /dev of its own: mountinfo shows the name by which it was mounted.
        syscalls.own_mounts()
        syscalls.mount("dev", "/dev", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, data="mode=700,size=64k")
        for name, number in nodes.items():
            os.mknod(f"/dev/{name}", stat.S_IFBLK | 0o600, number)
        tree = syscalls.new_mount(kind, f"/dev/{next(iter(nodes))}", dict(pairs))
        syscalls.set_attributes(tree, syscalls.MOUNT_ATTR_NODEV, users=users)
        tree = locked(tree)
        if attributes:
            syscalls.set_attributes(tree, attributes)
        enter(namespace)
        syscalls.attach_at(tree, target)

    syscalls.by_a_child(mount)


def remount_for(namespace: int, target: int, wanted: int, mask: int) -> None:
    """Give a mount of a mount namespace, by a descriptor of its root, the attributes `wanted`, of `mask` no others, and
    `nodev` besides where that is locked. Raises OSError."""

    def remount() -> None:
        enter(namespace)
        others = mask & ~wanted
        try:
            syscalls.set_attributes(target, wanted, clear=others | syscalls.MOUNT_ATTR_NODEV)
        except PermissionError:
            syscalls.set_attributes(target, wanted | syscalls.MOUNT_ATTR_NODEV, clear=others)

    syscalls.by_a_child(remount)


def locked(tree: int) -> int:
    """Copy a detached mount so that the copy has its flags locked; for a child with a mount namespace of its own.

    Raises OSError."""
    os.mkdir(_PLACE)
    syscalls.attach(tree, _PLACE)
    os.close(tree)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def pass_through() -> None:
        unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        socket.send_fds(theirs, [b"copy"], [syscalls.open_tree(_PLACE)])

    with ours, theirs:
        syscalls.by_a_child(pass_through)
        return socket.recv_fds(ours, 16, 1)[1][0]


def enter(namespace: int) -> None:
    """Join a mount namespace. Raises OSError."""
    setns(namespace, syscalls.CLONE_NEWNS)
