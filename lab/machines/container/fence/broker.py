"""The calls that a machine's monitor answers in the kernel's place (seccomp_unotify(2)).

- `mount` of a block device of the machine's own, which user namespaces may not: the monitor mounts it, with the
  machine's owners and no device files, where the caller wanted it. The medium in the drive is such a device (iso9660).
- `mount` of a squashfs in a file of the machine, which would take a loop device: the source `image:OFFSET:SIZE:PATH`
  stands for the file, read-only. All other mounts go on to the kernel.
- `mount` with MS_REMOUNT and MS_BIND, without `nodev`, of a mount that has it: where it is locked (mounts.py) it
  stays, and the other flags are set. runc 1.1 does not try again with the flags that there are, as later ones do.
- `mount` of a sysfs, or of /sys itself without what lies over it, for a container that shares the machine's network
  namespace: it gets the machine's /sys, with the machine's devices, and not the host's.
- `ioctl` BLKRRPART and BLKPG on a disk of its own: the monitor reads the table and makes the partitions anew.
- `adjtimex`, `clock_adjtime`: reading goes on to the kernel; adjusting succeeds and does nothing, since the clock is
  the host's. Setting it is refused by the filter.
- opening `oom_score_adj` for writing: the caller gets a file that nobody reads. A machine's processes are the first
  that a host without memory ends (monitor.OOM_SCORE), and may not lower that; runc takes a refusal for an error.

The caller must have the capability that the call takes, in the user namespace that owns its mounts. The machine owns
its /dev: nothing is opened by a name in it, since that may lead to the host's files as soon as the host looks it up;
devices go by their numbers.

The arguments are read from the caller's memory once. The call is then done here altogether or left to the kernel, which
reads them itself and decides by the machine's rights: a caller that changes them in between gains nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from lab.machines.container.fence import mounts, seccomp
from lab.machines.container.fence.caller import Caller, Refusal, has_flag, kinds, mountinfo, mounts_of
from lab.machines.container.kernel import loops, syscalls
from lab.machines.container.spec import Drive

if TYPE_CHECKING:
    from lab.machines.container.monitor import Monitor

# linux/seccomp.h
RECV, _SEND, _ADDFD = 0xC0502100, 0xC0182101, 0x40182103
NOTIFICATION = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")
_GO_ON = 1
_ADD_AND_SEND = 2
# linux/capability.h
_CAP_SYS_ADMIN, _CAP_SYS_TIME = 21, 25
_AGAIN = syscalls.MS_REMOUNT | syscalls.MS_BIND
# Flags that have no effect when a bind is mounted again.
_SAYS_NOTHING = syscalls.MS_REC | syscalls.MS_SILENT | syscalls.MS_RELATIME
_NOT_NEW = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_MOVE
_NOT_NEW |= syscalls.MS_UNBINDABLE | syscalls.MS_PRIVATE | syscalls.MS_SLAVE | syscalls.MS_SHARED
_ATTRIBUTES = {
    syscalls.MS_RDONLY: syscalls.MOUNT_ATTR_RDONLY,
    syscalls.MS_NOSUID: syscalls.MOUNT_ATTR_NOSUID,
    syscalls.MS_NOEXEC: syscalls.MOUNT_ATTR_NOEXEC,
}
_KINDS = ("ext4", "ext3", "ext2", "xfs", "vfat", "btrfs", "iso9660")
# A squashfs in a file: its offset, its size, the file. (loop(4) has room for 63 bits.)
_IMAGE = re.compile(r"image:(\d{1,18}):(\d{1,18}):(/.+)", re.DOTALL)
# A live system mounts one; each holds a loop device of the host.
_MOST_IMAGES = 4
_MOST_COMPLAINTS = 20
# File systems in which such a file may lie. Behind others, overlays among them, may be a program that never answers.
_HOLDS_IMAGES = ("erofs", "iso9660", "tmpfs", "ramfs", "ext4", "xfs", "squashfs")


class Broker:
    """The answers to the calls at a listener. `users` is a descriptor of the machine's user namespace."""

    def __init__(self, listener: int, users: int, monitor: Monitor) -> None:
        self._listener = listener
        self._users = users
        self._monitor = monitor
        self._images = 0
        self._complaints = 0

    def fileno(self) -> int:
        """Return the listener, for selectors."""
        return self._listener

    def answer(self) -> None:
        """Receive a call and answer it."""
        raw = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, RECV, raw)
        except OSError as error:
            # The caller was killed before, or nobody is left.
            if error.errno in (errno.ENOENT, errno.EINTR):
                return
            raise
        identity, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(raw)
        try:
            done = self._do(Caller(self._listener, self._users, identity, pid), number, arguments)
        except Refusal as refusal:
            self._reply(identity, error=-refusal.code)
        except OSError as error:
            self._reply(identity, error=-(error.errno or errno.EIO))
        except Exception:
            # No call of a machine may end its monitor.
            self._complain()
            self._reply(identity, error=-errno.EIO)
        else:
            if done is not None:
                self._reply(identity, flags=0 if done else _GO_ON)

    def _complain(self) -> None:
        # Limited: a machine could fill the host's disk with the lab's log.
        if self._complaints < _MOST_COMPLAINTS:
            self._complaints += 1
            traceback.print_exc(file=sys.stderr)

    def _reply(self, identity: int, *, error: int = 0, flags: int = 0) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, bytearray(RESPONSE.pack(identity, 0, error, flags)))
        except OSError as failure:
            if failure.errno != errno.ENOENT:
                raise

    def _do(self, caller: Caller, number: int, arguments: list[int]) -> bool | None:
        """Do a call. True: done, the caller sees 0; False: left to the kernel; None: answered already."""
        if number == seccomp.MOUNT:
            return self._mount(caller, arguments)
        if number == seccomp.IOCTL:
            return self._partitions(caller, arguments)
        if number in (seccomp.ADJTIMEX, seccomp.CLOCK_ADJTIME):
            where = arguments[0 if number == seccomp.ADJTIMEX else 1]
            modes = int.from_bytes(caller.memory(where, 4, all_of_it=True), "little")
            return bool(modes) and caller.may(_CAP_SYS_TIME)
        return self._opened(caller, number, arguments)

    def _mount(self, caller: Caller, arguments: list[int]) -> bool:
        source_at, target_at, kind_at, flags, data_at = arguments[:5]
        again = flags & (syscalls.MS_BIND | syscalls.MS_REMOUNT) == syscalls.MS_BIND
        if again and source_at and caller.string(source_at) == "/sys":
            return self._show_sys(caller, caller.string(target_at), flags)
        if flags & _AGAIN == _AGAIN and not flags & syscalls.MS_NODEV:
            return self._remount(caller, caller.string(target_at), flags)
        if flags & _NOT_NEW or not source_at or not kind_at:
            return False
        kind = caller.string(kind_at)
        if kind == "sysfs":
            return self._show_sys(caller, caller.string(target_at), flags)
        source = caller.string(source_at)
        image = _IMAGE.fullmatch(source) if kind == "squashfs" else None
        if image is not None:
            return self._mount_image(caller, image, caller.string(target_at), flags=flags)
        if kind not in _KINDS:
            return False
        try:
            node = caller.open(source)
        except OSError:
            return False
        try:
            status = os.stat(node)
        finally:
            os.close(node)
        number = (os.major(status.st_rdev), os.minor(status.st_rdev))
        device = self._monitor.own_devices().get(number)
        if not stat.S_ISBLK(status.st_mode) or device is None or not caller.may(_CAP_SYS_ADMIN):
            return False
        drive = next((drive for drive in self._monitor.drives() if drive.number == number), None)
        if (drive is not None) != (kind == "iso9660"):
            return False
        target = caller.open(caller.string(target_at))
        try:
            if drive is not None:
                self._mount_medium(caller, device, drive, flags=flags, target=target)
            else:
                pairs = mounts.passed_on(kind, caller.string(data_at) if data_at else "")
                self._mount_for(caller, kind, {device: status.st_rdev}, pairs=pairs, flags=flags, target=target)
        except mounts.NotAllowed:
            raise Refusal(errno.EINVAL) from None
        finally:
            os.close(target)
        return True

    def _remount(self, caller: Caller, path: str, flags: int) -> bool:
        if flags & ~(_AGAIN | _SAYS_NOTHING | sum(_ATTRIBUTES)):
            return False
        try:
            target = caller.open(path)
        except OSError:
            return False
        try:
            lines = Path(f"/proc/self/fdinfo/{target}").read_text().splitlines()
            number = next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))
            if not has_flag(mountinfo(caller.pid), number, "nodev"):
                return False
            if not caller.may(_CAP_SYS_ADMIN, as_root=False):
                return False
            wanted = sum(attribute for flag, attribute in _ATTRIBUTES.items() if flags & flag)
            with mounts_of(caller.pid) as namespace:
                caller.check()
                mounts.remount_for(namespace, target, wanted, sum(_ATTRIBUTES.values()))
        finally:
            os.close(target)
        return True

    def _mount_medium(self, caller: Caller, device: str, drive: Drive, *, flags: int, target: int) -> None:
        """Mount a medium by its index for erofs, where it has one: many kernels have no iso9660, and those that have
        cannot map its owners. The source keeps the drive's name, by which programs look for the medium."""
        medium, flags = os.makedev(*drive.number), flags | syscalls.MS_RDONLY
        if drive.index is not None:
            nodes = {device: os.makedev(*drive.index), "medium": medium}
            with contextlib.suppress(OSError):
                self._mount_for(caller, "erofs", nodes, pairs={"device": "/dev/medium"}, flags=flags, target=target)
                return
        self._mount_for(caller, "iso9660", {device: medium}, pairs={}, flags=flags, target=target, mapped=False)

    def _mount_image(self, caller: Caller, image: re.Match[str], path: str, *, flags: int) -> bool:
        if not caller.may(_CAP_SYS_ADMIN):
            return False
        with contextlib.ExitStack() as held:
            named = caller.open(image[3])
            held.callback(os.close, named)
            status = os.fstat(named)
            number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
            kind = kinds(mountinfo(caller.pid)).get(number)
            if not stat.S_ISREG(status.st_mode) or kind not in _HOLDS_IMAGES:
                raise Refusal(errno.ENOTBLK)
            if self._images >= _MOST_IMAGES:
                raise Refusal(errno.EBUSY)
            offset, size = int(image[1]), int(image[2])
            file = Path(f"/proc/self/fd/{named}")
            loop = held.enter_context(loops.attach(file, offset=offset, size=size, read_only=True))
            target = caller.open(path)
            held.callback(os.close, target)
            flags |= syscalls.MS_RDONLY
            self._mount_for(caller, "squashfs", {loop.path.name: loop.rdev}, pairs={}, flags=flags, target=target)
            self._images += 1
        return True

    def _show_sys(self, caller: Caller, path: str, flags: int) -> bool:
        init = self._monitor.init()
        if caller.pid == init or os.readlink(f"/proc/{caller.pid}/ns/net") != os.readlink(f"/proc/{init}/ns/net"):
            return False
        if not caller.may(_CAP_SYS_ADMIN, as_root=False):
            return False
        try:
            target = caller.open(path)
        except OSError:
            return False
        try:
            attributes = sum(attribute for flag, attribute in _ATTRIBUTES.items() if flags & flag)
            with mounts_of(init) as machine, mounts_of(caller.pid) as namespace:
                caller.check()

                def clone() -> None:
                    mounts.enter(machine)
                    tree = syscalls.open_tree("/sys", recursive=True)
                    syscalls.set_attributes(tree, attributes | syscalls.MOUNT_ATTR_NODEV, recursive=True)
                    mounts.enter(namespace)
                    syscalls.attach_at(tree, target)

                syscalls.by_a_child(clone)
        finally:
            os.close(target)
        return True

    def _mount_for(
        self,
        caller: Caller,
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
        attributes = sum(attribute for flag, attribute in _ATTRIBUTES.items() if flags & flag)
        with mounts_of(caller.pid) as namespace:
            caller.check()
            users = self._users if mapped else None
            mounts.mount_for(namespace, target, kind, nodes, pairs=pairs, attributes=attributes, users=users)

    def _partitions(self, caller: Caller, arguments: list[int]) -> bool:
        status = os.stat(f"/proc/{caller.pid}/fd/{arguments[0] & 0xFFFFFFFF}")
        caller.check()
        number = (os.major(status.st_rdev), os.minor(status.st_rdev))
        if not stat.S_ISBLK(status.st_mode) or number not in self._monitor.own_devices():
            return False
        if not caller.may(_CAP_SYS_ADMIN):
            return False
        self._monitor.reread(number)
        return True

    def _opened(self, caller: Caller, number: int, arguments: list[int]) -> bool | None:
        path = caller.string(arguments[1 if number == seccomp.OPENAT else 0])
        if os.path.basename(path) != "oom_score_adj":
            return False
        nowhere = os.memfd_create("oom_score_adj")
        try:
            os.write(nowhere, b"0\n")
            os.lseek(nowhere, 0, os.SEEK_SET)
            request = struct.pack("=QIIII", caller.identity, _ADD_AND_SEND, nowhere, 0, os.O_CLOEXEC)
            fcntl.ioctl(self._listener, _ADDFD, bytearray(request))
        finally:
            os.close(nowhere)
        return None
