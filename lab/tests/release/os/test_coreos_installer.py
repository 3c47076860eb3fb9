"""The install program's parts that need no disk: command line, progress, copying, what goes on the boot partition."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.release.os import coreos_installer as program
from lab.release.os.customise import DATA
from lab.release.os.media import disk

PROGRESS = re.compile(r"(.*?)\((.*?)%\)\s*")


def test_the_command_lines_that_callers_use(tmp_path):
    options = program.parse(
        ["install", "--insecure", "-i", "c.ign", "--copy-network", "--append-karg", "a=1", "/dev/vda"]
    )
    assert (options.device, str(options.ignition_file), options.copy_network) == ("/dev/vda", "c.ign", True)
    assert options.append_karg == ["a=1"]
    short = program.parse(["install", "-n", "--offline", "--firstboot-args", "ip=dhcp", "-i", "m.ign", "/dev/sda"])
    assert short.copy_network
    assert short.firstboot_args == "ip=dhcp"


def test_unknown_option_ends_with_code_2(capsys):
    with pytest.raises(SystemExit) as stop:
        program.parse(["install", "--no-such-option", "/dev/vda"])
    assert stop.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_a_disk_whose_writing_was_cut_short_starts_with_zeros(tmp_path):
    class Cut(io.BytesIO):
        def readinto(self, space):
            if self.tell() >= 2 * program.BLOCK:
                raise OSError("the power went away")
            return super().readinto(space)

    target = tmp_path / "disk"
    target.write_bytes(bytes(4 * program.BLOCK))
    with target.open("r+b") as disk_file, pytest.raises(OSError, match="power"):
        program.write_sparse(Cut(b"x" * 4 * program.BLOCK), disk_file.fileno(), lambda done: None)
    written = target.read_bytes()
    assert not any(written[: program.BLOCK])
    assert any(written[program.BLOCK :])


@given(st.integers(1, 1 << 40), st.data())
def test_progress_is_in_the_form_that_the_orchestrator_parses(total, data):
    lines: list[str] = []
    done = data.draw(st.integers(0, total))
    program.Progress(total, lines.append).update(done)
    program.Progress(total, lines.append).update(total)
    percent = [int(match[2]) for line in lines if (match := PROGRESS.search(line))]
    assert percent == [done * 100 // total, 100]


def test_progress_text():
    lines: list[str] = []
    program.Progress(157 << 20, lines.append).update(27 << 20)
    assert lines == ["> Read disk 27.0 MiB/157.0 MiB (17%)   "]


def test_progress_is_not_printed_for_every_block():
    lines: list[str] = []
    progress = program.Progress(1000, lines.append)
    for done in range(1, 1001):
        progress.update(done)
    assert len(lines) == 2  # the first, and the end


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from([b"\0", b"\1"]), st.integers(0, 2 * program.BLOCK)), max_size=3))
def test_sparse_copy_gives_the_same_bytes(parts):
    data = b"".join(byte * count for byte, count in parts)
    seen: list[int] = []
    fd = os.memfd_create("target")
    try:
        assert program.write_sparse(io.BytesIO(data), fd, seen.append) == len(data)
        os.ftruncate(fd, len(data))
        assert os.pread(fd, len(data) + 1, 0) == data
    finally:
        os.close(fd)
    assert seen == sorted(seen)
    assert not data or seen[-1] == len(data)


@pytest.mark.parametrize(("device", "path"), [("/dev/vda", "/dev/vda3"), ("/dev/nvme0n1", "/dev/nvme0n1p3")])
def test_partition_names(device, path):
    assert program.partition(device, 3) == path


def test_kernel_arguments_of_the_installed_system():
    grub = (DATA / "boot" / "grub.cfg").read_text().replace("@@KARGS@@", disk.DISK_KARGS)
    default = program.default_kargs(grub)
    assert default == disk.DISK_KARGS
    text = program.installed_cfg("r-uuid", "b-uuid", append=["x=1 y", "z"], delete=["quiet"], default=default)
    assert 'set node0_root="PARTUUID=r-uuid"\n' in text
    assert 'set node0_boot="PARTUUID=b-uuid"\n' in text
    kargs = program.default_kargs(text).split()
    assert kargs[-3:] == ["x=1", "y", "z"]
    assert "quiet" not in kargs


@pytest.mark.parametrize("argument", ['a="b"', "a=$b", "a='b'", "a\\b", "a`b`"])
def test_kernel_argument_that_grub_would_interpret(argument):
    with pytest.raises(program.InstallError, match="not supported"):
        program.installed_cfg("r", "b", append=[argument], delete=[], default="")


def test_firstboot_stamp():
    assert program.firstboot_stamp("") == ""
    assert program.firstboot_stamp("ip=dhcp rd.neednet=1") == 'set ignition_network_kcmdline="ip=dhcp rd.neednet=1"\n'


def test_not_a_disk(tmp_path, capsys):
    assert program.main(["install", str(tmp_path / "missing")]) == 1
    assert "is no block device" in capsys.readouterr().err


@pytest.fixture
def disk_of(tmp_path):
    """Provide a function that makes a disk of so many MiB: its device, and the file that it is."""
    with contextlib.ExitStack() as held:

        def make(mib):
            (image := tmp_path / f"disk{mib}").write_bytes(bytes(mib << 20))
            losetup = ["losetup", "--find", "--show", str(image)]
            device = subprocess.run(losetup, check=True, capture_output=True, text=True, timeout=30).stdout.strip()
            held.callback(subprocess.run, ["losetup", "--detach", device], check=True, timeout=30)
            return device, image

        yield make


NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="disks need root")


@NEEDS_ROOT
def test_an_image_that_is_larger_than_the_disk_is_not_written(disk_of, tmp_path, capsys):
    device, disk_file = disk_of(2)
    disk_file.write_bytes(before := os.urandom(2 << 20))
    (image := tmp_path / "image").write_bytes(bytes(3 << 20))
    assert program.main(["install", "--image-file", str(image), device]) == 1
    assert f"Error: {device} holds 2.0 MiB, the image needs 3.0 MiB\n" in capsys.readouterr().err
    assert disk_file.read_bytes() == before


@NEEDS_ROOT
def test_a_disk_in_use_is_not_written(disk_of, tmp_path):
    """Mounted as a whole, since not every kernel has partitions of loops."""
    device, disk_file = disk_of(8)
    subprocess.run(["mke2fs", "-qF", device], check=True, timeout=30)
    before = disk_file.read_bytes()
    (tmp_path / "place").mkdir()
    (image := tmp_path / "image").write_bytes(bytes(1 << 20))
    script = 'mount -o ro "$1" "$2" && shift 2 && exec "$@"'
    install = [sys.executable, "-m", program.__name__, "install", "--image-file", str(image), device]
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", device, str(tmp_path / "place"), *install]
    completed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 1
    assert completed.stderr == f"Error: {device} is in use: a partition of it is mounted\n"
    assert disk_file.read_bytes() == before


@pytest.mark.parametrize(
    ("device", "mounted", "used"),
    [
        ("/dev/sda", "/dev/sda", True), ("/dev/sda", "/dev/sda12", True), ("/dev/sda", "/dev/sdaa1", False),
        ("/dev/nvme0n1", "/dev/nvme0n1p3", True), ("/dev/nvme0n1", "/dev/nvme0n10", False),
        ("/dev/nvme0n1", "/dev/nvme0n10p3", False), ("/dev/sda", "/mnt/dev/sda1", False),
    ],
)  # fmt: skip
def test_which_mounts_are_of_a_disk(device, mounted, used):
    mounts = f"proc /proc proc rw 0 0\n{mounted} /mnt ext4 rw 0 0\n/dev/vdx1 {device} ext4 rw 0 0\n"
    assert program.is_mounted(device, mounts) is used


def test_programs_that_are_missing_slow_or_print_what_is_no_text(monkeypatch):
    with pytest.raises(program.InstallError, match="no-such-program cannot be run: No such file"):
        program.run("no-such-program", "x")
    assert program.run("printf", r"a\377b") == "a�b"
    with pytest.raises(program.InstallError, match=r"sh -c exit 3 failed: $"):
        program.run("sh", "-c", "exit 3")
    monkeypatch.setattr(program, "COMMAND_SECONDS", 0.2)
    with pytest.raises(program.InstallError, match="sleep 1000 did not end within 0 s"):
        program.run("sleep", "1000")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_root_grows_where_a_mounted_one_may_not(tmp_path: Path) -> None:
    """As in a user namespace: without CAP_SYS_RESOURCE ext4 refuses to grow a mounted file system."""
    image = tmp_path / "root.img"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image), "16M"], check=True, timeout=30)
    with image.open("r+b") as file:
        file.truncate(64 << 20)
    own = ["unshare", "--mount", "setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"]
    grow = "import sys; from lab.release.os.coreos_installer import grow_filesystem; grow_filesystem(sys.argv[1])"
    completed = subprocess.run(
        [*own, sys.executable, "-c", grow, str(image)], capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert "Growing" in completed.stderr
    assert "Permission denied" in completed.stderr
    output = subprocess.run(
        ["dumpe2fs", "-h", str(image)], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    blocks, size = (
        int(re.search(rf"^{name}: +(\d+)$", output, re.MULTILINE)[1]) for name in ("Block count", "Block size")
    )
    assert blocks * size == 64 << 20
