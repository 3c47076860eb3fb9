"""The live ISO in RHCOS's layout, bootable by BIOS (isolinux) and UEFI (GRUB), from CD and from a disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.release.os.media import liveboot
from lab.release.os.media.disk import make_esp
from lab.release.stage import progress
from lab.release.stage.store import Store

ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
ISOHYBRID = Path("/usr/lib/ISOLINUX/isohdpfx.bin")
LDLINUX = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
EFIBOOT_KIB = 4096

_GRUB_MODULES = (
    "part_gpt",
    "iso9660",
    "fat",
    "search",
    "normal",
    "linux",
    "echo",
    "boot",
    "test",
    "configfile",
    "minicmd",
)


def build_iso(
    store: Store, volume_id: str, *, kernel: Path, initramfs: Path, rootfs: Path, out: Path, more_kargs: str = ""
) -> None:
    """Write the ISO to ``out``; the embed area is zero, the kargs areas hold the defaults and ``more_kargs``."""
    tree = store.scratch("os-iso")
    try:
        kargs = f"{liveboot.live_kargs(volume_id)} {more_kargs}".strip()
        files = liveboot.boot_files(kargs)
        for source, path in (
            (kernel, liveboot.KERNEL_PATH),
            (initramfs, liveboot.INITRD_PATH),
            (rootfs, liveboot.ROOTFS_PATH),
        ):
            _place(tree, path).hardlink_to(source)
        _place(tree, liveboot.IGNITION_PATH).write_bytes(bytes(liveboot.IGNITION_AREA_BYTES))
        for file in files:
            _place(tree, file.path).write_bytes(file.content)
        for name, text in (
            ("kargs", liveboot.kargs_json(kargs, files)),
            ("igninfo", liveboot.igninfo_json()),
            ("features", liveboot.features_json()),
        ):
            _place(tree, f"/coreos/{name}.json").write_text(text)
        shutil.copyfile(ISOLINUX, _place(tree, "/isolinux/isolinux.bin"))
        shutil.copyfile(LDLINUX, _place(tree, "/isolinux/ldlinux.c32"))
        _efi_image(store, volume_id, _place(tree, "/images/efiboot.img"))
        command = [progress.need("xorriso", "xorriso"), "-as", "mkisofs", "-quiet", "-o", str(out), "-V", volume_id]
        # Level 1: primary names in 8.3, as RHCOS's tools look them up; Rock Ridge has the real ones.
        command += ["-iso-level", "1", "-R"]
        command += ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot"]
        command += ["-boot-load-size", "4", "-boot-info-table", "-eltorito-alt-boot", "-e", "images/efiboot.img"]
        command += ["-no-emul-boot", "-isohybrid-mbr", str(ISOHYBRID), "-isohybrid-gpt-basdat", str(tree)]
        progress.run(command, label="xorriso", log=store.log("os-xorriso"))
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _place(tree: Path, path: str) -> Path:
    target = tree / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _efi_image(store: Store, volume_id: str, image: Path) -> None:
    """El Torito's UEFI image: a GRUB that finds the medium by its label and reads the configuration from there."""
    work = store.scratch("os-efi")
    try:
        early = work / "early.cfg"
        early.write_text(
            f"search --no-floppy --set=root --label {volume_id}\n"
            "set prefix=($root)/EFI/redhat\n"
            f"configfile ($root){liveboot.GRUB_CFG_PATH}\n"
        )
        program = work / "BOOTX64.EFI"
        command = [progress.need("grub-mkimage", "grub-common"), "-O", "x86_64-efi", "-p", "/EFI/redhat"]
        command += ["-c", str(early), "-o", str(program), *_GRUB_MODULES]
        progress.run(command, label="grub-mkimage", log=store.log("os-grub-iso"))
        make_esp(store, program, image, EFIBOOT_KIB)
    finally:
        shutil.rmtree(work, ignore_errors=True)
