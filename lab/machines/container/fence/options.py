"""Options of a machine's mounts that its warden passes on to the host's kernel (mount(8), "FILESYSTEM-SPECIFIC MOUNT
OPTIONS"): those that are between a machine and its file system.

Others name devices by a path that the host would look up (`journal_path`, `logdev`, `rtdev`, `device`), or have the
host's kernel panic when the file system is broken, which its owner can see to (`errors=panic`, `fatal_errors=panic`).
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.machines.container.fence.errors import NotAllowed


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
    """A mount's options as fsconfig(2) takes them. Raises NotAllowed."""
    pairs: dict[str, str | None] = {"errors": _ERRORS[kind]} if kind in _ERRORS else {}
    for option in filter(None, text.split(",")):
        name, equal, value = option.partition("=")
        mild = name == "errors" and name in pairs and value in _MILD
        if not mild and name not in ALLOWED.get(kind, ()):
            raise NotAllowed(option)
        pairs[name] = value if equal else None
    return pairs
