"""The machine OS's boot loaders for UEFI: Debian's shim, signed by Microsoft, then Debian's GRUB, signed as the kernel
is. So it boots with secure boot and without.

A signed GRUB reads its configuration where Debian has it: from /EFI/debian of the file system that it was loaded from;
the one for CDs from /boot/grub of the medium with a file /.disk/info (Debian's grub2, debian/build-efi-images).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.release.stage import progress
from lab.release.stage.errors import ToolMissing
from lab.release.stage.store import Store

_SHIM = Path("/usr/lib/shim")
_GRUB = Path("/usr/lib/grub/x86_64-efi-signed")
GRUB_OF_DISKS = _GRUB / "grubx64.efi.signed"
GRUB_OF_CDS = _GRUB / "gcdx64.efi.signed"
PACKAGES = ("grub-efi-amd64-signed", "shim-signed")

# On a CD: what its GRUB looks for, and leads to the configuration that tools of CoreOS know (liveboot.GRUB_CFG_PATH).
CD_MARK = "/.disk/info"
CD_CONFIG = "/boot/grub/grub.cfg"
# On an ESP.
DISK_CONFIG = "/EFI/debian/grub.cfg"


def cd_config(volume_id: str, path: str) -> str:
    """GRUB's first configuration on a CD: on to `path` of the medium with this label, whatever others are there."""
    return f"search --no-floppy --set=root --label {volume_id}\nconfigfile ($root){path}\n"


def disk_config(partition: int, path: str) -> str:
    """GRUB's first configuration on an ESP: on to `path` on another partition of the disk that it was loaded from,
    whatever other disks carry."""
    return (
        "regexp --set=1:node0_disk '^([^,]+),' \"$root\"\n"
        f"set root=$node0_disk,gpt{partition}\nset prefix=($root)/grub\nconfigfile ($root){path}\n"
    )


def make_esp(store: Store, grub: Path, image: Path, kib: int, *, more: Mapping[str, str] | None = None) -> None:
    """Make a FAT file system of `kib` KiB with shim where UEFI looks for a boot loader, `grub` where shim
    does, and further files by their paths. Raises ToolMissing, CommandFailed."""
    log = store.log("os-esp")
    work = store.scratch("os-esp")
    try:
        files = {
            "/EFI/BOOT/BOOTX64.EFI": _existing(_SHIM / "shimx64.efi.signed", "shim-signed"),
            "/EFI/BOOT/mmx64.efi": _existing(_SHIM / "mmx64.efi.signed", "shim-signed"),
            "/EFI/BOOT/grubx64.efi": _existing(grub, "grub-efi-amd64-signed"),
        }
        for number, (path, text) in enumerate((more or {}).items()):
            files[path] = work / str(number)
            files[path].write_text(text)
        progress.run([progress.need("mkfs.vfat", "dosfstools"), "-C", str(image), str(kib)], label="mkfs.vfat", log=log)
        folders = dict.fromkeys(str(parent) for path in files for parent in reversed(Path(path).parents[:-1]))
        mmd = [progress.need("mmd", "mtools"), "-i", str(image), *(f"::{folder}" for folder in folders)]
        progress.run(mmd, label="mmd", log=log)
        for path, source in files.items():
            copy = [progress.need("mcopy", "mtools"), "-i", str(image), str(source), f"::{path}"]
            progress.run(copy, label="mcopy", log=log)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _existing(path: Path, package: str) -> Path:
    if not path.exists():
        raise ToolMissing(str(path), f"apt-get install {package}")
    return path
