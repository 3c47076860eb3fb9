"""Control groups on hosts with v1, v2 and hybrid, laid out as theirs: what is written where, or why not."""

import errno
import os
import stat
import uuid
from pathlib import Path

import pytest

from lab.machines.container.kernel import cgroups, syscalls

V1 = "9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/\n5:devices:/\n4:memory:/x\n3:cpuset:/\n2:cpu,cpuacct:/\n"
HYBRID = f"{V1}0::/user.slice\n"
V2 = "0::/user.slice\n"
ALL = "cpuset cpu io memory hugetlb pids rdma misc\n"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """mount_all on a host whose /proc/self/cgroup and cgroup.controllers have these texts; what it mounted."""

    def look(groups, controllers=ALL):
        text = Path.read_text
        own = tmp_path / "cgroup"
        own.write_text(groups)
        monkeypatch.setattr(Path, "read_text", lambda path: text(own if str(path) == "/proc/self/cgroup" else path))
        mounted = []

        def mount(source, target, kind, flags=0, *, data=""):
            mounted.append((kind, data))
            if kind == "cgroup2":
                Path(target, "cgroup.controllers").write_text(controllers)
                Path(target, "cgroup.subtree_control").touch()

        monkeypatch.setattr(syscalls, "mount", mount)
        return cgroups.mount_all(tmp_path / "groups"), mounted

    return look


@pytest.mark.parametrize("groups", [V1, HYBRID])
def test_v1_and_hybrid_hosts_have_their_v1_hierarchies_used(host, groups):
    hierarchies, mounted = host(groups)
    assert not hierarchies.unified
    assert set(hierarchies.at) == {
        *("name=systemd", "pids", "blkio", "freezer", "devices", "memory", "cpuset", "cpu,cpuacct", "cgroup2")
    }
    assert ("cgroup", "none,name=systemd") in mounted
    # In a group of cgroup2 it is as well, which it is not given.
    assert [kind for kind, _ in mounted].count("cgroup2") == 1
    assert "cgroup2" not in hierarchies.v1
    group = cgroups.Group(hierarchies, "lab/m")
    group.make(memory_mib=512, vcpus=1, devices=["7:3"])

    def read(hierarchy, file):
        return (hierarchies.at[hierarchy] / "node0/lab/m" / file).read_text()

    assert read("memory", "memory.limit_in_bytes") == str(512 << 20)
    assert int(read("pids", "pids.max")) <= 8192
    assert read("devices", "devices.deny") == "a"
    assert read("devices", "devices.allow") == "b 7:3 rwm"
    # The limits are not in the group that it gets.
    assert [file.name for file in (hierarchies.at["memory"] / "node0/lab/m/machine").iterdir()] == []


def test_a_machine_with_more_groups_of_memory_than_its_share_of_the_hosts_is_found(host, monkeypatch):
    hierarchies, _ = host(V1)
    group = cgroups.Group(hierarchies, "lab/m")
    group.make(memory_mib=512, vcpus=1, devices=[])
    own = hierarchies.at["memory"] / "node0/lab/m/machine"
    monkeypatch.setattr(cgroups, "MOST_GROUPS", 40)
    for number in range(39):
        (own / str(number)).mkdir()
    monkeypatch.setattr(cgroups, "memory_groups_of_all", lambda: 60000)
    assert not group.too_many()
    (own / "0/below").mkdir()
    assert group.too_many()
    # Where the whole host has few groups the machine's are not counted.
    monkeypatch.setattr(cgroups, "memory_groups_of_all", lambda: 30)
    assert not group.too_many()


def test_the_host_tells_how_many_groups_it_has():
    if "memory" not in Path("/proc/cgroups").read_text():
        pytest.skip("a kernel without groups of memory")
    assert cgroups.memory_groups_of_all() > 0


def test_a_v1_host_without_systemd_gets_its_hierarchy(host):
    hierarchies, _ = host(V1.replace("9:name=systemd:/\n", ""))
    assert "name=systemd" in hierarchies.at


