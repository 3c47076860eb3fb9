"""Media as xorriso writes them, mounted by the kernel's erofs through our index: the same files, in their places."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from installer.common.iso9660 import Extent, Iso, NotIso9660
from lab.machines.container.firmware import erofs
from lab.machines.container.kernel import loops

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def medium(folder: Path, files: dict[str, bytes], *options: str) -> Path:
    tree = folder / "tree"
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "empty directory").mkdir(parents=True)
    (tree / "link").symlink_to("/etc/passwd")
    iso = folder / "medium.iso"
    command = ["xorriso", "-as", "mkisofs", "-quiet", "-o", str(iso), "-V", "a label", *(options or ("-R",)), str(tree)]
    subprocess.run(command, check=True, timeout=60)
    return iso


@root_only
def test_the_kernel_sees_what_is_on_the_medium(tmp_path: Path) -> None:
    """Directories of more than a block, whose names are sorted over all of them, too."""
    many = {f"many/{number:03d} {'x' * (number % 90)}": b"%d" % number for number in range(300)}
    files = {"big": os.urandom(5_000_001), "one byte": b"1", "none": b"", "a/b/c/deep": b"deep", **many}
    iso, index, place = medium(tmp_path, files), tmp_path / "index", tmp_path / "mounted"
    place.mkdir()
    with iso.open("rb") as file:
        opened = Iso(file, iso)
        assert opened.volume_id == "a label"
        index.write_bytes(erofs.index(opened.tree(), iso.stat().st_size, opened.volume_id))
    script = 'mount -t erofs -o "ro,device=$1" "$2" "$3" && cd "$3" && ls -a'
    script += " && find . -type f -exec sha256sum {} + && find . -type d"
    with loops.attach(iso, read_only=True) as image, loops.attach(index, read_only=True) as meta:
        command = ["unshare", "--mount", "sh", "-c", script, "sh", str(image.path), str(meta.path), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    sums = {line.partition("  ./")[::2] for line in done.stdout.splitlines() if "  ./" in line}
    assert sums == {(hashlib.sha256(content).hexdigest(), name) for name, content in files.items()}
    # Entries with inode 0 are none to programs.
    assert ".." in done.stdout.splitlines()
    assert {"./empty directory", "./a/b/c", "./many"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize("options", [("-R",), ("-J",), ("-iso-level", "1", "-R")])
def test_files_by_their_names_in_each_form(tmp_path: Path, options: tuple[str, ...]) -> None:
    with medium(tmp_path, {"Coreos/kargs.json": b"{}", "x": b"y"}, *options).open("rb") as file:
        opened = Iso(file, "medium")
        assert opened.file("/Coreos/kargs.json") == b"{}"
        assert opened.file("coreos/KARGS.JSON") == b"{}"
        assert opened.file("absent") is None
        assert list(opened.boot_catalogs()) == []
        assert {path.lower() for path in opened.tree()} >= {"coreos", "x"}
        assert "link" not in opened.tree() or options == ("-J",)


@pytest.mark.parametrize("content", [b"", b"no image", bytes(100_000)])
def test_what_is_no_medium(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "medium.iso"
    path.write_bytes(content)
    with path.open("rb") as file, pytest.raises(NotIso9660):
        Iso(file, path)


def test_a_medium_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    iso = medium(tmp_path, {"x": b"y"})
    content = iso.read_bytes()
    for size in range(0, len(content), 10_000):
        iso.write_bytes(content[:size])
        with iso.open("rb") as file, contextlib.suppress(NotIso9660):
            assert Iso(file, iso).tree()["x"]


@pytest.mark.parametrize("extent", [(1, 1), (2048, 5000), (1 << 30, 1)])
def test_no_index_leads_out_of_the_image(extent: tuple[int, int]) -> None:
    with pytest.raises(erofs.CannotIndex):
        erofs.index({"x": Extent("x", *extent, False)}, 4096)


@root_only
def test_a_loop_device_is_a_range_and_gone_when_nobody_has_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096) + b"x" * 4096 + bytes(4096))
    with loops.attach(path, offset=4096, size=4096) as loop:
        assert os.stat(loop.path).st_rdev == loop.rdev
        assert loop.path.read_bytes() == b"x" * 4096
        loop.path.write_bytes(b"y" * 512)
    assert path.read_bytes()[4096:4608] == b"y" * 512
    assert not (Path("/sys/block") / loop.path.name / "loop/backing_file").exists()
    with (
        loops.attach(path, read_only=True) as loop,
        loop.path.open("r+b", buffering=0) as device,
        pytest.raises(PermissionError),
    ):
        device.write(bytes(512))
    with pytest.raises(FileNotFoundError):
        loops.attach(tmp_path / "absent")
