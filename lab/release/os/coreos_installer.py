#!/usr/bin/python3 -I
"""Installs the machine OS on a disk: ``coreos-installer install [options] DEVICE``.

The command line, the progress on standard error and the files on the boot partition are those of CoreOS's program of
this name, as far as a caller sees them. It runs in the live system with the standard library alone, and is
/usr/bin/coreos-installer there.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import json
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

IMAGE = Path("/usr/lib/node0/metal.raw")
NETWORK_DIR = Path("/etc/NetworkManager/system-connections")
BOOT_PARTITION, ROOT_PARTITION = 3, 4
BLOCK = 1 << 20
# linux/fs.h
BLKRRPART, BLKZEROOUT, BLKGETSIZE64 = 0x125F, 0x127F, 0x80081272
PROGRESS_SECONDS = 1.0
# A program that takes this long is stuck: the service gives the whole stage no more.
COMMAND_SECONDS = 30 * 60.0
# The kernel rereads the partition table only when no process has the old partitions open; udev probes them just then.
REREAD_SECONDS = 60.0


class Reader(Protocol):
    """A source of an image's bytes: the raw end of a pipe, a file."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill ``buffer`` as far as there is data; 0 at the end."""


class InstallError(Exception):
    """The installation cannot go on; ``str()`` is one sentence."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Run the command line; argparse ends the program with code 2 on what it does not know."""
    parser = argparse.ArgumentParser(prog="coreos-installer")
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="write the machine OS to a disk")
    install.add_argument("device", metavar="DEVICE")
    install.add_argument("-i", "--ignition-file", type=Path, help="config that the first boot applies")
    install.add_argument(
        "-n", "--copy-network", action="store_true", help="copy NetworkManager's keyfiles to the installed system"
    )
    install.add_argument("--network-dir", type=Path, default=NETWORK_DIR)
    install.add_argument("--append-karg", action="append", default=[], metavar="ARG")
    install.add_argument("--delete-karg", action="append", default=[], metavar="ARG")
    install.add_argument("--firstboot-args", "--firstboot-kargs", default="", metavar="ARGS")
    install.add_argument(
        "-f", "--image-file", type=Path, default=IMAGE, help="a raw image to write instead of the live system's own"
    )
    # The image is the live system's own, so there is nothing to download or to check a signature of.
    install.add_argument("--insecure", action="store_true")
    install.add_argument("--insecure-ignition", action="store_true")
    install.add_argument("--offline", action="store_true")
    install.add_argument("--preserve-on-error", action="store_true")
    return parser.parse_args(argv)


