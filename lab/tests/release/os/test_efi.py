"""The machine OS as UEFI finds it: signed programs in their places, configurations that GRUB can read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.release.os.media import efi
from lab.release.stage.errors import ToolMissing
from lab.release.stage.store import Store

NEEDED = ("mcopy", "mkfs.vfat", "sbverify")
have = pytest.mark.skipif(
    any(shutil.which(name, path="/usr/bin:/usr/sbin:/sbin") is None for name in NEEDED)
    or not efi.GRUB_OF_DISKS.exists(),
    reason="mtools, dosfstools, sbsigntool or Debian's signed GRUB is not installed",
)


@have
def test_an_esp_has_what_is_signed_where_the_one_before_looks(tmp_path: Path) -> None:
    image = tmp_path / "esp.img"
    config = efi.disk_config(3, "/grub/grub.cfg")
    efi.make_esp(Store(tmp_path / "cache"), efi.GRUB_OF_DISKS, image, 8192, more={efi.DISK_CONFIG: config})
    for name, issuer in (("BOOTX64.EFI", "Microsoft"), ("grubx64.efi", "Debian"), ("mmx64.efi", "Debian")):
        taken = tmp_path / name
        subprocess.run(["mcopy", "-i", image, f"::/EFI/BOOT/{name}", taken], check=True)
        listed = subprocess.run(["sbverify", "--list", taken], capture_output=True, text=True, check=True).stdout
        assert issuer in listed, name
    read = subprocess.run(["mtype", "-i", image, f"::{efi.DISK_CONFIG}"], capture_output=True, text=True, check=True)
    assert read.stdout.replace("\r", "") == config


@pytest.mark.skipif(shutil.which("grub-script-check") is None, reason="grub-common is not installed")
@pytest.mark.parametrize("text", [efi.cd_config("node0-1", "/EFI/redhat/grub.cfg"), efi.disk_config(3, "/grub/g.cfg")])
def test_grub_reads_the_first_configurations(text: str) -> None:
    completed = subprocess.run(["grub-script-check"], input=text, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match=r"absent.* is missing on this host: apt-get install grub-efi-amd64-signed"):
        efi.make_esp(Store(tmp_path / "cache"), tmp_path / "absent", tmp_path / "esp.img", 8192)
