"""A CD with the machine OS's kernel and a few of its programs, which runs one script: quick to boot when emulated.

And the marks of tests that need a lab, or such a CD."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.host import preflight
from lab.testing.containers.kit import tree as built_tree
from lab.topology import Topology

ISOLINUX = (Path("/usr/lib/ISOLINUX/isolinux.bin"), Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"))
NEEDS_KERNEL = (
    pytest.mark.skipif(built_tree() is None, reason="no release was built here: there is no kernel to boot"),
    pytest.mark.skipif(not all(file.exists() for file in ISOLINUX), reason="isolinux is not installed"),
)
PROGRAMS = (
    "bin/sh", "bin/ip", "bin/kmod", "bin/lsblk", "bin/udevadm", "bin/ping", "bin/cat", "bin/mount", "bin/sleep",
    "bin/mkdir", "bin/ls", "bin/date", "bin/dmesg", "bin/dd", "lib/systemd/systemd-udevd",
)  # fmt: skip
MODULES = (
    "virtio_pci", "virtio_net", "virtio_blk", "virtio_scsi", "ahci", "sd_mod", "nvme", "xhci_pci", "usb_storage",
    "e1000e", "bonding", "8021q", "tpm_crb",
)  # fmt: skip
_HEAD = """#!/bin/sh
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /run
exec > /dev/ttyS0 2>&1
/lib/systemd/systemd-udevd --daemon
modprobe -a {modules}
udevadm trigger --action=add
udevadm settle --timeout=60
"""
_TAIL = """
echo SCRIPT ENDED
while :; do sleep 1000; done
"""


def needs_lab(shape: Topology) -> pytest.MarkDecorator:
    """Mark tests that are skipped where no lab of this shape runs; the reason has all problems."""
    problems = preflight.problems(shape, Path("/"), "")
    return pytest.mark.skipif(bool(problems), reason=f"this machine cannot run a lab: {'; '.join(problems)}")


def _libraries(tree: Path, program: str) -> list[str]:
    output = subprocess.run(["chroot", tree, "ldd", f"/{program}"], capture_output=True, text=True, check=False).stdout
    words = (word for line in output.splitlines() for word in line.split() if word.startswith("/"))
    return [word.lstrip("/") for word in words]


def _module_files(tree: Path) -> list[str]:
    """List the modules and their dependencies, in the order of loading."""
    [folder] = (tree / "lib/modules").iterdir()
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[file] = others.split()
    files: list[str] = []

    def take(file: str) -> None:
        for other in reversed(needs[file]):
            take(other)
        if file not in files:
            files.append(file)

    for name in MODULES:
        wanted = {f"{name}.ko", f"{name.replace('_', '-')}.ko"}
        for file in needs:
            if file.rpartition("/")[2] in wanted:
                take(file)
    # Where modprobe looks.
    files += [path.name for path in folder.glob("modules.*")]
    return [f"lib/modules/{folder.name}/{file}" for file in files]


def build(tree: Path, work: Path, script: str) -> Path:
    """Make the CD's image, for BIOS, from the machine OS's root tree. The script's output goes to the serial line."""
    disc = _disc(tree, work, script)
    for part in ISOLINUX:
        shutil.copyfile(part, disc / part.name)
    (disc / "isolinux.cfg").write_text(
        "default x\nprompt 0\nlabel x\nkernel /vmlinuz\nappend initrd=/initrd console=ttyS0 quiet\n"
    )
    words = ["-b", "isolinux.bin", "-c", "boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]
    return _image(disc, work, *words)


# Debian's: shim, which Microsoft signed; GRUB for CDs, which Debian signed; both with what Debian itself trusts in it.
SHIM, GRUB = Path("/usr/lib/shim/shimx64.efi.signed"), Path("/usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed")


def build_uefi(tree: Path, work: Path, script: str, *, shim: Path = SHIM, signed_kernel: bool = True) -> Path:
    """Make a CD for UEFI, with Debian's signed GRUB and kernel, or with an unsigned kernel."""
    disc = _disc(tree, work, script)
    if not signed_kernel:
        completed = subprocess.run(
            ["sbattach", "--remove", disc / "vmlinuz"], capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, completed.stderr
    (disc / ".disk").mkdir()
    (disc / ".disk/info").write_text("a script of the lab's tests\n")
    (disc / "boot/grub").mkdir(parents=True)
    (disc / "boot/grub/grub.cfg").write_text(
        "echo GRUB RUNS\nlinux /vmlinuz console=ttyS0 quiet\ninitrd /initrd\nboot\n"
    )
    image = disc / "efiboot.img"
    for command in (
        ["mkfs.vfat", "-C", image, "8192"],
        ["mmd", "-i", image, "::/EFI", "::/EFI/BOOT"],
        ["mcopy", "-i", image, shim, "::/EFI/BOOT/BOOTX64.EFI"],
        ["mcopy", "-i", image, GRUB, "::/EFI/BOOT/grubx64.efi"],
    ):
        subprocess.run(command, capture_output=True, check=True)
    return _image(disc, work, "-e", "efiboot.img", "-no-emul-boot")


def _disc(tree: Path, work: Path, script: str) -> Path:
    root, disc = work / "initramfs", work / "disc"
    files = [*PROGRAMS, *(library for program in PROGRAMS for library in _libraries(tree, program))]
    modules = _module_files(tree)
    for file in dict.fromkeys([*files, *modules]):
        source = tree / _real(tree, file)
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, root / file)
    for folder in ("lib/udev", "lib/systemd/network"):
        shutil.copytree(tree / "usr" / folder, root / folder, symlinks=True, dirs_exist_ok=True)
    for name in ("proc", "sys", "dev", "etc", "run"):
        (root / name).mkdir()
    (root / "bin/modprobe").symlink_to("kmod")
    (root / "init").write_text(_HEAD.format(modules=" ".join(MODULES)) + script + _TAIL)
    (root / "init").chmod(0o755)
    disc.mkdir()
    names = "\0".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    pack = ["cpio", "--null", "--create", "--format=newc", "--quiet"]
    packed = subprocess.run(pack, cwd=root, input=names.encode(), capture_output=True, check=True).stdout
    (disc / "initrd").write_bytes(packed)
    [kernel] = (tree / "boot").glob("vmlinuz-*")
    shutil.copyfile(kernel, disc / "vmlinuz")
    return disc


def _image(disc: Path, work: Path, *words: str) -> Path:
    image = work / "script.iso"
    subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-J", "-R", *words, "-o", image, disc], check=True)
    return image


def _real(tree: Path, file: str) -> str:
    """Resolve a link within the tree."""
    resolved = subprocess.run(
        ["chroot", tree, "readlink", "-f", f"/{file}"], capture_output=True, text=True, check=True
    )
    return resolved.stdout.strip().lstrip("/")
