"""The calls that a machine's warden answers in the kernel's place (seccomp_unotify(2)).

- `mount` of one of the machine's own block devices, which user namespaces may not: the warden mounts it, with the
  machine's owners and no device files, where the caller wanted it. The medium in the drive is one of them (iso9660).
- `mount` of a squashfs in a file of the machine, which would take a loop device: the source `image:OFFSET:SIZE:PATH`
  stands for the file, read-only. All other mounts go on to the kernel.
- `mount` of a sysfs, or of /sys itself without what lies over it, for a container that shares the machine's network
  namespace: it gets the machine's /sys, with the machine's devices, and not the host's.
- `ioctl` BLKRRPART and BLKPG on one of its disks: the warden looks at the table and makes the partitions anew.
- `adjtimex`, `clock_adjtime`: reading goes on to the kernel; adjusting succeeds and does nothing, since the clock is
  the host's. Setting it is refused by the filter.
- opening `oom_score_adj` for writing: what is written goes nowhere. A machine's processes are the first that a host
  without memory ends (warden.OOM_SCORE), and may not lower that; runc takes a refusal for the end of a container.

Only what the machine's kernel would let the caller do is done for it: it must have the capability that the call takes,
in the user namespace that owns its mounts. The machine owns its /dev: nothing is opened by a name in it, since that may
lead to the host's files as soon as the host looks it up; devices go by their numbers.

What a call points to is read from the caller's memory once, and the call is either done here altogether or left to the
kernel, which looks for itself and decides by the machine's rights: a caller that changes it in between gains nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab.machines.container.fence import handover, options, seccomp
from lab.machines.container.fence.errors import NotAllowed
from lab.machines.container.kernel import loops, syscalls
from lab.machines.container.spec import Drive

# linux/seccomp.h
_RECV, _SEND, _ID_VALID, _ADDFD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_GO_ON = 1
_ADD_AND_SEND = 2
_PATH_BYTES = 4096
_UNSHARE, _SETNS = 272, 308
# linux/nsfs.h: the user namespace that owns a namespace.
_NS_GET_USERNS = 0xB701
# linux/capability.h
_CAP_SYS_ADMIN, _CAP_SYS_TIME = 21, 25
# How runtimes of containers name their targets.
_OWN_FD = re.compile(r"/proc/(?:thread-)?self/fd/(\d+)")
_NOT_NEW = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_MOVE
_NOT_NEW |= syscalls.MS_UNBINDABLE | syscalls.MS_PRIVATE | syscalls.MS_SLAVE | syscalls.MS_SHARED
_ATTRIBUTES = {
    syscalls.MS_RDONLY: syscalls.MOUNT_ATTR_RDONLY,
    syscalls.MS_NOSUID: syscalls.MOUNT_ATTR_NOSUID,
    syscalls.MS_NOEXEC: syscalls.MOUNT_ATTR_NOEXEC,
}
_KINDS = ("ext4", "ext3", "ext2", "xfs", "vfat", "btrfs", "iso9660")
# A squashfs in a file: where it begins, how long it is, the file. (loop(4) has room for 63 bits.)
_IMAGE = re.compile(r"image:(\d{1,18}):(\d{1,18}):(/.+)", re.DOTALL)
# A live system mounts one; each holds a loop device of the host.
_MOST_IMAGES = 4
# Where such a file may lie. Behind others, overlays among them, there may be a program that answers, or never does.
_HOLDS_IMAGES = ("erofs", "iso9660", "tmpfs", "ramfs", "ext4", "xfs", "squashfs")


class Hardware(Protocol):
    """What the broker asks of the warden."""

    def own_devices(self) -> Mapping[tuple[int, int], str]:
        """Names in it, by the numbers of the machine's disks and partitions."""

    def drives(self) -> Sequence[Drive]:
        """The media in it, as far as they are to be mounted."""

    def init(self) -> int:
        """The machine's first process."""

    def reread(self, number: tuple[int, int]) -> None:
        """Look at a disk's partition table again. Raises OSError (EBUSY: one of its partitions is mounted)."""


class _Refusal(Exception):
    """The caller gets this error number."""

    def __init__(self, code: int) -> None:
        super().__init__(os.strerror(code))
        self.code = code


