"""Signals to a supervisor; its lab has no networks and no daemons."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lab.host.identity import start_time
from lab.supervisor.plan import Event, Plan

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
ROOT = Path(__file__).parents[3]


def before_it_begins(number):
    """Return a signal that waits for the process until that is ready to take it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    os.kill(os.getpid(), number)


@pytest.fixture
def started(tmp_path):
    """Start a supervisor to whom a signal was sent already; it and its owner, a process of its own."""
    state = tmp_path / "sno-1a2b"
    (state / "log").mkdir(parents=True)
    alive = os.open(state / "alive", os.O_RDWR | os.O_CREAT)
    fcntl.flock(alive, fcntl.LOCK_EX)
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "600"]) as owner, os.fdopen(read) as events:

        def start(number):
            who = (owner.pid, start_time(owner.pid))
            plan = Plan(id="sno-1a2b", state=str(state), bridges=(), mounts=(), services=(), owner=who)
            (state / "plan.json").write_bytes(msgspec.json.encode(plan))
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.supervisor", str(state), str(write), str(alive)],
                pass_fds=(write, alive),
                preexec_fn=lambda: before_it_begins(number),
                stdout=subprocess.DEVNULL,
                env=dict(os.environ) | {"PYTHONPATH": str(ROOT)},
            )
            os.close(write)
            os.close(alive)
            return process, owner, [msgspec.json.decode(line, type=Event).event for line in events]

        yield start
        owner.kill()


def test_usr1_before_the_supervisor_watches_lets_the_lab_outlive_its_owner(started):
    process, owner, events = started(signal.SIGUSR1)
    assert events == ["forked", "up"]
    owner.kill()
    owner.wait(20)
    with pytest.raises(subprocess.TimeoutExpired):
        # As long as it may take to see an owner's end.
        process.wait(1)
    process.terminate()
    assert process.wait(20) == 0


def test_term_before_the_supervisor_watches_ends_the_lab_and_its_directory(started, tmp_path):
    process, _, events = started(signal.SIGTERM)
    assert events[:1] == ["forked"]
    assert process.wait(20) == 0
    assert list(tmp_path.iterdir()) == []
