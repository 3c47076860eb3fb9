"""Names that a machine gives to its partitions and groups: any bytes. Those of disks are names in /dev, or none."""

import codecs
import contextlib
import os
import socket
import stat
import subprocess
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machines.container import monitor
from lab.machines.container.firmware.partitions import Partition
from lab.machines.container.hardware import disks, pseudofs
from lab.machines.container.kernel import cgroups
from lab.machines.container.spec import DiskSpec

# What udev 252 makes of them.
_IN_DEV = {
    b"root": "root",
    b"the root": r"the\x20root",
    b"../../etc": r"..\x2f..\x2fetc",
    b"a\\b": r"a\x5cb",
    b"\xff\n": r"\xff\x0a",
    "größe".encode(): "größe",
    b"#+-.:=@_$": r"#+-.:=@_\x24",
}


@pytest.mark.parametrize("name", _IN_DEV)
def test_a_name_in_dev_is_udevs(name):
    assert disks.in_dev(name) == _IN_DEV[name]


@given(name=st.binary(min_size=1, max_size=72))
def test_whatever_a_name_is_made_of_one_name_comes_of_it_and_no_other_of_another(name):
    escaped = disks.in_dev(name)
    assert not {"/", "\0", " ", "\n"} & set(escaped)
    back = codecs.escape_decode(escaped.encode())[0]
    assert back == name
    escaped.encode()


@given(name=st.text(max_size=36), label=st.binary(max_size=16))
def test_every_link_of_a_disk_is_one_or_left_out(tmp_path_factory, name, label):
    disk = DiskSpec(target="vda", path="/x", size=1 << 30)
    part = disks.describe_partition(disk, Partition(1, 1 << 20, 1 << 21, "k", uuid="u", name=name), (7, 4))
    links = [*part.links, *_ext4(tmp_path_factory.getbasetemp() / "ext4", label)]
    for link in links:
        if not pseudofs.is_link(link):
            assert link.partition("/")[2] in ("", ".", ".."), link
    assert len({link.partition("/")[0] for link in links}) >= 2


def _ext4(file, label):
    block = bytearray(4096)
    block[1024 + 56 : 1024 + 58] = b"\x53\xef"
    block[1024 + 120 : 1024 + 136] = label.ljust(16, b"\0")
    file.write_bytes(block)
    with file.open("rb") as device:
        return disks.ext4_names(device.fileno())


def test_a_label_ends_at_its_first_zero(tmp_path):
    own = f"by-uuid/{uuid.UUID(int=0)}"
    assert _ext4(tmp_path / "x", b"a\0b") == [own, "by-label/a"]
    assert _ext4(tmp_path / "x", b"\0b") == [own]


def test_links_of_any_name_are_laid_out_or_left_out(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: device files")
    bad = (
        "by-partlabel/..",
        "by-label/.",
        "by-label/",
        "by-label/a\0b",
        "by-label/../../x",
        "../x",
        "by-label/" + "n" * 300,
    )
    links = (*bad, "by-label/good", r"by-partlabel/..\x2fx")
    pseudofs.lay_out(os.getuid(), [disks.Device(name="vda1", number=(1, 3), size=0, links=links)], tmp_path)
    existing = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_symlink()}
    assert existing == {"disk/by-label/good", r"disk/by-partlabel/..\x2fx"}
    assert stat.S_ISBLK((tmp_path / "vda1").stat().st_mode)


def test_a_group_of_any_name_is_reported(tmp_path):
    root, groups = tmp_path / "root", tmp_path / "groups"
    for folder in (root / "run/systemd", groups / os.fsdecode(b"\xff.slice")):
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(root / cgroups.AGENT))
        agent.settimeout(10)
        (groups / "cgroup.procs").write_text("1\n")
        cgroups.EmptyGroups(groups).report(root)
        assert agent.recv(100) == b"/\xff.slice"


def test_groups_are_reported_again_until_systemd_had_room_for_them(tmp_path):
    """A queue of datagrams is short, and more groups than it holds run empty at once."""
    root, groups = tmp_path / "root", tmp_path / "groups"
    (root / "run/systemd").mkdir(parents=True)
    names = {f"/{number}.scope" for number in range(int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 20)}
    for name in names:
        (groups / name[1:]).mkdir(parents=True)
        (groups / name[1:] / "cgroup.procs").touch()
    watch = cgroups.EmptyGroups(groups)
    watch.report(root)  # no systemd yet
    received: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(root / cgroups.AGENT))
        agent.setblocking(False)
        before, turns = -1, 0
        while len(received) > before and turns < len(names):  # until a turn in which nothing is reported
            before, turns = len(received), turns + 1
            watch.report(root)
            with contextlib.suppress(BlockingIOError):
                while True:
                    received.append(agent.recv(100).decode())
    assert sorted(received) == sorted(names)


def test_a_machine_whose_first_process_has_just_gone_has_none(monkeypatch):
    """An error of the system's, which whoever asked for it gets, and no other."""
    with subprocess.Popen(["sleep", "1000"]) as holder:
        machine = monitor.Monitor.__new__(monitor.Monitor)
        monkeypatch.setattr(machine, "outer", holder.pid, raising=False)
        try:
            with pytest.raises(ProcessLookupError):
                machine.init()
        finally:
            holder.kill()
