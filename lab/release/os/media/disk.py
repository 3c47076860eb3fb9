"""The metal disk image: GPT, GRUB for BIOS and UEFI, a boot and a root file system, made from plain files.

Nothing is mounted or looped: mke2fs fills its file systems from directories, mtools fills the ESP, and GRUB's BIOS
boot code is put in place by hand the way grub-bios-setup does it.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.release.os.customise import DATA
from lab.release.os.media import efi
from lab.release.os.media.liveboot import EMULATION_KARGS, LayoutError
from lab.release.stage import progress
from lab.release.stage.store import Store

MIB = 1 << 20
SECTOR = 512


@dataclass(frozen=True)
class Partition:
    """A partition: number, start and size in MiB, GPT type, name (which is its file system's label too)."""

    number: int
    start: int
    size: int
    kind: str
    name: str


BIOS_BOOT = Partition(1, 1, 1, "21686148-6449-6E6F-744E-656564454649", "bios-boot")
ESP = Partition(2, 2, 8, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "esp")
BOOT = Partition(3, 10, 240, "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "boot")
ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
ROOT_START = 250
# The root grows at installation; this much stays free until then (Ignition of an unattended copy, journal).
ROOT_SPARE = 64

GRUB_MODULES = ("part_gpt", "ext2", "normal", "linux", "echo", "boot", "test", "configfile", "minicmd", "ls", "loadenv")
# The prefix without a disk means: on the disk that this was loaded from, whatever other disks carry.
GRUB_PREFIX = f"(,gpt{BOOT.number})/grub"

# Kernel arguments of the installed system. cgroup v1 for kubelet 1.20 (reference feasibility.md).
DISK_KARGS = (
    "ignition.platform.id=metal console=tty0 console=ttyS0,115200n8 systemd.unified_cgroup_hierarchy=0 "
    f"quiet systemd.show_status=1 {EMULATION_KARGS}"
)


def build_disk(store: Store, root: Path, kernel: Path, initramfs: Path, *, out: Path, more_kargs: str = "") -> int:
    """Write the raw image to ``out`` and return its size in bytes; its system boots with ``more_kargs`` too."""
    work = store.scratch("os-disk")
    try:
        root_image = work / "root.img"
        root_size = _root_filesystem(store, root, work, root_image)
        boot_image = work / "boot.img"
        boot_filesystem(store, work, kernel, initramfs, image=boot_image, kargs=f"{DISK_KARGS} {more_kargs}".strip())
        esp_image = work / "esp.img"
        efi.make_esp(
            store,
            efi.GRUB_OF_DISKS,
            esp_image,
            ESP.size * 1024,
            more={efi.DISK_CONFIG: efi.disk_config(BOOT.number, "/grub/grub.cfg")},
        )
        core = _grub(store, work, "i386-pc", "biosdisk")
        root_part = Partition(4, ROOT_START, root_size, ROOT_TYPE, "root")
        _partition_table(store, out, (BIOS_BOOT, ESP, BOOT, root_part))
        for part, image in ((ESP, esp_image), (BOOT, boot_image), (root_part, root_image)):
            _put(store, image, out, part.start)
        _bios_boot(out, core)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out.stat().st_size


def bios_boot_code(core: bytes, boot: bytes, lba: int) -> tuple[bytes, bytes]:
    """GRUB's boot.img for the master boot record (440 bytes) and core.img, with the place of core.img in each.

    Offsets are those of GRUB's boot.S and diskboot.S: the sector of core.img in boot.img, the jump that is only for
    floppies, and the block list at the end of core.img's first sector.
    """
    if len(core) < SECTOR:
        raise LayoutError("GRUB's core image is shorter than a sector")
    record = bytearray(boot[:SECTOR])
    struct.pack_into("<Q", record, 0x5C, lba)
    record[0x66:0x68] = b"\x90\x90"
    image = bytearray(core)
    struct.pack_into("<Q", image, 0x1F4, lba + 1)
    return bytes(record[:440]), bytes(image)


def _mke2fs(store: Store, label: str, source: Path, image: Path, *, mib: int, options: Sequence[str]) -> None:
    # Without features that resize2fs or GRUB's ext2 driver of this Debian might not know.
    command = [progress.need("mke2fs", "e2fsprogs"), "-q", "-F", "-t", "ext4", "-L", label, "-d", str(source)]
    progress.run(
        [*command, *options, str(image), f"{mib}M"], label=f"mke2fs {label}", log=store.log(f"os-mke2fs-{label}")
    )


def _root_filesystem(store: Store, root: Path, work: Path, image: Path) -> int:
    """Make the root file system; returns its size in MiB."""
    tree = work / "root"
    progress.run(["cp", "-al", str(root), str(tree)], label="link", log=store.log("os-link"))
    for name in ("usr/lib/dracut", "boot"):
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("boot", "dev", "proc", "run", "sys", "tmp"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    used = subprocess.run(["du", "-sm", str(tree)], capture_output=True, text=True, check=True).stdout.split()[0]
    size = int(int(used) * 1.06) + ROOT_SPARE
    # By default mke2fs makes 1 KiB blocks in a file system of this size, and they cannot be changed later.
    options = ["-b", "4096", "-m", "1", "-N", "65536", "-O", "^metadata_csum_seed,^orphan_file"]
    options += ["-J", "size=16", "-E", "lazy_itable_init=1,lazy_journal_init=1,resize=67108864"]
    _mke2fs(store, "root", tree, image, mib=size, options=options)
    return size


def boot_filesystem(store: Store, work: Path, kernel: Path, initramfs: Path, *, image: Path, kargs: str) -> None:
    """Make `image`: kernel, initramfs and GRUB's menu with the kernel arguments `kargs`."""
    tree = work / "boot"
    (tree / "grub").mkdir(parents=True)
    shutil.copyfile(kernel, tree / "vmlinuz")
    shutil.copyfile(initramfs, tree / "initrd.img")
    config = (DATA / "boot" / "grub.cfg").read_text().replace("@@KARGS@@", kargs)
    (tree / "grub" / "grub.cfg").write_text(config)
    (tree / "ignition.firstboot").touch()
    options = ["-m", "0", "-O", "^metadata_csum_seed,^orphan_file,^64bit,^has_journal"]
    _mke2fs(store, "boot", tree, image, mib=BOOT.size, options=options)


def _grub(store: Store, work: Path, target: str, *modules: str) -> Path:
    image = work / f"core-{target}.img"
    command = [progress.need("grub-mkimage", "grub-common"), "-O", target, "-p", GRUB_PREFIX, "-o", str(image)]
    progress.run([*command, *GRUB_MODULES, *modules], label="grub-mkimage", log=store.log(f"os-grub-{target}"))
    return image


def _partition_table(store: Store, out: Path, partitions: tuple[Partition, ...]) -> None:
    last = partitions[-1]
    with out.open("wb") as file:
        # One MiB after the last partition for the second table.
        file.truncate((last.start + last.size + 1) * MIB)
    lines = ["label: gpt"]
    lines += [f"start={p.start}MiB, size={p.size}MiB, type={p.kind}, name={p.name}" for p in partitions]
    table = out.with_suffix(".sfdisk")
    table.write_text("\n".join(lines) + "\n")
    script = [progress.need("sfdisk", "fdisk"), "-q", str(out)]
    progress.run(["sh", "-c", 'exec "$@" < "$0"', str(table), *script], label="sfdisk", log=store.log("os-sfdisk"))
    table.unlink()


def _put(store: Store, image: Path, out: Path, mib: int) -> None:
    command = ["dd", f"if={image}", f"of={out}", "bs=1M", f"seek={mib}", "conv=notrunc,sparse", "status=none"]
    progress.run(command, label="dd", log=store.log("os-dd"))


def _bios_boot(out: Path, core: Path) -> None:
    lba = BIOS_BOOT.start * MIB // SECTOR
    boot = Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()
    record, image = bios_boot_code(core.read_bytes(), boot, lba)
    if len(image) > BIOS_BOOT.size * MIB:
        raise LayoutError(f"GRUB's core image has {len(image)} bytes, its partition {BIOS_BOOT.size} MiB")
    with out.open("r+b") as disk:
        disk.write(record)
        disk.seek(lba * SECTOR)
        disk.write(image)
