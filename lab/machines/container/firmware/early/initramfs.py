"""The image's own initramfs, as the machine's first process has it: unpacked, with programs in place of a kernel.

It is laid out before the fence is closed, by the machine's own root and in its memory; all that touches its files by
their names comes afterwards, when there are no other files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from installer.common import cpio
from lab.machines.container.firmware.entry import BootStopped
from lab.machines.container.kernel import syscalls

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Nothing in an early boot takes longer, a network that is waited for included.
PROGRAM_SECONDS = 1800.0
_DIRECTORIES = ("proc", "sys", "dev", "run", "sysroot", "tmp")
# mount(8) looks for its helpers here; the places come with the image's merged /usr.
_HELPERS = "usr/sbin"

#: Sizes in percent are the host's memory to the kernel; here they are the machine's.
_MOUNT_TMPFS = """\
#!/bin/bash
source=$1 target=$2 options=
shift 2
while getopts sfnvo:t:N: name; do
    case $name in o) options=$OPTARG ;; esac
done
if [[ $options =~ size=([0-9]+)% ]]; then
    options=${options/"${BASH_REMATCH[0]}"/size=$((@MIB@ * BASH_REMATCH[1] / 100))m}
fi
exec mount -i -t tmpfs ${options:+-o "$options"} "$source" "$target"
"""

#: A squashfs in a file takes a loop device, and a machine has none: its monitor mounts the file as it is named here.
#: mount(8) would look for a loop device by itself, for options and for what it finds in the file. An overlay that is
#: mounted in a user namespace keeps its notes in users' attributes (Linux, filesystems/overlayfs.rst, "userxattr").
_MOUNT = """\
#!/bin/bash
arguments=("$@") kind= options= names=()
while (($#)); do
    case $1 in
        -t) kind=$2; shift ;;
        -o) options=$2; shift ;;
        -*) ;;
        *) names+=("$1") ;;
    esac
    shift
done
if [[ $kind == squashfs && -f ${names[0]} ]]; then
    offset=0 size=0
    [[ ,$options, =~ ,offset=([0-9]+), ]] && offset=${BASH_REMATCH[1]}
    [[ ,$options, =~ ,sizelimit=([0-9]+), ]] && size=${BASH_REMATCH[1]}
    exec @MOUNT@ -i -t squashfs -o ro "image:$offset:$size:$(readlink -f "${names[0]}")" "${names[1]}"
fi
if [[ $kind == overlay ]]; then
    exec @MOUNT@ -t overlay -o "${options:+$options,}userxattr" "${names[@]}"