def mib(count: int) -> str:
    """Bytes the way coreos-installer prints them: binary units, one digit."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


class Progress:
    """``Read disk 27.0 MiB/157.0 MiB (17%)`` on standard error, at most once a second, and at the end."""

    def __init__(self, total: int, emit: Callable[[str], None]) -> None:
        self.total, self.emit = total, emit
        self.shown = 0.0

    def update(self, done: int) -> None:
        """``done`` bytes of the image are behind us."""
        now = time.monotonic()
        if done < self.total and now - self.shown < PROGRESS_SECONDS:
            return
        self.shown = now
        self.emit(f"> Read disk {mib(done)}/{mib(self.total)} ({done * 100 // self.total}%)   ")


def emit_line(text: str) -> None:
    """One line on standard error; on a terminal the next one replaces it."""
    print(text, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def write_sparse(source: Reader, target: int, progress: Callable[[int], None]) -> int:
    """Copy to file descriptor ``target``, leaving out blocks of zeros; returns the bytes that the source had.

    The first block comes last: a disk whose writing was cut short has no partition table, and so no firmware starts it.
    The target must read as zeros where nothing is written. Blocks come from page-aligned memory, so it may be open for
    direct input and output, which under emulation takes half the time of the way through the page cache.
    """
    zeros = bytes(BLOCK)
    done = 0

    def write(block: memoryview, offset: int) -> None:
        written = 0
        while written < len(block):
            with block[written:] as rest:
                written += os.pwrite(target, rest, offset + written)

    with (
        mmap.mmap(-1, BLOCK) as head,
        memoryview(head) as first,
        mmap.mmap(-1, BLOCK) as page,
        memoryview(page) as block,
    ):
        while True:
            space = block if done else first
            filled = 0
            while filled < BLOCK:
                with space[filled:] as rest:
                    count = source.readinto(rest)
                if not count:
                    break
                filled += count
            if not filled:
                os.fsync(target)
                with first[: min(done, BLOCK)] as held:
                    write(held, 0)
                return done
            if done and page[:filled] != zeros[:filled]:
                with block[:filled] as full:
                    write(full, done)
            done += filled
            progress(done)


def zero(target: int, start: int, length: int) -> None:
    """Make a range of a disk read as zeros; the kernel does it quickly where the disk can."""
    fcntl.ioctl(target, BLKZEROOUT, struct.pack("=QQ", start, length))


def write_image(image: Path, device: str) -> None:
    """Write the disk image to ``device`` and make the kernel see its partitions.

    Raises:
        InstallError: the image does not fit, or was cut short.
    """
    total = image.stat().st_size
    disk = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        size = struct.unpack("=Q", fcntl.ioctl(disk, BLKGETSIZE64, bytes(8)))[0]
        if size < total:
            raise InstallError(f"{device} holds {mib(size)}, the image needs {mib(total)}")
        zero(disk, 0, total)
        # An old table at the disk's end would be found there.
        zero(disk, size // BLOCK * BLOCK - BLOCK, BLOCK + size % BLOCK)
        with open(image, "rb", buffering=0) as source:
            done = write_sparse(source, disk, Progress(total, emit_line).update)
        if done != total:
            raise InstallError(f"the image was cut short: {done} of {total} bytes")
        os.fsync(disk)
    finally:
        os.close(disk)
    print("", file=sys.stderr)


def reread(device: str) -> None:
    """Make the kernel reread the partition table, and udev the links. Partitions of mapped devices are mapped too."""
    if name := mapped(device):
        run("kpartx", "-u", "-s", "-p", "-part", f"/dev/mapper/{name}")
        run("udevadm", "settle", "--timeout=60")
        return
    deadline = time.monotonic() + REREAD_SECONDS
    while True:
        try:
            with open(device, "rb") as disk:
                fcntl.ioctl(disk, BLKRRPART)
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise InstallError(f"{device}: the kernel does not read the new partition table: {error}") from error
            time.sleep(0.2)
    run("udevadm", "settle", "--timeout=60")


def run(*command: str) -> str:
    """Run a program; returns what it printed.

    Raises:
        InstallError: it failed, with its output; it is missing, or did not end in time.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"{' '.join(command)} did not end within {COMMAND_SECONDS:.0f} s") from None
    except OSError as error:
        raise InstallError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise InstallError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def mapped(device: str) -> str:
    """Return the name of a device of the device mapper's, which a disk with several paths is; empty for others."""
    place = Path(f"/sys/class/block/{os.path.basename(device)}/dm/name")
    return place.read_text().strip() if place.exists() else ""


def partition(device: str, number: int) -> str:
    """Path of a partition: /dev/vda3, /dev/nvme0n1p3, /dev/mapper/mpatha-part3."""
    if name := mapped(device):
        return f"/dev/mapper/{name}-part{number}"
    return f"{device}p{number}" if device[-1].isdigit() else f"{device}{number}"


def is_mounted(device: str, mounts: str) -> bool:
    """Return whether a disk or a partition of it is among these mounts (proc(5))."""
    whole = f"/dev/mapper/{name}" if (name := mapped(device)) else device
    first = partition(device, 1)[:-1]
    return re.search(rf"^({re.escape(whole)}|{re.escape(first)}\d+)\s", mounts, re.MULTILINE) is not None


def grow_root(device: str) -> None:
    """Give the disk new GUIDs, and its last partition the rest of the disk."""
    info = run("sgdisk", "--info", str(ROOT_PARTITION), device)
    first = re.search(r"^First sector: (\d+)", info, re.MULTILINE)
    if first is None:
        raise InstallError(f"{device} has no partition {ROOT_PARTITION} after the image was written")
    number = str(ROOT_PARTITION)
    kind, name = f"--typecode={number}:8304", f"--change-name={number}:root"
    new = f"--new={number}:{first[1]}:0"
    run("sgdisk", "--move-second-header", f"--delete={number}", new, kind, name, "--randomize-guids", device)
    reread(device)


@contextlib.contextmanager
def mounted(source: str) -> Iterator[Path]:
    """Provide a partition's file system, mounted for a while."""
    place = tempfile.mkdtemp(prefix="coreos-installer-")
    run("mount", source, place)
    try:
        yield Path(place)
    finally:
        run("umount", place)
        os.rmdir(place)


