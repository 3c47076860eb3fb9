"""Disks and CDs of a few sectors that say on the serial line what was booted, and restart the machine at Return."""

from __future__ import annotations

import subprocess
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pycdlib

from lab.machines.disks import MIB, run_tool

# The partition of `uefi_disk`.
PARTITION = UUID("0b6d9a1e-3c64-4b57-9f3e-6f6465300001")
FIRST_SECTOR, SECTORS = MIB // 512, 8 * MIB // 512
_ESP = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
GRUB = Path("/usr/lib/grub/x86_64-efi/kernel.img")
_OUT = b"\xee"  # out dx, al


def boot_code(says: str) -> bytes:
    """Return a BIOS disk's first sector that says this on the serial line, and restarts the machine at a key."""
    code = b"\xba\xf8\x03" + b"".join(bytes([0xB0, char]) + _OUT for char in f"{says}\r\n".encode())
    # Without interrupts, or the firmware would read the key; then the keyboard controller's reset.
    code += b"\xfa\xba\xfd\x03" + b"\xec\xa8\x01\x74\xfb" + b"\xb0\xfe\xe6\x64\xf4\xeb\xfd"
    return code.ljust(510, b"\0") + b"\x55\xaa"


def bios_disk(disk: Path, says: str) -> None:
    """Have a disk boot, by a BIOS."""
    with disk.open("r+b") as image:
        image.write(boot_code(says))


def cd(path: Path, code: bytes) -> Path:
    """Return a CD for BIOSes, which run this code, at that path."""
    sector = code.ljust(2048, b"\0")
    iso = pycdlib.PyCdlib()
    iso.new()
    iso.add_fp(BytesIO(sector), len(sector), "/BOOT.;1")
    iso.add_eltorito("/BOOT.;1", bootcatfile="/BOOT.CAT;1")
    iso.write(str(path))
    iso.close()
    return path


def bios_cd(folder: Path, says: str) -> Path:
    """Return a CD for BIOSes, in a folder of its own."""
    return cd(folder / "small.iso", boot_code(says))


def uefi_disk(disk: Path, folder: Path, says: str) -> None:
    """Have a disk boot, by UEFI: a partition with the loader that firmware looks for by itself. `folder` is an empty
    one."""
    lines = f"label: gpt\nstart={FIRST_SECTOR}, size={SECTORS}, type={_ESP}, uuid={PARTITION}\n"
    run_tool(["sfdisk", "-q", str(disk)], lines)
    with disk.open("r+b") as image:
        image.seek(FIRST_SECTOR * 512)
        image.write(_file_system(folder, says).read_bytes())


def uefi_cd(folder: Path, says: str) -> Path:
    """Return a CD for UEFI, in an empty folder."""
    (folder / "disc").mkdir()
    _file_system(folder, says).rename(folder / "disc/efiboot.img")
    words = ["-e", "efiboot.img", "-no-emul-boot", "-o", str(folder / "small.iso"), str(folder / "disc")]
    run_tool(["xorriso", "-as", "mkisofs", "-quiet", *words])
    return folder / "small.iso"


def _file_system(folder: Path, says: str) -> Path:
    """Return the partition with a GRUB that has nothing to boot."""
    (folder / "grub.cfg").write_text(f'echo "{says}"\nread\nreboot\n')
    words = ["-c", str(folder / "grub.cfg"), "-o", str(folder / "grub.efi"), "-p", "/", "echo", "read", "reboot"]
    subprocess.run(["grub-mkimage", "-O", "x86_64-efi", *words], check=True, timeout=60)
    image = folder / "esp.img"
    run_tool(["mkfs.vfat", "-C", str(image), str(SECTORS // 2)])
    run_tool(["mmd", "-i", str(image), "::/EFI", "::/EFI/BOOT"])
    run_tool(["mcopy", "-i", str(image), str(folder / "grub.efi"), "::/EFI/BOOT/BOOTX64.EFI"])
    return image
