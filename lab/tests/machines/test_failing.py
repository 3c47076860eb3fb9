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
    [one] = failing.places(layout)
    assert one.image == str(layout.disk(layout.topology.nodes[0], 1))
    assert failing.place(layout, "master-0") == failing.place(layout, "master-0", "vdb") == one
    with pytest.raises(LabError, match="vda of master-0 cannot fail"):
        failing.place(layout, "master-0", "vda")
    with pytest.raises(LabError, match="no disk 'vdx'; it has vda, vdb"):
        failing.place(layout, "master-0", "vdx")


def test_only_a_lab_with_such_disks_has_the_daemon_and_only_they_take_its_devices(tmp_path):
    for able in (True, False):
        layout = Layout(tmp_path / f"lab-{able}", shape(able=able))
        names = {one.name for one in services.prepare(layout, "sno-1", None, None).plan.services}
        assert ("disks" in names) == able
        assert layout.failing.parent.joinpath("failing.json").exists() == able
        first, second = containers.machine_spec(layout.topology.nodes[0], layout, 0).disks
        assert first.path.endswith("master-0-vda.raw")
        assert second.path.endswith("master-0-vdb.device" if able else "master-0-vdb.raw")


def test_a_limit_is_in_every_group_and_goes_with_its_lab(tmp_path, monkeypatch):
    monkeypatch.setattr(throttle, "NOTES", tmp_path / "notes")
    top = tmp_path / "blkio"
    own, new = top / "node0/sno-1", top / "node0/sno-1/new"
    name = "blkio.throttle.write_bps_device"

    def made(group: Path) -> None:
        group.mkdir(parents=True)
        for one in (name, name.replace("write", "read")):
            (group / one).touch()

    def said(group: Path) -> str:
        return (group / name).read_text()

    made(top)
    made(own)
    throttle.limit(top, "sno-1", os.makedev(7, 3), 1 << 20)
    assert said(top) == said(own) == "7:3 1048576"
    made(new)
    throttle.keep(top, "other")
    assert said(new) == ""
    # Written again it would count anew: a kernel that is asked twice a second lets nothing large through.
    (own / name).write_text("7:3 1048576\n7:9 1\n")
    throttle.keep(top, "sno-1")
    assert said(new) == "7:3 1048576"
    assert said(own) == "7:3 1048576\n7:9 1\n"
    throttle.limit(top, "sno-1", os.makedev(7, 3), 0)
    assert said(top) == said(new) == "7:3 0"
    throttle.limit(top, "sno-1", os.makedev(7, 4), 5)
    throttle.lift(top, "sno-1")
    assert said(own) == "7:4 0"
    assert list((tmp_path / "notes").iterdir()) == []
    # Nothing is left to be kept up.
    (own / name).write_text("")
    throttle.keep(top, "sno-1")
    assert said(own) == ""