def installed_cfg(root_uuid: str, boot_uuid: str, *, append: Sequence[str], delete: Sequence[str], default: str) -> str:
    """Make the file that grub.cfg sources: this disk's own partitions, and the kernel arguments as asked for.

    Raises:
        InstallError: an argument cannot stand in GRUB's quotes.
    """
    kargs = [word for word in default.split() if word not in delete]
    kargs += [word for argument in append for word in argument.split()]
    for word in kargs:
        if any(sign in word for sign in "\"'$\\`") or not word.isprintable():
            raise InstallError(f"kernel argument {word!r}: quotes, '$' and backslashes are not supported")
    return (
        f'set node0_root="PARTUUID={root_uuid}"\n'
        f'set node0_boot="PARTUUID={boot_uuid}"\n'
        f'set node0_kargs="{" ".join(kargs)}"\n'
    )


def firstboot_stamp(arguments: str) -> str:
    """Return the stamp that makes GRUB pass ignition.firstboot; GRUB sources it for the first boot's network
    arguments."""
    return f'set ignition_network_kcmdline="{arguments}"\n' if arguments else ""


def default_kargs(grub_cfg: str) -> str:
    """Return the kernel arguments that the image comes with."""
    match = re.search(r'^set node0_kargs="([^"]*)"', grub_cfg, re.MULTILINE)
    return match[1] if match else ""


def configure(device: str, options: argparse.Namespace) -> None:
    """Put config, network, kernel arguments and the stamp of the first boot on the boot partition."""
    boot_device, root_device = partition(device, BOOT_PARTITION), partition(device, ROOT_PARTITION)
    uuids = [run("blkid", "-p", "-s", "PART_ENTRY_UUID", "-o", "value", d).strip() for d in (root_device, boot_device)]
    with mounted(boot_device) as boot:
        default = default_kargs((boot / "grub/grub.cfg").read_text())
        text = installed_cfg(
            uuids[0], uuids[1], append=options.append_karg, delete=options.delete_karg, default=default
        )
        (boot / "grub/installed.cfg").write_text(text)
        if options.ignition_file is not None:
            place = boot / "ignition"
            place.mkdir(mode=0o700, exist_ok=True)
            with open(os.open(place / "config.ign", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as config:
                config.write(options.ignition_file.read_bytes())
        if options.copy_network:
            place = boot / "coreos-firstboot-network"
            place.mkdir(mode=0o700, exist_ok=True)
            for path in sorted(glob.glob(f"{options.network_dir}/*.nmconnection")):
                shutil.copy(path, place)
        (boot / "ignition.firstboot").write_text(firstboot_stamp(options.firstboot_args))
    grow_filesystem(root_device)


def grow_filesystem(device: str) -> None:
    """Give the root file system all of its partition: while it is mounted, which is quickest, or else before.

    ext4 grows a mounted one for CAP_SYS_RESOURCE alone, which a machine in a user namespace has not.
    """
    try:
        with mounted(device):
            run("resize2fs", device)
    except InstallError as error:
        print(f"Growing {device} unmounted, since: {error}", file=sys.stderr)
        run("e2fsck", "-f", "-p", device)
        run("resize2fs", device)


def check(options: argparse.Namespace) -> None:
    """Check everything that can be checked before the disk is touched."""
    if not Path(options.device).is_block_device():
        raise InstallError(f"{options.device} is no block device")
    if options.ignition_file is not None:
        try:
            json.loads(options.ignition_file.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InstallError(f"Ignition config {options.ignition_file}: {error}") from error
    if options.copy_network and not options.network_dir.is_dir():
        raise InstallError(f"network directory {options.network_dir} does not exist")
    if is_mounted(options.device, Path("/proc/mounts").read_text()):
        raise InstallError(f"{options.device} is in use: a partition of it is mounted")


def main(argv: Sequence[str]) -> int:
    """Install; returns the exit code, with the error on standard error."""
    options = parse(argv)
    try:
        options.device = os.path.realpath(options.device)
        check(options)
        print("Installing node0 machine OS x86_64", file=sys.stderr)
        write_image(options.image_file, options.device)
        reread(options.device)
        grow_root(options.device)
        configure(options.device, options)
    except (InstallError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    os.sync()
    print("Install complete.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
