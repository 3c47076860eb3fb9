"""The live ISO in RHCOS's layout, bootable by BIOS (isolinux) and UEFI (GRUB), from CD and from a disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.release.os.media import efi, liveboot
from lab.release.stage import progress
from lab.release.stage.store import Store

ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
ISOHYBRID = Path("/usr/lib/ISOLINUX/isohdpfx.bin")
LDLINUX = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
EFIBOOT_KIB = 8192


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
        efi.make_esp(store, efi.GRUB_OF_CDS, _place(tree, "/images/efiboot.img"), EFIBOOT_KIB)
        _place(tree, efi.CD_MARK).write_text(f"{volume_id}\n")
        _place(tree, efi.CD_CONFIG).write_text(efi.cd_config(volume_id, liveboot.GRUB_CFG_PATH))
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
