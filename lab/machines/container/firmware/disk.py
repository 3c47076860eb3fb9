"""Booting a disk: its partition table, its boot loader's configuration, its partitions as devices."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.machines.container.firmware import loops
from lab.machines.container.firmware.entry import Entry, NoEntry
from lab.machines.container.firmware.errors import BootStopped
from lab.machines.container.firmware.grub import Grub
from lab.machines.container.firmware.initramfs import Initramfs, ProgramFailed, run
from lab.machines.container.firmware.partitions import BIOS_BOOT, ESP, SECTOR, Partition, Table, read_table
from lab.machines.container.firmware.screen import Screen

CONFIGS = ("grub/grub.cfg", "grub2/grub.cfg", "boot/grub/grub.cfg", "boot/grub2/grub.cfg")
LOADER = "EFI/BOOT/BOOTX64.EFI"
#: File systems that both GRUB and the kernel read.
_READABLE = ("ext2", "ext3", "ext4", "xfs")


@dataclass(frozen=True)
class Slice:
    """A partition as a block device: ``node`` is where this boot can open it, ``facts`` what blkid knows of it."""

    partition: Partition
    name: str
    node: Path
    rdev: int
    facts: dict[str, str]


def table(device: Path, firmware: str) -> Table:
    """The table of a disk that ``firmware`` would start. Raises NoEntry with the firmware's words."""
    found = read_table(device)
    if found is None:
        raise NoEntry("not a bootable disk")
    if firmware == "bios":
        if not found.boot_code or (found.kind == "gpt" and found.of_kind(BIOS_BOOT) is None):
            raise NoEntry("not a bootable disk")
        return found
    system = found.of_kind(ESP) or found.of_kind("0xef")
    if system is None:
        raise NoEntry("not a bootable disk: it has no EFI system partition")
    try:
        run("mdir", "-b", "-i", f"{device}@@{system.start}", f"::{LOADER}")
    except ProgramFailed:
        raise NoEntry(f"not a bootable disk: no {LOADER} on its EFI system partition") from None
    return found


def slices(target: str, devices: Mapping[str, Path], found: Table, work: Path, hold: ExitStack) -> list[Slice]:
    """The disk's partitions as block devices: those that the runtime or the kernel has, else loop devices, which
    ``hold`` keeps.

    One file system must not be mounted by two devices, so what the machine itself will know a partition by comes first.
    """
    work.mkdir(parents=True, exist_ok=True)
    made = []
    infix = "p" if target[-1].isdigit() else ""
    device = devices[target]
    for partition in found.partitions:
        name = f"{target}{infix}{partition.number}"
        rdev = _runtimes(devices.get(name), partition) or _kernels(device, partition)
        if rdev is None:
            rdev = hold.enter_context(loops.attach(device, offset=partition.start, size=partition.size)).rdev
        node = work / name
        os.mknod(node, stat.S_IFBLK | 0o600, rdev)
        made.append(Slice(partition, name, node, rdev, _facts(node)))
    return made


def _runtimes(device: Path | None, partition: Partition) -> int | None:
    """The number of the runtime's device for a partition; None when it has none, or one of another size."""
    if device is None:
        return None
    with device.open("rb") as file:
        if file.seek(0, os.SEEK_END) != partition.size:
            return None
    return device.stat().st_rdev


def _kernels(device: Path, partition: Partition) -> int | None:
    """The number of the kernel's device for a partition; None when it scans none on this disk, or knows another one."""
    status = device.stat()
    if not stat.S_ISBLK(status.st_mode):
        return None
    disk = Path(f"/sys/dev/block/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")
    for number in disk.glob("*/partition"):
        place = number.parent
        if int(number.read_text()) == partition.number:
            start, size = (int((place / name).read_text()) * SECTOR for name in ("start", "size"))
            if (start, size) != (partition.start, partition.size):
                return None
            major, minor = (place / "dev").read_text().split(":")
            return os.makedev(int(major), int(minor))
    return None


def _facts(node: Path) -> dict[str, str]:
    try:
        said = run("blkid", "-p", "-o", "export", str(node))
    except ProgramFailed:
        return {}
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


@contextmanager
def mounted(source: Path, place: Path, *options: str) -> Iterator[Path]:
    """A file system, mounted for a while."""
    place.mkdir(parents=True, exist_ok=True)
    run("mount", *options, str(source), str(place))
    try:
        yield place
    finally:
        run("umount", str(place))


def entry(parts: list[Slice], place: Path, screen: Screen) -> tuple[Entry, Slice, list[bytes]]:
    """What the disk's boot loader starts, the partition that it was read from, and the initrds.

    Raises BootStopped: there is a boot loader, since the firmware found one, and it stops.
    """
    for part in parts:
        if part.facts.get("TYPE") not in _READABLE:
            continue
        # A boot loader replays no journal.
        option = "ro,norecovery" if part.facts["TYPE"] == "xfs" else "ro,noload"
        with mounted(part.node, place, "-o", option) as root:
            path = next((name for name in CONFIGS if (root / name).is_file()), None)
            if path is None:
                continue

            def read(name: str, root: Path = root) -> bytes | None:
                file = root / name.lstrip("/")
                return file.read_bytes() if file.is_file() else None

            chosen = Grub(read, screen.line).boot(f"/{path}")
            initrds = [read(name) for name in chosen.initrds]
            for name, content in zip(chosen.initrds, initrds, strict=True):
                if content is None:
                    raise BootStopped(f"error: file `{name}' not found.")
            return chosen, part, [content for content in initrds if content is not None]
    raise BootStopped("error: no such device: no partition has a configuration of GRUB")


def nodes(initramfs: Initramfs, parts: list[Slice]) -> None:
    """The partitions in the initramfs, with the links that udev makes."""
    for part in parts:
        initramfs.node(part.name, part.rdev)
        initramfs.link(f"by-partuuid/{part.partition.uuid}", part.name)
        if part.partition.name:
            initramfs.link(f"by-partlabel/{part.partition.name}", part.name)
        for key, directory in (("LABEL", "by-label"), ("UUID", "by-uuid")):
            if part.facts.get(key):
                initramfs.link(f"{directory}/{part.facts[key]}", part.name)
