"""ISO images that a firmware starts, made by xorriso."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def bootable(folder: Path, files: Mapping[str, bytes], *, bios: bool = False, uefi: bool = False) -> Path:
    """Write an image of these files with a boot image for each of these firmwares."""
    tree, image = folder / "tree", folder / "medium.iso"
    for name, content in {**files, "boot.img": bytes(4096)}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", "label"]
    command += ["-b", "boot.img", "-no-emul-boot"] if bios else []
    command += ["-eltorito-alt-boot", "-e", "boot.img", "-no-emul-boot"] if uefi else []
    subprocess.run([*command, "-o", str(image), str(tree)], check=True, capture_output=True, timeout=60)
    return image
