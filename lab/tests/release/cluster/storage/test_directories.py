"""Directories of volumes: made for everybody, removed with all that is in them and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.release.cluster.errors import VolumeError
from lab.release.cluster.storage.directories import Directories


def test_a_pods_user_may_write_and_nobody_else_comes_near(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "base")
    directories.make("pvc-1")
    (directories.base / "pvc-1" / "kept").touch()
    directories.make("pvc-1")
    assert (directories.base / "pvc-1").stat().st_mode & 0o7777 == 0o777
    assert (directories.base / "pvc-1" / "kept").exists()
    assert directories.base.stat().st_mode & 0o7777 == 0o700
    assert 0 < directories.free() <= os.statvfs(tmp_path).f_bfree * os.statvfs(tmp_path).f_frsize


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    directories = Directories(tmp_path / "base")
    for name in ("pvc-1", "pvc-2"):
        directories.make(name)
    inside = directories.base / "pvc-1"
    (inside / "folder").symlink_to(outside)
    (inside / "up").symlink_to("..")
    (inside / "file").symlink_to(outside / "file")
    directories.remove("pvc-1")
    assert sorted(path.name for path in directories.base.iterdir()) == ["pvc-2"]
    (directories.base / "pvc-3").symlink_to(outside)
    for act in (directories.remove, directories.make):
        with pytest.raises(VolumeError, match=r"pvc-3: (it is no directory|Not a directory)"):
            act("pvc-3")
    directories.remove("pvc-4")  # gone already
    assert (outside / "file").exists()


def test_a_tree_that_is_deeper_than_our_recursion_goes(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.make("pvc-1")
    deep = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", deep], cwd=tmp_path / "pvc-1", check=True)
    directories.remove("pvc-1")
    assert not (tmp_path / "pvc-1").exists()


def test_an_rm_that_is_killed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = Directories(tmp_path / "base")
    directories.make("pvc-1")
    rm = tmp_path / "rm"
    rm.write_text("#!/bin/sh\nkill -9 $$\n")
    rm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(VolumeError, match="pvc-1: rm ended with -9"):
        directories.remove("pvc-1")


def test_mounts_elsewhere_may_have_any_name(tmp_path: Path) -> None:
    line = b"36 35 98:0 / %s rw - ext4 /dev/root rw\n"
    mounts = tmp_path / "mounts"
    directories = Directories(tmp_path / "base", mounts)
    directories.make("pvc-1")
    inside = str(directories.base / "pvc-1/a\\040b").encode()
    mounts.write_bytes(line % b"/mnt/\xff" + line % inside)
    with pytest.raises(VolumeError, match="a b is mounted there"):
        directories.remove("pvc-1")
    mounts.write_bytes(line % b"/mnt/\xff")
    directories.remove("pvc-1")
    assert list(directories.base.iterdir()) == []


def test_what_is_mounted_inside_is_not_entered(tmp_path: Path) -> None:
    directories = Directories(tmp_path / "base")
    directories.make("pvc-1")
    (directories.base / "pvc-1" / "a b").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    script = f"""
import subprocess
from pathlib import Path
from lab.release.cluster.errors import VolumeError
from lab.release.cluster.storage.directories import Directories
base = Path({str(directories.base)!r})
subprocess.run(["mount", "--bind", {str(tmp_path / "outside")!r}, base / "pvc-1" / "a b"], check=True)
try:
    Directories(base).remove("pvc-1")
except VolumeError as error:
    print(error)
"""
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("a b is mounted there")
    assert (tmp_path / "outside" / "file").exists()
    directories.remove("pvc-1")
    assert not (directories.base / "pvc-1").exists()
