"""Disks that can fail: which, where they lie, and who holds them; and limits in every group. Without root."""

import os
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.errors import LabError
from lab.layout import Layout
from lab.machines import containers, failing
from lab.machines.container.kernel import throttle
from lab.topology import Disk


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))


def shape(*, able):
    disks = (Disk(size_gib=1), Disk(size_gib=1, root=True, can_fail=able))
    node = msgspec.structs.replace(topology.sno().nodes[0], disk_gib=1, disks=disks)
    return msgspec.structs.replace(topology.sno(), nodes=(node,)).with_machines("container")


def test_a_disk_is_found_by_its_name_or_as_the_one_to_install_on(tmp_path):
    layout = Layout(tmp_path, shape(able=True))
    [disk] = failing.places(layout)
    assert disk.image == str(layout.disk(layout.topology.nodes[0], 1))
    assert failing.place(layout, "master-0") == failing.place(layout, "master-0", "vdb") == disk
    with pytest.raises(LabError, match="vda of master-0 cannot fail"):
        failing.place(layout, "master-0", "vda")
    with pytest.raises(LabError, match="no disk 'vdx'; it has vda, vdb"):
        failing.place(layout, "master-0", "vdx")


def test_only_a_lab_with_such_disks_has_the_daemon_and_only_they_take_its_devices(tmp_path):
    for able in (True, False):
        layout = Layout(tmp_path / f"lab-{able}", shape(able=able))
        names = {service.name for service in services.prepare(layout, "sno-1", None, None).plan.services}
        assert ("disks" in names) == able
        assert layout.failing.parent.joinpath("failing.json").exists() == able
        first, second = containers.machine_spec(layout.topology.nodes[0], layout, 0).disks
        assert first.path.endswith("master-0-vda.raw")
        assert second.path.endswith("master-0-vdb.device" if able else "master-0-vdb.raw")


