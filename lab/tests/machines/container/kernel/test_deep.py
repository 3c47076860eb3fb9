"""Control groups as deep as a machine likes to make them: no path is that long, nor Python's stack."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.machines.container import machine as machines
from lab.machines.container import machined
from lab.machines.container.kernel import cgroups, treewalk
from lab.testing.containers.kit import spec

# Deeper than Python's recursion.
DEPTH = 1100


def descend(top, *, name, files=()):
    """Make directories below each other, with files of these names in each; returns the deepest, open."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEPTH):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
        for file in files:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here))
    return here


def test_deep_groups_are_removed(tmp_path):
    top = tmp_path / "group"
    top.mkdir()
    os.close(descend(top, name="n" * 255))
    cgroups.remove(top, lambda: pytest.fail("nothing holds it"))
    assert not top.exists()


def test_a_deep_group_is_looked_into_thawed_and_allowed_a_device(tmp_path):
    top = tmp_path / "node0/lab/m"
    top.mkdir(parents=True)
    files = ("cgroup.procs", "freezer.state", "devices.allow")
    for name in files:
        (top / name).touch()
    bottom = descend(top, name="a", files=files)
    try:
        group = cgroups.Group(cgroups.Hierarchies({"freezer,devices": tmp_path}), "lab/m")
        group.unhold()
        group.allow("7:3")
        for name, text in (("freezer.state", b"THAWED"), ("devices.allow", b"b 7:3 rwm")):
            with treewalk.file_in(bottom, name, os.O_RDONLY) as file:
                assert os.read(file, 100) == text
        assert not any(cgroups.populated(top).values())
        treewalk.write_in(bottom, "cgroup.procs", "7\n")
        groups = cgroups.populated(top)
        assert groups["/"]
        assert groups["/a/a"]
        assert len(groups) < DEPTH
    finally:
        os.close(bottom)
        subprocess.run(["rm", "-rf", top], check=True)


@given(paths=st.lists(st.lists(st.sampled_from(["a", "b", "c\udcff"]), max_size=4), max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_visit_goes_where_a_walk_does(tmp_path_factory, paths):
    top = tmp_path_factory.mktemp("tree")
    for path in paths:
        top.joinpath(*path).mkdir(parents=True, exist_ok=True)
    (top / "file").touch()
    (top / "link").symlink_to("/")
    before, after, left = [], [], []
    treewalk.visit(
        top,
        before=lambda here, names: before.append((*names,)),
        after=lambda here, names: after.append((*names,)),
        leave=lambda above, name: left.append(name),
    )
    walked = [Path(folder).relative_to(top).parts for folder, _, _ in os.walk(top)]
    assert sorted(before) == sorted(after) == sorted(walked)
    assert [names[-1] for names in after[:-1]] == left
    for order, first in ((before, True), (after, False)):
        for at, names in enumerate(order):
            assert all((order.index(names[:end]) < at) == first for end in range(len(names)))


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Provide a machine of no host's groups, and a process in its monitor's place, which has just written its end."""
    (tmp_path / "disk").touch()
    spec(tmp_path, "m", tmp_path / "disk").save(tmp_path)
    machine = machines.Machine(tmp_path, "lab", "", cgroups.Hierarchies({}))
    read, write_end = os.pipe()
    os.close(write_end)
    with subprocess.Popen(["sleep", "1000"]) as process:
        monkeypatch.setattr(machine, "monitor", process)
        monkeypatch.setattr(machine, "status", read)
        try:
            yield machine, process
        finally:
            process.kill()


def test_a_monitor_that_does_not_end_is_an_error_and_the_machine_stays_on(held, monkeypatch):
    machine, _ = held
    monkeypatch.setattr(machines, "END_SECONDS", 0.1)
    with pytest.raises(machines.MachineError, match="has not ended"):
        machine.read_status()
    assert machine.on
    assert machine.status == -1
    machine.power_off()
    assert not machine.on


def test_what_one_machine_breaks_is_answered_and_ends_nothing(held, monkeypatch, capfd):
    """Whatever it is: the daemon goes on, and so do all other machines."""

    def breaks(group):
        raise RecursionError("too deep")

    monkeypatch.setattr(cgroups.Group, "remove", breaks)
    daemon = machined.Daemon.__new__(machined.Daemon)
    machine, process = held
    process.kill()
    daemon.read_status(machine)
    assert "m:\n" in capfd.readouterr().err
    assert not machine.on

    def ask(request):
        raise RecursionError("too deep")

    monkeypatch.setattr(daemon, "do", ask, raising=False)
    reply = daemon.reply_to(b'{"op":"list"}')
    assert (reply.kind, reply.error) == ("other", "RecursionError: too deep")
