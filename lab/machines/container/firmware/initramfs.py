"""The image's own initramfs as a tree in which its programs run: unpacked, with /proc, /sys, /dev and /run of its own.

Everything lies in memory, below one directory, and goes with the boot's mount namespace.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.machines.container.firmware import cpio
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.loops import Loop

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Nothing in an early boot takes longer, a network that is waited for included.
PROGRAM_SECONDS = 1800.0
_NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "kmsg": (1, 3)}
_LOOP_CONTROL = (10, 237)
_LOOP_MAJOR = 7
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


class ProgramFailed(Exception):
    """A program of the host's that the firmware needs failed; ``str()`` has its words."""


def run(*command: str) -> str:
    """Run a program of this machine. Raises ProgramFailed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{shlex.join(command)}: {error}") from error
    if done.returncode:
        raise ProgramFailed(f"{shlex.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@dataclass(frozen=True)
class Finished:
    """A program that ended: its code and everything it said."""

    code: int
    output: str


class Initramfs:
    """An unpacked initramfs below ``work``: ``tree`` is its root, ``run`` where its /run lies."""

    def __init__(self, work: Path, netns: Path | None, memory_mib: int, arguments: Sequence[str]) -> None:
        """``netns`` is the machine's network, or None for this process's."""
        self.work, self.tree = work, work / "initramfs"
        self.run = self.tree / "run"
        self._netns, self._memory_mib = netns, memory_mib
        self.arguments = list(arguments)
        self._held: list[Loop] = []

    def hold(self, loop: Loop) -> Loop:
        """Keep a loop device until the early boot is over; what is mounted then keeps itself."""
        self._held.append(loop)
        return loop

    def close(self) -> None:
        """Let go of everything but /run; the tree's memory is free then."""
        while self._held:
            self._held.pop().close()
        if self.tree.is_mount():
            run("umount", "--recursive", "--lazy", str(self.tree))

    def unpack(self, images: Sequence[bytes]) -> None:
        """Lay out the tree from the boot loader's initrds. Raises BootStopped when the kernel would not take them."""
        self.tree.mkdir(parents=True)
        # As the kernel limits its own: half of the memory.
        run("mount", "-t", "tmpfs", "-o", f"mode=755,size={max(self._memory_mib // 2, 1)}m", "rootfs", str(self.tree))
        try:
            for image in images:
                for archive in cpio.archives(image):
                    cpio.unpack(archive, self.tree)
        except cpio.BadArchive as error:
            raise BootStopped(f"Initramfs unpacking failed: {error}") from error
        if not (self.tree / "init").exists() and not (self.tree / "init").is_symlink():
            raise BootStopped("Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)")
        self._mount_api()
        self.helper("tmpfs", _MOUNT_TMPFS.replace("@MIB@", str(self._memory_mib)))
        # The kernel is the host's, which has what it has.
        self._script("modprobe", "#!/bin/bash\n")

    def _mount_api(self) -> None:
        """/proc with the machine's command line, /sys of its network, an empty /run, a /dev of its own."""
        for name in ("proc", "sys", "dev", "run", "sysroot", "tmp"):
            (self.tree / name).mkdir(exist_ok=True)
        run("mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", str(self.tree / "proc"))
        line = self.work / "cmdline"
        line.write_text(" ".join(self.arguments) + "\n")
        run("mount", "--bind", str(line), str(self.tree / "proc/cmdline"))
        # Read-only, so that NetworkManager looks for no udev.
        options = "ro,nosuid,nodev,noexec"
        run(*self._network(), "mount", "-t", "sysfs", "-o", options, "sysfs", str(self.tree / "sys"))
        # As systemd has it: a fifth of the memory.
        size = max(self._memory_mib // 5, 1)
        run("mount", "-t", "tmpfs", "-o", f"mode=755,nosuid,nodev,size={size}m", "tmpfs", str(self.run))
        dev = self.tree / "dev"
        run("mount", "-t", "tmpfs", "-o", "mode=755,nosuid,size=4m", "devtmpfs", str(dev))
        for name, number in _NODES.items():
            self.node(name, os.makedev(*number), kind=stat.S_IFCHR)
        self.node("loop-control", os.makedev(*_LOOP_CONTROL), kind=stat.S_IFCHR)
        for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            (dev / name).symlink_to(f"/proc/self/{target}")
        (dev / "shm").mkdir()

    def node(self, name: str, rdev: int, *, kind: int = stat.S_IFBLK) -> None:
        """A device's node in the tree's /dev."""
        os.mknod(self.tree / "dev" / name, kind | 0o660, rdev)

    def cards(self, names: Iterable[str]) -> None:
        """Make the machine's network cards look like hardware to /sys: the image's scripts delete what has no device,
        and a veth pair, unlike a card, can be deleted. Those that are not there are left out."""
        face = self.work / "card"
        (face / "device").mkdir(parents=True)
        for name in names:
            place = self.tree / "sys/devices/virtual/net" / name
            if place.is_dir():
                run("mount", "-t", "overlay", "-o", f"ro,lowerdir={face}:{place}", "card", str(place))

    def loop_nodes(self, spare: int = 64) -> None:
        """Nodes for the loop devices that this machine has and may get while programs of the tree ask for one."""
        numbers = [int(path.name[4:]) for path in Path("/sys/block").glob("loop*") if path.name[4:].isdecimal()]
        for number in range(max(numbers, default=0) + spare):
            if not (self.tree / "dev" / f"loop{number}").exists():
                self.node(f"loop{number}", os.makedev(_LOOP_MAJOR, number))

    def link(self, path: str, target: str) -> None:
        """A link below /dev/disk, as udev makes them: by-label/boot to vda3."""
        place = self.tree / "dev/disk" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(f"../../{target}")

    def helper(self, kind: str, script: str) -> None:
        """What mount(8) runs for file systems of a type, in place of the kernel's."""
        self._script(f"mount.{kind}", script)

    def _script(self, name: str, text: str) -> None:
        place = self.tree / _HELPERS / name
        place.unlink(missing_ok=True)
        place.write_text(text)
        place.chmod(0o755)

    def take_run(self) -> None:
        """Take /run, with all that is mounted in it, out of the tree: the machine gets it."""
        place = self.work / "run"
        place.mkdir()
        run("mount", "--move", str(self.run), str(place))
        self.run = place

    def _network(self) -> list[str]:
        return ["nsenter", f"--net={self._netns}"] if self._netns else []

    def program(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        """Run a program of the tree, in the machine's network; its output is no terminal's."""
        env = {
            "PATH": PATH,
            "HOME": "/",
            "TERM": "linux",
            "SYSTEMD_IN_INITRD": "1",
            "SYSTEMD_PROC_CMDLINE": " ".join(self.arguments),
        }
        env |= environment or {}
        # Nothing of it outlives this process.
        command = ["setpriv", "--pdeathsig", "KILL", *self._network(), "chroot", str(self.tree), *words]
        try:
            done = subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace")
            return Finished(124, f"{said}\n{words[0]} did not end within {PROGRAM_SECONDS:.0f} s\n")
        return Finished(done.returncode, done.stdout.decode(errors="replace"))