class Broker:
    """Answers what comes at a listener. `users` is a descriptor of the machine's user namespace."""

    def __init__(self, listener: int, users: int, hardware: Hardware) -> None:
        self._listener = listener
        self._users = users
        self._hardware = hardware
        self._images = 0

    def fileno(self) -> int:
        """For selectors."""
        return self._listener

    def answer(self) -> None:
        """Take one call and answer it."""
        raw = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECV, raw)
        except OSError as error:
            # The caller was killed before we looked, or nobody is left.
            if error.errno in (errno.ENOENT, errno.EINTR):
                return
            raise
        identity, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(raw)
        try:
            done = self._do(identity, pid, number, arguments)
        except _Refusal as refusal:
            self._reply(identity, error=-refusal.code)
        except OSError as error:
            self._reply(identity, error=-(error.errno or errno.EIO))
        else:
            if done is not None:
                self._reply(identity, flags=0 if done else _GO_ON)

    def _reply(self, identity: int, *, error: int = 0, flags: int = 0) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, bytearray(_RESPONSE.pack(identity, 0, error, flags)))
        except OSError as failure:
            if failure.errno != errno.ENOENT:
                raise

    def _do(self, identity: int, pid: int, number: int, arguments: list[int]) -> bool | None:
        """True: done, the caller sees 0; False: the kernel shall do it; None: answered already."""
        if number == seccomp.MOUNT:
            return self._mount(identity, pid, arguments)
        if number == seccomp.IOCTL:
            return self._partitions(identity, pid, arguments)
        if number in (seccomp.ADJTIMEX, seccomp.CLOCK_ADJTIME):
            where = arguments[0 if number == seccomp.ADJTIMEX else 1]
            modes = struct.unpack("=I", self._memory(pid, where, 4))[0]
            return bool(modes) and self._may(identity, pid, _CAP_SYS_TIME)
        return self._opened(identity, pid, number, arguments)

    def _memory(self, pid: int, address: int, count: int) -> bytes:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            try:
                memory.seek(address)
                return memory.read(count)
            except (OSError, OverflowError, ValueError):
                raise _Refusal(errno.EFAULT) from None

    def _string(self, pid: int, address: int) -> str:
        if address == 0:
            return ""
        found = b""
        while b"\0" not in found and len(found) < _PATH_BYTES:
            # Up to the end of a page: the next one need not be there.
            there = address + len(found)
            part = self._memory(pid, there, 4096 - there % 4096)
            if not part:
                raise _Refusal(errno.EFAULT)
            found += part
        return os.fsdecode(found.split(b"\0", 1)[0])

    def _still_there(self, identity: int) -> None:
        """After a process's files were opened by its id: it is still the one that asked."""
        try:
            fcntl.ioctl(self._listener, _ID_VALID, bytearray(struct.pack("=Q", identity)))
        except OSError:
            raise _Refusal(errno.EINTR) from None

    def _may(self, identity: int, pid: int, capability: int, *, as_root: bool = True) -> bool:
        """Whether the caller has a capability as the machine's root, or else over its mount namespace: who has made
        himself a user namespace has all capabilities in it."""
        own = os.stat(f"/proc/{pid}/ns/user").st_ino
        with _namespace(pid) as mounts:
            owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
            owned_by = os.fstat(owner).st_ino
            os.close(owner)
        status = Path(f"/proc/{pid}/status").read_text()
        self._still_there(identity)
        effective = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
        # The machine's root has it over all that are below.
        machines = os.fstat(self._users).st_ino
        return bool(effective >> capability & 1) and own in ((machines,) if as_root else (owned_by, machines))

    def _open(self, identity: int, pid: int, path: str, flags: int) -> int:
        """`path` as the caller sees it."""
        own = _OWN_FD.fullmatch(path)
        if own is not None:
            found = os.open(f"/proc/{pid}/fd/{own[1]}", flags | os.O_CLOEXEC)
            self._still_there(identity)
            return found
        start = "root" if path.startswith("/") else "cwd"
        root = os.open(f"/proc/{pid}/{start}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._still_there(identity)
            if start == "root":
                return syscalls.open_in_root(root, path, flags)
            # A relative path may lead up: it is looked up from its root, with the directory's name before it.
            top = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return syscalls.open_in_root(top, os.path.join(os.readlink(f"/proc/{pid}/cwd"), path), flags)
            finally:
                os.close(top)
        finally:
            os.close(root)

    def _mount(self, identity: int, pid: int, arguments: list[int]) -> bool:
        source_at, target_at, kind_at, flags, data_at = arguments[:5]
        again = flags & (syscalls.MS_BIND | syscalls.MS_REMOUNT) == syscalls.MS_BIND
        if again and source_at and self._string(pid, source_at) == "/sys":
            return self._show_sys(identity, pid, self._string(pid, target_at), flags)
        if flags & _NOT_NEW or not source_at or not kind_at:
            return False
        kind = self._string(pid, kind_at)
        if kind == "sysfs":
            return self._show_sys(identity, pid, self._string(pid, target_at), flags)
        source = self._string(pid, source_at)
        image = _IMAGE.fullmatch(source) if kind == "squashfs" else None
        if image is not None:
            return self._mount_image(identity, pid, image, self._string(pid, target_at), flags=flags)
        if kind not in _KINDS:
            return False
        try:
            node = self._open(identity, pid, source, os.O_PATH)
        except OSError:
            return False
        try:
            found = os.stat(node)
        finally:
            os.close(node)
        number = (os.major(found.st_rdev), os.minor(found.st_rdev))
        device = self._hardware.own_devices().get(number)
        if not stat.S_ISBLK(found.st_mode) or device is None or not self._may(identity, pid, _CAP_SYS_ADMIN):
            return False
        drive = next((one for one in self._hardware.drives() if one.number == number), None)
        if (drive is not None) != (kind == "iso9660"):
            return False
        target = self._open(identity, pid, self._string(pid, target_at), os.O_PATH)
        try:
            if drive is not None:
                self._mount_medium(pid, identity, device, drive, flags=flags, target=target)
            else:
                pairs = options.passed_on(kind, self._string(pid, data_at) if data_at else "")
                self._mount_there(pid, identity, kind, {device: found.st_rdev}, pairs=pairs, flags=flags, target=target)
        except NotAllowed:
            raise _Refusal(errno.EINVAL) from None
        finally:
            os.close(target)
        return True

    def _mount_medium(self, pid: int, identity: int, device: str, drive: Drive, *, flags: int, target: int) -> None:
        """By an index of erofs, where there is one: many kernels have no iso9660, and those that have cannot map its
        owners. The source keeps the drive's name, by which programs look for the medium."""
        medium, flags = os.makedev(*drive.number), flags | syscalls.MS_RDONLY
        if drive.index is not None:
            nodes = {device: os.makedev(*drive.index), "medium": medium}
            with contextlib.suppress(OSError):
                self._mount_there(
                    pid, identity, "erofs", nodes, pairs={"device": "/dev/medium"}, flags=flags, target=target
                )
                return
        self._mount_there(
            pid, identity, "iso9660", {device: medium}, pairs={}, flags=flags, target=target, mapped=False
        )

    def _mount_image(self, identity: int, pid: int, image: re.Match[str], path: str, *, flags: int) -> bool:
        if not self._may(identity, pid, _CAP_SYS_ADMIN):
            return False
        with contextlib.ExitStack() as held:
            named = self._open(identity, pid, image[3], os.O_PATH)
            held.callback(os.close, named)
            found = os.fstat(named)
            number = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
            kinds = handover.kinds(Path(f"/proc/{pid}/mountinfo").read_text())
            if not stat.S_ISREG(found.st_mode) or kinds.get(number) not in _HOLDS_IMAGES:
                raise _Refusal(errno.ENOTBLK)
            if self._images >= _MOST_IMAGES:
                raise _Refusal(errno.EBUSY)
            offset, size = int(image[1]), int(image[2])
            file = Path(f"/proc/self/fd/{named}")
            loop = held.enter_context(loops.attach(file, offset=offset, size=size, read_only=True))
            target = self._open(identity, pid, path, os.O_PATH)
            held.callback(os.close, target)
            flags |= syscalls.MS_RDONLY
            self._mount_there(
                pid, identity, "squashfs", {loop.path.name: loop.rdev}, pairs={}, flags=flags, target=target
            )
            self._images += 1
        return True

    def _show_sys(self, identity: int, pid: int, path: str, flags: int) -> bool:
        init = self._hardware.init()
        if pid == init or os.readlink(f"/proc/{pid}/ns/net") != os.readlink(f"/proc/{init}/ns/net"):
            return False
        if not self._may(identity, pid, _CAP_SYS_ADMIN, as_root=False):
            return False
        try:
            target = self._open(identity, pid, path, os.O_PATH)
        except OSError:
            return False
        try:
            attributes = sum(attribute for flag, attribute in _ATTRIBUTES.items() if flags & flag)
            with _namespace(init) as machine, _namespace(pid) as there:
                self._still_there(identity)

                def clone() -> None:
                    _enter(machine)
                    tree = syscalls.open_tree("/sys", recursive=True)
                    syscalls.set_attributes(tree, attributes | syscalls.MOUNT_ATTR_NODEV, recursive=True)
                    _enter(there)
                    syscalls.attach_at(tree, target)

                syscalls.by_a_child(clone)
        finally:
            os.close(target)
        return True

    def _mount_there(
        self,
        pid: int,
        identity: int,
        kind: str,
        nodes: dict[str, int],
        *,
        pairs: dict[str, str | None],
        flags: int,
        target: int,
        mapped: bool = True,
    ) -> None:
        """Mount the first of `nodes`, device numbers by their names."""
        if flags & syscalls.MS_RDONLY:
            pairs = pairs | {"ro": None}
        attributes = syscalls.MOUNT_ATTR_NODEV
        for flag, attribute in _ATTRIBUTES.items():
            attributes |= attribute if flags & flag else 0
        with _namespace(pid) as there:
            self._still_there(identity)

            def mount() -> None:
                # In a /dev with nothing else in it: mountinfo tells the name by which it was made.
                syscalls.call("unshare", _UNSHARE, syscalls.CLONE_NEWNS)
                syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
                syscalls.mount(
                    "dev", "/dev", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, data="mode=700,size=64k"
                )
                for name, number in nodes.items():
                    os.mknod(f"/dev/{name}", stat.S_IFBLK | 0o600, number)
                tree = syscalls.new_mount(kind, f"/dev/{next(iter(nodes))}", pairs)
                syscalls.set_attributes(tree, attributes, users=self._users if mapped else None)
                _enter(there)
                syscalls.attach_at(tree, target)

            syscalls.by_a_child(mount)

    def _partitions(self, identity: int, pid: int, arguments: list[int]) -> bool:
        found = os.stat(f"/proc/{pid}/fd/{arguments[0] & 0xFFFFFFFF}")
        self._still_there(identity)
        number = (os.major(found.st_rdev), os.minor(found.st_rdev))
        if not stat.S_ISBLK(found.st_mode) or number not in self._hardware.own_devices():
            return False
        if not self._may(identity, pid, _CAP_SYS_ADMIN):
            return False
        self._hardware.reread(number)
        return True

    def _opened(self, identity: int, pid: int, number: int, arguments: list[int]) -> bool | None:
        path = self._string(pid, arguments[1 if number == seccomp.OPENAT else 0])
        if os.path.basename(path) != "oom_score_adj":
            return False
        nowhere = os.memfd_create("oom_score_adj")
        try:
            os.write(nowhere, b"0\n")
            os.lseek(nowhere, 0, os.SEEK_SET)
            request = struct.pack("=QIIII", identity, _ADD_AND_SEND, nowhere, 0, os.O_CLOEXEC)
            fcntl.ioctl(self._listener, _ADDFD, bytearray(request))
        finally:
            os.close(nowhere)
        return None


@contextlib.contextmanager
def _namespace(pid: int) -> Iterator[int]:
    """The mount namespace of a process."""
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield namespace
    finally:
        os.close(namespace)


def _enter(namespace: int) -> None:
    syscalls.call("setns", _SETNS, namespace, syscalls.CLONE_NEWNS)
