"""Machines on cgroup2, with the kernel's own hierarchy: what of it a host has whose controllers cgroup v1 holds.

Limits of memory, processors and processes cannot be had there; test_groups.py holds which are written where.
"""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from lab.host.namespaces import unshare
from lab.machines.container.kernel import cgroups, syscalls
from lab.testing.containers import kit

pytestmark = pytest.mark.lab

FIRST_USER = 1 << 28


@pytest.fixture(scope="module")
def unified():
    """Provide the mount point of the host's cgroup2."""
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2" and "hugetlb" in Path(line.split()[1], "cgroup.controllers").read_text():
            return Path(line.split()[1])
    pytest.skip("this host has no cgroup2 with a controller that could stand for the others")


def _in_child(action):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_group_is_its_machines_and_its_limit_is_not(unified, monkeypatch):
    """As root of a machine: groups below, processes into them; not its limit, not out of it, nothing above."""
    monkeypatch.setattr(cgroups, "UNIFIED", ("hugetlb",))
    monkeypatch.setattr(cgroups, "unified_limits", lambda memory_mib, vcpus: {"cgroup.max.depth": "7"})
    name = f"test-{uuid.uuid4().hex[:8]}"
    group = cgroups.Group(cgroups.Hierarchies({"": unified}), f"{name}/m")
    outer = unified / "node0" / name / "m"
    try:
        group.make(memory_mib=512, vcpus=1, devices=[])
        assert (outer / "cgroup.max.depth").read_text() == "7\n"
        assert "hugetlb" in (outer / "machine/cgroup.controllers").read_text()
        group.delegate(FIRST_USER)

        def inside():
            group.take(os.getpid())
            own = outer / "machine"
            # In the namespace of its groups, as another user: systemd's first steps.
            unshare(syscalls.CLONE_NEWCGROUP)
            os.setresgid(FIRST_USER, FIRST_USER, FIRST_USER)
            os.setresuid(FIRST_USER, FIRST_USER, FIRST_USER)
            (own / "init.scope").mkdir()
            (own / "init.scope/cgroup.procs").write_text(str(os.getpid()))
            (own / "cgroup.subtree_control").write_text("+hugetlb")
            (own / "system.slice").mkdir()
            assert Path("/proc/self/cgroup").read_text().splitlines()[-1] == "0::/init.scope"
            refused = [
                (outer / "cgroup.max.depth", "max"),
                (outer / "cgroup.procs", str(os.getpid())),
                (unified / "cgroup.procs", str(os.getpid())),
                (outer / "cgroup.freeze", "1"),
            ]
            for file, text in refused:
                try:
                    file.write_text(text)
                except PermissionError:
                    continue
                raise AssertionError(file)
            try:
                (outer / "more").mkdir()
            except PermissionError:
                return
            raise AssertionError("a group beside its own")

        assert _in_child(inside) == 0
        # One that is in the way, and frozen, as a machine may leave it.
        ready, started = os.pipe()
        pid = os.fork()
        if pid == 0:
            (outer / "machine/system.slice/cgroup.procs").write_text(str(os.getpid()))
            os.write(started, b".")
            signal.pause()
        os.read(ready, 1)
        (outer / "machine/cgroup.freeze").write_text("1")
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        os.close(ready)
        os.close(started)
    finally:
        group.remove()
    assert not (unified / "node0" / name).exists()


# Controllers are passed on; a service in a slice, of four processes, ends with its group; a user's manager.
_SCRIPT = """
cd /sys/fs/cgroup; stat -f -c %T .; cat cgroup.controllers
echo +hugetlb > cgroup.subtree_control; cat system.slice/cgroup.controllers
systemd-run --quiet --unit=many --slice=deep-er sh -c 'sleep 4243 & sleep 4243 & sleep 4243'
while [ "$(wc -l < deep.slice/deep-er.slice/many.service/cgroup.procs)" != 4 ]; do sleep 0.1; done
grep populated deep.slice/deep-er.slice/many.service/cgroup.events
systemctl stop many; ls -d deep.slice/deep-er.slice/many.service 2>&1 | grep -c 'No such'; pgrep -xc sleep
systemctl start user@0 && ls -d user.slice/user-0.slice/user@0.service/init.scope; systemctl stop user@0
timeout 20 sh -c 'while [ -d user.slice/user-0.slice/user@0.service ]; do sleep 0.1; done'; echo $?
"""
_OUTPUT = [
    "cgroup2fs",
    "hugetlb",
    "hugetlb",
    "populated 1",
    "1",
    "0",
    "user.slice/user-0.slice/user@0.service/init.scope",
]
_OUTPUT += ["0"]


def test_a_machine_runs_on_cgroup2(unified, tmp_path):
    """Its systemd has the hierarchy for its own: slices, services that end with their group, users' managers."""
    if reason := kit.why_not():
        pytest.skip(reason)
    name = f"test-{uuid.uuid4().hex[:8]}"
    disk = tmp_path / "vda.raw"
    with disk.open("wb") as file:
        file.truncate(1 << 20)
    kit.spec(tmp_path, "m", disk).save(tmp_path)
    command = ["unshare", "-mpn", "--fork", "--kill-child", "sh", "-c", kit.SETUP, "sh", sys.executable]
    command += [
        "-m",
        "lab.machines.container.monitor",
        str(tmp_path),
        f"{name}/m",
        "1",
        "lab.testing.containers.unified:boot",
    ]
    with (tmp_path / "log").open("wb") as log:
        environment = os.environ | {"NODE0_TEST_TREE": str(kit.tree())}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        kit.serial(tmp_path, "m").wait_for(r"login: ", kit.PATIENCE)
        done = kit.run_in(name, "m", _SCRIPT)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == _OUTPUT
    finally:
        process.kill()
        process.wait(30)
        cgroups.remove(unified / "node0" / name, lambda: None)
