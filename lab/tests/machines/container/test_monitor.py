"""What a machine's monitor does about a machine that takes too much."""

import contextlib
import signal
import subprocess
import sys

import pytest

from lab.machines.container.monitor import Monitor


class Group:
    """A machine's control groups, in which it has or has not made too many."""

    def __init__(self):
        self.found = False
        self.thawed = 0

    def too_many(self):
        return self.found

    def unhold(self):
        self.thawed += 1


class Machine(Monitor):
    """A monitor of nothing but a first process."""

    def __init__(self, init, group):
        self._group, self._init, self._switched_off, self.lines = group, init, False, []

    def init(self):
        if self._init.poll() is not None:
            raise ProcessLookupError
        return self._init.pid

    def say(self, text):
        self.lines.append(text)


@pytest.fixture
def init():
    """A process that ends when it is told to."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_machine_with_too_many_groups_is_ended_and_says_why_once(init):
    group = Group()
    machine = Machine(init, group)
    machine.hold_to_its_groups()
    assert init.poll() is None
    assert machine.lines == []
    group.found = True
    machine.hold_to_its_groups()
    assert init.wait(30) == -signal.SIGKILL
    # What it has frozen cannot end, and is asked again.
    assert group.thawed == 1
    with contextlib.suppress(ProcessLookupError):
        machine.hold_to_its_groups()
    assert machine.lines == ["node0: more than 4096 control groups: the machine is switched off"]
