"""The root is kept in memory while Ignition makes its file system anew, put back, and found by the boot loader again.

File systems and mounts are real; what Ignition does between the two scripts is mke2fs here. On a LUKS volume, with a
TPM, it is done by lab/tests/machines/test_live_luks.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.release.os import build

DRACUT = Path(build.__file__).parent / "data/dracut"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root"),
    pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed"),
]
INSTALLED = 'set node0_root="PARTUUID=1"\nset node0_boot="PARTUUID=2"\nset node0_kargs="quiet console=ttyS0"\n'
# In mounts of its own: the initramfs' /run, the scripts, and Ignition's part between them.
PLACE = """
set -e
cd "$1"
mount -t tmpfs tmpfs /run
cp ignition.json /run/
bash keep
mke2fs -q -F -t ext4 -U 11111111-2222-4333-8444-555555555555 new.img 32M
bash renew
find sysroot -type f -printf '%P %m %s\\n'
"""


def filesystem(image: Path, files: Path) -> None:
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", files, image, "32M"], check=True, timeout=60)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "old/etc").mkdir(parents=True)
    (tmp_path / "old/etc/shadow").write_text("x" * 5000)
    (tmp_path / "old/etc/shadow").chmod(0o600)
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "boot/grub/installed.cfg").write_text(INSTALLED)
    filesystem(tmp_path / "old.img", tmp_path / "old")
    filesystem(tmp_path / "boot.img", tmp_path / "boot")
    (tmp_path / "sysroot").mkdir()
    for name in ("keep", "renew"):
        text = (DRACUT / f"91node0-luks/node0-root-{name}").read_text()
        (tmp_path / name).write_text(text.replace("/usr/lib/node0/common.sh", str(DRACUT / "90node0/common.sh")))
    (tmp_path / "cmdline").write_text(f"quiet root={tmp_path}/old.img rw boot={tmp_path}/boot.img\n")
    return tmp_path


def run(root: Path, *filesystems: dict[str, Any]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Return the two scripts' run, and the boot loader's configuration afterwards."""
    (root / "ignition.json").write_text(json.dumps({"storage": {"filesystems": list(filesystems)}}))
    env = os.environ | {"CMDLINE": f"{root}/cmdline", "KMSG": f"{root}/kmsg", "SYSROOT": f"{root}/sysroot"}
    completed = subprocess.run(
        ["unshare", "-m", "bash", "-c", PLACE, "place", root],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    shown = subprocess.run(
        ["debugfs", "-R", "cat grub/installed.cfg", root / "boot.img"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return completed, shown.stdout


def test_a_root_that_is_made_anew_has_what_it_had_and_is_booted_from(disk: Path) -> None:
    other = {"device": "/dev/disk/by-label/data", "label": "data", "wipeFilesystem": True}
    new = {"device": f"{disk}/new.img", "label": "root", "wipeFilesystem": True, "format": "ext4"}
    completed, text = run(disk, other, new)
    assert completed.returncode == 0, completed.stderr
    assert re.search(r"^etc/shadow 600 5000$", completed.stdout, re.M), completed.stdout
    assert text == INSTALLED.replace("PARTUUID=1", "UUID=11111111-2222-4333-8444-555555555555")


@pytest.mark.parametrize(
    "filesystems",
    [
        [],
        [{"device": "/dev/disk/by-label/data", "label": "data", "wipeFilesystem": True}],
        [{"device": "/dev/disk/by-label/root", "label": "root", "wipeFilesystem": False}],
    ],
)
def test_any_other_root_stays_where_it_is(disk: Path, filesystems: list[dict[str, Any]]) -> None:
    completed, text = run(disk, *filesystems)
    assert completed.returncode == 0, completed.stderr
    assert "etc/shadow" not in completed.stdout
    assert text == INSTALLED


def test_what_the_first_boot_made_is_on_the_disk_before_it_counts(tmp_path: Path) -> None:
    """Programs are stand-ins that note their words."""
    (tmp_path / "bin").mkdir()
    for program in ("mkdir", "udevadm", "mount", "umount", "rm", "sync"):
        (tmp_path / "bin" / program).write_text(f'#!/bin/sh\necho {program} "$@" >> {tmp_path}/log\n')
        (tmp_path / "bin" / program).chmod(0o755)
    script = DRACUT.parent / "root/usr/libexec/node0/firstboot-complete"
    subprocess.run(["/bin/bash", script], check=True, timeout=60, env={"PATH": f"{tmp_path}/bin"})
    log = (tmp_path / "log").read_text().splitlines()
    [stamp] = (line for line in log if "/run/node0/boot/ignition.firstboot" in line)
    assert log.index("sync -f /") < log.index(stamp) < log.index("sync -f /run/node0/boot")
