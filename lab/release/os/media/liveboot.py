"""The live ISO in RHCOS's layout, bootable by BIOS (isolinux) and UEFI (GRUB), from CD and from a disk; its boot
configuration has areas that are rewritten in place (reference installer.md §3.1, §3.2).

A kargs area is the kernel's arguments, an end of line, and ``#`` up to its size: the rest of it is a comment to both
boot loaders. ``/coreos/kargs.json`` says where the areas are, ``/coreos/igninfo.json`` where the config goes. A comment
closes each area: openshift-install looks for that, and not for the offsets.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.release.os.media import efi
from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import Store

IGNITION_AREA_BYTES = 262144
KARGS_AREA_BYTES = 1024
KARGS_END = "\n"
KARGS_PAD = "#"

KERNEL_PATH = "/images/pxeboot/vmlinuz"
INITRD_PATH = "/images/pxeboot/initrd.img"
ROOTFS_PATH = "/images/pxeboot/rootfs.img"
IGNITION_PATH = "/images/ignition.img"
# Tools that make the minimal ISO look for the file where Red Hat's systems have it.
GRUB_CFG_PATH = "/EFI/redhat/grub.cfg"
ISOLINUX_CFG_PATH = "/isolinux/isolinux.cfg"

_MARK = "@@KARGS@@"
_AREA = f"{_MARK}# COREOS_KARG_EMBED_AREA"

GRUB_CFG = f"""\
set timeout=0
set default=0
menuentry 'node0 machine OS (live)' {{
    linux {KERNEL_PATH} {_AREA}
    initrd {INITRD_PATH} {IGNITION_PATH}
}}
"""

ISOLINUX_CFG = f"""\
serial 0 115200
default linux
prompt 0
timeout 1
label linux
  kernel {KERNEL_PATH}
  append initrd={INITRD_PATH},{IGNITION_PATH} {_AREA}
"""


ISOLINUX = Path("/usr/lib/ISOLINUX/isolinux.bin")
ISOHYBRID = Path("/usr/lib/ISOLINUX/isohdpfx.bin")
LDLINUX = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
EFIBOOT_KIB = 8192


class LayoutError(ReleaseError):
    """An image does not have, or cannot have, the required layout (offset, size, missing file)."""


@dataclass(frozen=True)
class BootFile:
    """A boot loader's file with one kargs area at byte ``offset``."""

    path: str
    content: bytes
    offset: int


# Kernel features that are expensive under QEMU's software emulation. The kernel clears each page that it allocates,
# those with translated code included: 41 instead of 25 CPU seconds from power-on to multi-user. It takes the TSCs of
# several emulated CPUs for unsynchronised and reads the HPET instead, a device behind QEMU's global lock; they are one
# clock, whose rate the kernel gets as an argument (lab.release.os.clock). The ciphers' self-tests cost time, and can
# hang a machine of several CPUs forever: they run on all of them while one patches a branch of theirs, and QEMU before
# 8.1 may then keep the intermediate code (an int3).
EMULATION_KARGS = "init_on_alloc=0 tsc=reliable cryptomgr.notests"


def live_kargs(volume_id: str) -> str:
    """Default kernel arguments of the live system. The last console is the one that systemd and the lab use."""
    return (
        f"coreos.liveiso={volume_id} ignition.firstboot ignition.platform.id=metal "
        f"console=tty0 console=ttyS0,115200n8 quiet systemd.show_status=1 {EMULATION_KARGS}"
    )


def kargs_area(kargs: str, size: int = KARGS_AREA_BYTES) -> bytes:
    """Return the content of an area that holds ``kargs``.

    Raises:
        LayoutError: they do not fit; the text must be shorter than the area.
    """
    text = kargs.strip().encode() + KARGS_END.encode()
    if len(text) > size:
        raise LayoutError(f"kernel arguments of {len(text) - 1} bytes do not fit an area of {size}")
    return text + KARGS_PAD.encode() * (size - len(text))


def boot_file(path: str, template: str, kargs: str) -> BootFile:
    """Return a boot loader's file made from a template whose mark stands where the area begins."""
    before, _, after = template.partition(_MARK)
    start = before.encode()
    return BootFile(path, start + kargs_area(kargs) + after.encode(), len(start))


def boot_files(kargs: str) -> tuple[BootFile, BootFile]:
    """Return the UEFI (GRUB) and the BIOS (isolinux) configuration."""
    return boot_file(GRUB_CFG_PATH, GRUB_CFG, kargs), boot_file(ISOLINUX_CFG_PATH, ISOLINUX_CFG, kargs)


def kargs_json(kargs: str, files: tuple[BootFile, ...]) -> str:
    """``/coreos/kargs.json``: the default text, the areas' size, and where they are in which files."""
    areas = [
        {"path": file.path.lstrip("/"), "offset": file.offset, "pad": KARGS_PAD, "end": KARGS_END} for file in files
    ]
    return json.dumps({"default": kargs.strip(), "size": KARGS_AREA_BYTES, "files": areas}, indent=2) + "\n"


def igninfo_json() -> str:
    """``/coreos/igninfo.json``: the whole of one file is the embed area."""
    return json.dumps({"file": IGNITION_PATH.lstrip("/")}, indent=2) + "\n"


def features_json() -> str:
    """``/coreos/features.json``: what the initramfs and the install program know of CoreOS's interfaces."""
    return json.dumps({"live-initrd-network": True}, indent=2) + "\n"


def build_iso(
    store: Store, volume_id: str, *, kernel: Path, initramfs: Path, rootfs: Path, out: Path, more_kargs: str = ""
) -> None:
    """Write the ISO to ``out``; the embed area is zero, the kargs areas hold the defaults and ``more_kargs``."""
    tree = store.scratch("os-iso")
    try:
        kargs = f"{live_kargs(volume_id)} {more_kargs}".strip()
        files = boot_files(kargs)
        for source, path in (
            (kernel, KERNEL_PATH),
            (initramfs, INITRD_PATH),
            (rootfs, ROOTFS_PATH),
        ):
            _place(tree, path).hardlink_to(source)
        _place(tree, IGNITION_PATH).write_bytes(bytes(IGNITION_AREA_BYTES))
        for file in files:
            _place(tree, file.path).write_bytes(file.content)
        for name, text in (
            ("kargs", kargs_json(kargs, files)),
            ("igninfo", igninfo_json()),
            ("features", features_json()),
        ):
            _place(tree, f"/coreos/{name}.json").write_text(text)
        shutil.copyfile(ISOLINUX, _place(tree, "/isolinux/isolinux.bin"))
        shutil.copyfile(LDLINUX, _place(tree, "/isolinux/ldlinux.c32"))
        efi.make_esp(store, efi.GRUB_OF_CDS, _place(tree, "/images/efiboot.img"), EFIBOOT_KIB)
        _place(tree, efi.CD_MARK).write_text(f"{volume_id}\n")
        _place(tree, efi.CD_CONFIG).write_text(efi.cd_config(volume_id, GRUB_CFG_PATH))
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