fi
exec @MOUNT@ "${arguments[@]}"
"""
_REAL_MOUNT = "usr/bin/mount.of-the-image"


@dataclass(frozen=True)
class Finished:
    """A program that ended: its exit code and all that it printed, errors included."""

    code: int
    output: str


class Initramfs:
    """An unpacked initramfs at ``tree``, the root directory once it runs."""

    tree = Path("/")
    run = Path("/run")

    def __init__(self, memory_mib: int, arguments: Sequence[str]) -> None:
        self._memory_mib = memory_mib
        self.arguments = list(arguments)

    def lay_out(self, place: Path, images: Sequence[memoryview]) -> None:
        """Mount it and unpack the boot loader's initrds. Raises BootStopped when the kernel would not take them."""
        # As the kernel limits its own: half of the memory.
        size = max(self._memory_mib // 2, 1)
        syscalls.mount("rootfs", str(place), "tmpfs", 0, data=f"mode=755,size={size}m")
        try:
            for image in images:
                for archive in cpio.archives(image, size << 20):
                    unpack(archive, place)
        except cpio.BadArchive as error:
            raise BootStopped(f"Initramfs unpacking failed: {error}") from error
        except OSError as error:
            raise BootStopped(f"Initramfs unpacking failed: {error.strerror}") from error
        if not (place / "init").is_symlink() and not (place / "init").exists():
            raise BootStopped("Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)")
        for name in _DIRECTORIES:
            # A mount point of the tree's own, for what is mounted there.
            if not stat.S_ISDIR(_mode(place / name)):
                (place / name).unlink(missing_ok=True)
                (place / name).mkdir()

    def equip(self) -> None:
        """Put programs in place of those that need a kernel of the machine's own: mount, mount.tmpfs, modprobe."""
        real = self.tree / _REAL_MOUNT
        with contextlib.suppress(FileNotFoundError):
            (self.tree / "usr/bin/mount").rename(real)
        self._script("usr/bin/mount", _MOUNT.replace("@MOUNT@", str(real)))
        self._script(f"{_HELPERS}/mount.tmpfs", _MOUNT_TMPFS.replace("@MIB@", str(self._memory_mib)))
        # The kernel is the host's: no modules can be loaded.
        self._script(f"{_HELPERS}/modprobe", "#!/bin/bash\n")

    def _script(self, name: str, text: str) -> None:
        place = self.tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_text(text)
        place.chmod(0o755)

    def program(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        """Run a program of it, without a terminal; code 124: it did not end in time, 127: it could not be started."""
        env = {
            "PATH": PATH,
            "HOME": "/",
            "TERM": "linux",
            "SYSTEMD_IN_INITRD": "1",
            "SYSTEMD_PROC_CMDLINE": " ".join(self.arguments),
        }
        env |= environment or {}
        try:
            done = subprocess.run(
                list(words),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode(errors="replace")
            return Finished(124, f"{output}\n{words[0]} did not end within {PROGRAM_SECONDS:.0f} s\n")
        except OSError as error:
            return Finished(127, f"{words[0]}: {error.strerror}\n")
        return Finished(done.returncode, done.stdout.decode(errors="replace"))


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def unpack(archive: memoryview, root: Path) -> None:
    """Put an archive's files below ``root``, over what is there, as the kernel does: directories are kept, all else is
    replaced; owners are root. No link of an earlier archive leads out of ``root``.

    Raises BadArchive: a name leads out of ``root``, or the archive is broken.
    """
    first: dict[tuple[int, int, int], Path] = {}
    for member in cpio.members(archive):
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise cpio.BadArchive(f"{member.name!r} leads out of the initramfs")
        if not parts:
            continue
        target = _within(root, parts)
        if target is not None:
            _create(member, target, first)


def _within(root: Path, parts: list[str]) -> Path | None:
    """Find a member's place, links to directories followed within ``root``; None when its directory is not there: the
    kernel passes over it without a word."""
    directory = root
    for part in parts[:-1]:
        step = directory / part
        hops = 0
        while step.is_symlink():
            hops += 1
            link = os.readlink(step)
            base = root if link.startswith("/") else step.parent
            step = Path(os.path.normpath(base / link.lstrip("/")))
            if hops > 40 or not step.is_relative_to(root):
                return None
        if not step.is_dir():
            return None
        directory = step
    return directory / parts[-1]


def _create(member: cpio.Member, target: Path, first: dict[tuple[int, int, int], Path]) -> None:
    kind, permissions = stat.S_IFMT(member.mode), stat.S_IMODE(member.mode)
    if kind == stat.S_IFDIR and target.is_dir() and not target.is_symlink():
        target.chmod(permissions)
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    elif target.is_symlink() or target.exists():
        if first.get(member.inode) == target and member.links > 1:
            return
        target.unlink()
    if kind == stat.S_IFDIR:
        target.mkdir()
    elif kind == stat.S_IFLNK:
        target.symlink_to(bytes(member.data).decode(errors="surrogateescape"))
        return
    elif kind == stat.S_IFREG:
        if member.links > 1 and member.inode in first:
            # The last of a file's names brings its content (cpio -H newc).
            target.hardlink_to(first[member.inode])
            if not len(member.data):
                return
        with target.open("wb") as file:
            file.write(member.data)
        if member.links > 1:
            first.setdefault(member.inode, target)
    elif kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
        try:
            os.mknod(target, kind, member.rdev)
        except PermissionError:
            # Device files are left out: a machine may make none, and has its own in /dev.
            return
    else:
        raise cpio.BadArchive(f"{member.name!r} has an unknown type of file ({member.mode:o})")
    target.chmod(permissions)