def test_a_v2_host_has_the_one_hierarchy_used(host):
    hierarchies, mounted = host(V2)
    assert hierarchies.unified
    assert mounted == [("cgroup2", "")]
    group = cgroups.Group(hierarchies, "lab/m")
    group.make(memory_mib=512, vcpus=2, devices=["7:3"])
    folder = hierarchies.at[""] / "node0/lab/m"
    assert (folder / "memory.max").read_text() == str(512 << 20)
    assert (folder / "cpu.max").read_text() == "200000 100000"
    assert int((folder / "pids.max").read_text()) <= 8192
    assert int((folder / "cgroup.max.descendants").read_text()) <= 4096
    for passing in (folder, *folder.parents[:2]):
        assert (passing / "cgroup.subtree_control").read_text() == "+cpu +memory +pids +cpuset"
    assert list((folder / "machine").iterdir()) == []


@pytest.mark.parametrize(
    ("groups", "controllers", "line"),
    [
        (V1.replace("8:pids:/\n", ""), ALL, "cgroup v1 has no controllers pids: container machines need them"),
        (
            V1.replace("devices", "perf_event"),
            ALL,
            "cgroup v1 has no controllers devices: container machines need them",
        ),
        (V2, "cpu io memory pids\n", "cgroup2 has no controllers cpuset: container machines need them"),
        # Hybrid with memory in v2: the others are taken by v1.
        (HYBRID.replace("4:memory:/x\n", ""), "memory\n", "cgroup2 has no controllers cpu, pids, cpuset: "),
    ],
)
def test_a_host_that_will_not_do_is_told_why_in_a_line(host, groups, controllers, line):
    with pytest.raises(cgroups.UnsupportedHostError) as error:
        host(groups, controllers)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "why"), [(errno.EBUSY, "it is no root, and has processes"), (errno.EROFS, "Read-only file system")]
)
def test_a_cgroup2_that_passes_nothing_on_is_told_in_a_line(tmp_path, monkeypatch, code, why):
    (tmp_path / "cgroup.controllers").write_text(ALL)

    def refuse(path, text):
        raise OSError(code, "x")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(cgroups.UnsupportedHostError, match=why):
        cgroups.check_unified(tmp_path)


@pytest.mark.parametrize(
    ("groups", "file", "most"),
    [(V1, "memory.memsw.limit_in_bytes", 512 << 20), (V2, "memory.swap.max", 0)],
    ids=["v1", "v2"],
)
def test_swap_is_no_memory_besides_where_the_kernel_counts_it(host, monkeypatch, groups, file, most):
    hierarchies, _ = host(groups)
    memory = hierarchies.at["" if hierarchies.unified else "memory"] / "node0/lab/m"
    make = Path.mkdir

    def mkdir(path, *words, **more):
        make(path, *words, **more)
        if path == memory:
            (path / file).touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    cgroups.Group(hierarchies, "lab/m").make(memory_mib=512, vcpus=1, devices=[])
    assert (memory / file).read_text() == str(most)


def test_a_real_group_opens_terminals_and_not_the_hosts_console(tmp_path):
    top = Path("/sys/fs/cgroup")
    at = {name: top / name for name in ("cpu", "memory", "pids", "devices")}
    if os.geteuid() != 0 or not all((folder / "cgroup.procs").exists() for folder in at.values()):
        pytest.skip("needs root, and control groups v1 where they usually are")
    numbers = {"console": (5, 1), "ptmx": (5, 2), "null": (1, 3), "memory": (1, 1)}
    for name, number in numbers.items():
        os.mknod(tmp_path / name, stat.S_IFCHR | 0o600, os.makedev(*number))
    os.close(os.open(tmp_path / "null", os.O_RDWR))
    group = cgroups.Group(cgroups.Hierarchies(at), f"test-{uuid.uuid4().hex[:8]}/m")
    try:
        group.make(memory_mib=64, vcpus=1, devices=[])
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            for name in numbers:
                try:
                    group.take(os.getpid())
                    os.open(tmp_path / name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
                except PermissionError:
                    os.write(write, f"{name} ".encode())
                except FileNotFoundError:
                    # A ptmx without a devpts beside it.
                    pass
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        refused = os.read(read, 1000).decode().split()
        os.close(read)
        assert refused == ["console", "memory"]
    finally:
        group.remove()