class Unified:
    """A tree of cgroup2 as block/blk-throttle.c and kernel/cgroup/cgroup.c have it: what is written into its files, and
    what is read there then. In the place of a kernel whose `io` cgroup v1 does not have."""

    def __init__(self, top: Path, devices: set[str]) -> None:
        self.top, self.devices = top, devices
        top.mkdir()
        (top / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (top / "cgroup.subtree_control").write_text("cpu memory\n")

    def make(self, name: str) -> None:
        group = self.top / name
        group.mkdir()
        if "io" in (group.parent / "cgroup.subtree_control").read_text().split():
            (group / "io.max").touch()
        (group / "cgroup.controllers").touch()
        (group / "cgroup.subtree_control").touch()

    def put(self, file: Path, text: str) -> None:
        if not file.exists():
            raise FileNotFoundError(2, "No such file or directory")
        if file.name == "cgroup.subtree_control":
            assert text == "+io"
            file.write_text(f"{file.read_text().strip()} io\n")
            for group in filter(Path.is_dir, file.parent.iterdir()):
                (group / "io.max").touch()
            return
        number, *words = text.split()
        if number not in self.devices:
            raise OSError(19, "No such device")
        limits = dict.fromkeys(("rbps", "wbps", "riops", "wiops"), "max")
        for word in words:
            name, _, value = word.partition("=")
            assert name in limits
            if value == "0":
                raise OSError(34, "Numerical result out of range")
            assert value == "max" or value.isdigit()
            limits[name] = value
        lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{number} ")]
        if set(limits.values()) != {"max"}:
            lines.append(" ".join([number, *(f"{name}={value}" for name, value in limits.items())]))
        file.write_text("".join(f"{line}\n" for line in lines))

    def limits_of(self, name: str) -> str:
        return (self.top / name / "io.max").read_text()


def test_cgroup2_limits_by_its_groups_at_the_top(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "NOTES", tmp_path / "notes")
    kernel = Unified(tmp_path / "unified", {"7:3", "7:4"})
    monkeypatch.setattr(throttle, "put", kernel.put)
    assert throttle.limits(kernel.top)
    with pytest.raises(OSError, match="no control group of this host takes a limit"):
        throttle.limit(kernel.top, "sno-1", os.makedev(7, 3), 1 << 20)
    assert list((tmp_path / "notes").iterdir()) == []
    for name in ("node0", "node0/sno-1", "user.slice"):
        kernel.make(name)
    throttle.limit(kernel.top, "sno-1", os.makedev(7, 3), 1 << 20)
    slow = "7:3 rbps=1048576 wbps=1048576 riops=max wiops=max\n"
    assert kernel.limits_of("node0") == kernel.limits_of("user.slice") == slow
    # What is below them is limited with them, and the root has no such file.
    assert not (kernel.top / "node0/sno-1/io.max").exists()
    assert not (kernel.top / "io.max").exists()
    throttle.limit(kernel.top, "sno-1", os.makedev(7, 4), 512)
    kernel.make("machine.slice")
    throttle.keep(kernel.top, "sno-1")
    assert sorted(kernel.limits_of("machine.slice").splitlines()) == sorted(kernel.limits_of("node0").splitlines())
    throttle.limit(kernel.top, "sno-1", os.makedev(7, 3), 0)
    assert (
        kernel.limits_of("node0") == kernel.limits_of("machine.slice") == "7:4 rbps=512 wbps=512 riops=max wiops=max\n"
    )
    throttle.lift(kernel.top, "sno-1")
    assert kernel.limits_of("node0") == kernel.limits_of("machine.slice") == kernel.limits_of("user.slice") == ""
    assert list((tmp_path / "notes").iterdir()) == []


def test_a_limit_of_a_device_that_is_gone_goes_with_its_note(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "NOTES", tmp_path / "notes")
    kernel = Unified(tmp_path / "unified", {"7:3"})
    monkeypatch.setattr(throttle, "put", kernel.put)
    kernel.make("node0")
    throttle.limit(kernel.top, "sno-1", os.makedev(7, 3), 512)
    with pytest.raises(OSError, match="No such device"):
        throttle.limit(kernel.top, "sno-1", os.makedev(7, 9), 512)
    kernel.devices.clear()
    kernel.make("user.slice")
    throttle.keep(kernel.top, "sno-1")
    throttle.lift(kernel.top, "sno-1")
    assert list((tmp_path / "notes").iterdir()) == []


@pytest.mark.parametrize(("controllers", "has"), [("cpu io memory", True), ("hugetlb", False), ("", False)])
def test_which_hierarchies_limit_devices(tmp_path, controllers, has):
    assert not throttle.limits(tmp_path)
    (tmp_path / "cgroup.controllers").write_text(controllers)
    assert throttle.limits(tmp_path) == has


def test_a_limit_is_in_every_group_and_goes_with_its_lab(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "NOTES", tmp_path / "notes")
    top = tmp_path / "blkio"
    own, new = top / "node0/sno-1", top / "node0/sno-1/new"
    name = "blkio.throttle.write_bps_device"

    def make_group(group: Path) -> None:
        group.mkdir(parents=True)
        for file in (name, name.replace("write", "read")):
            (group / file).touch()

    def limits_of(group: Path) -> str:
        return (group / name).read_text()

    make_group(top)
    make_group(own)
    throttle.limit(top, "sno-1", os.makedev(7, 3), 1 << 20)
    assert limits_of(top) == limits_of(own) == "7:3 1048576"
    make_group(new)
    throttle.keep(top, "other")
    assert limits_of(new) == ""
    # Written again it would count anew: a kernel that is asked twice a second lets nothing large through.
    (own / name).write_text("7:3 1048576\n7:9 1\n")
    throttle.keep(top, "sno-1")
    assert limits_of(new) == "7:3 1048576"
    assert limits_of(own) == "7:3 1048576\n7:9 1\n"
    throttle.limit(top, "sno-1", os.makedev(7, 3), 0)
    assert limits_of(top) == limits_of(new) == "7:3 0"
    throttle.limit(top, "sno-1", os.makedev(7, 4), 5)
    throttle.lift(top, "sno-1")
    assert limits_of(own) == "7:4 0"
    assert list((tmp_path / "notes").iterdir()) == []
    # Nothing is left to be kept up.
    (own / name).write_text("")
    throttle.keep(top, "sno-1")
    assert limits_of(own) == ""
