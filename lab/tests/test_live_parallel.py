"""Labs side by side: two pytest processes with two workers each, one ledger, one set of addresses; and nothing left."""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lab import topology
from lab.host import budget
from lab.host.identity import alive, start_time
from lab.lab import Lab
from lab.testing.live import namespace_users, skip_without_labs, small

pytestmark = [pytest.mark.lab, skip_without_labs()]
ROOT = Path(__file__).parents[2]
# The scenarios' own wiring, around labs without an installation.
CONFTEST = """
from scenarios.conftest import (
    pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_xdist_make_scheduler
)
"""
TESTS = """
import os, socket, time
from pathlib import Path
import pytest
from lab import topology
from lab.lab import Lab
from lab.testing.live import skip_without_labs, small

@pytest.mark.parametrize("scenario", ["sno-a", "sno-b"])
def test_lab(scenario, tmp_path):
    with Lab(small(topology.sno()), tmp_path) as lab:
        took = time.monotonic()
        assert lab.inside(socket.gethostbyname, "api.ostest.test.node0.example") == "192.168.111.80"
        assert lab.bmc.systems() == [lab.nodes["master-0"].uuid]
        record = f"{lab.id} {lab.init} {os.readlink(f'/proc/{lab.init}/ns/net')} {took}"
        left = time.monotonic()
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{record} {left}\\n")
"""


@pytest.fixture
def state():
    """Provide a place for labs' files with a path short enough for their sockets."""
    with tempfile.TemporaryDirectory(prefix="n0-") as path:
        yield Path(path)


def shown(path):
    return (Path(path).read_text()).splitlines()


def left_in(inode, ended):
    """List processes in a network namespace that are older than its lab's end (monotonic seconds): the kernel gives the
    number of one that is gone to the next, which may be anybody's."""
    started = {pid: start_time(pid) for pid in namespace_users(inode)}
    return [pid for pid, ticks in started.items() if ticks is not None and ticks / os.sysconf("SC_CLK_TCK") < ended]


def nothing_is_left(labs_dir, ledger, names, inodes):
    """Whatever a lab may leave: processes, namespaces (inode and its lab's end), mounts, bridges, files, entries of the
    ledger."""
    assert [left_in(inode, ended) for inode, ended in inodes] == [[] for _ in inodes]
    mounts = [line for line in shown("/proc/self/mountinfo") if any(name in line for name in names)]
    assert mounts == []
    links = os.listdir("/sys/class/net")
    assert not [link for link in links if link.startswith(("lab0", "vnet"))], links
    assert [path.name for path in labs_dir.iterdir() if path.is_dir()] == []
    assert [entry for entry in budget.Ledger(ledger, budget.Amount()).entries() if entry.lab in names] == []
    running = [p.parent.name for p in Path("/proc").glob("[0-9]*/cmdline") if holds(p, names)]
    assert running == []


def holds(cmdline, names):
    try:
        return any(name.encode() in cmdline.read_bytes() for name in names)
    except OSError:
        return False


def test_two_pytest_processes_share_the_machine_and_leave_nothing(tmp_path, state):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/conftest.py").write_text(CONFTEST)
    (tmp_path / "t/test_labs.py").write_text(TESTS)
    (tmp_path / "t/pytest.ini").write_text("[pytest]\nmarkers =\n  nightly: x\n  disruptive: x\n")
    shape = small(topology.sno())
    item = budget.need(1, shape.memory_mib, 2)
    env = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SEEN": str(tmp_path / "seen"),
        "NODE0_STATE": str(state),
        "NODE0_CACHE": str(tmp_path / "cache"),
        "NODE0_BUDGET": str(tmp_path / "budget.json"),
        # Room for two of the four labs that want to run at once.
        "NODE0_BUDGET_MIB": str(2 * item.mib + 1),
        "NODE0_BUDGET_VCPU": "8",
    }
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path / "t")]
    options = {"cwd": tmp_path, "env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    both = [subprocess.Popen([*argv, f"--artifacts={tmp_path}/a{i}"], **options) for i in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(outputs)
    labs = [line.split() for line in shown(tmp_path / "seen")]
    assert len(labs) == 4
    spans = [(float(took), float(left)) for *_, took, left in labs]
    for took, _ in spans:
        assert sum(begin <= took < end for begin, end in spans) <= 2, spans
    assert re.search(rf"lab sno-\w+ waits for memory: needs {item.mib} MiB .*; free \d+ MiB", "".join(outputs)), outputs
    nothing_is_left(
        state / "labs", tmp_path / "budget.json", [lab[0] for lab in labs], [(lab[2], float(lab[4])) for lab in labs]
    )


def test_nothing_is_left_of_a_lab_whose_machine_ran(tmp_path, state, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(state))
    monkeypatch.setenv("NODE0_BUDGET", str(tmp_path / "budget.json"))
    with Lab(small(topology.sno(firmware="bios")), tmp_path / "a") as lab:
        lab.nodes["master-0"].power.on()
        inode = os.readlink(f"/proc/{lab.init}/ns/net")
        pid, started = lab.supervisor
        assert len(namespace_users(inode)) > 5
        assert [entry.lab for entry in budget.Ledger(tmp_path / "budget.json", budget.Amount()).entries()] == [lab.id]
    assert not alive(pid, started)
    nothing_is_left(state / "labs", tmp_path / "budget.json", [lab.id], [(inode, time.monotonic())])
