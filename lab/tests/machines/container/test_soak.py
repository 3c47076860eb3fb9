"""Machines up and down, and killed at any moment: the host is what it was. NODE0_SOAK is how many (10); ci/bench/soak
runs it with 200."""

import contextlib
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drivers.errors import DriverError
from drivers.protocols import PowerState
from lab.machines.container.kernel import users
from lab.testing.containers.kit import PATIENCE, World
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

COUNT = int(os.environ.get("NODE0_SOAK", "10"))
BATCH = 5
MEMORY_MIB = 512
# How long the kernel may take to end a killed lab's processes, on a busy host.
GONE_SECONDS = 30.0


# The users of this module's machines begin where no other test's do, and no lab's (lab.machines.containers).
FIRST = 3 << 27


def processes(root):
    """List the processes that belong to a world below `root`, or by their user to its machines."""
    named, machines = [], []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if FIRST <= folder.stat().st_uid < FIRST + 512 * users.COUNT:
                machines.append(f"{folder.name} {words}")
            elif str(root) in words:
                named.append(f"{folder.name} {words}")
    return named, machines


def of_host(root, lab):
    """List what machines could leave on the host. Other labs may come and go: loops and groups are the world's."""
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return {
        "loops": [line for line in loops.splitlines() if str(root) in line],
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(root) in line],
        "NICs": [name for name in os.listdir("/sys/class/net") if name.startswith("nv")],
        "groups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/node0/{lab}/*")],
        "machines' processes": processes(root)[1],
    }


def of_daemon(world):
    """List what machines could leave with the daemon that owns them."""
    [pid] = [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if (words := _words(folder))
        and "lab.machines.container.machined" in words
        and str(world.root / "machines") in words
    ]
    inside = ["nsenter", "-t", str(pid), "-n", "-m"]
    nics = subprocess.run([*inside, "ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "mounts": Path(f"/proc/{pid}/mountinfo").read_text(),
        "NICs": [line.split(":")[1] for line in nics.splitlines()],
        "children": Path(f"/proc/{pid}/task/{pid}/children").read_text(),
        "namespaces": sorted(path.name for path in Path("/run/netns").glob("*")) if Path("/run/netns").exists() else [],
    }


def _words(folder):
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return words if "python" in words[0] and len(words) > 4 else []


def changes(before, after):
    """List the differences, by their names."""
    both = zip(before, after, strict=True)
    return {name: (old[name], new[name]) for old, new in both for name in old if old[name] != new[name]}


def define(world, index):
    return world.define(index, memory_mib=MEMORY_MIB, first_user=FIRST)


def test_machines_up_and_down_leave_the_host_as_it_was(world, tmp_path):
    with World(tmp_path) as other:
        other.machines.all()
        before = of_daemon(other), of_host(tmp_path, other.lab)
        for start in range(0, COUNT, BATCH):
            batch = [define(other, index) for index in range(start, min(start + BATCH, COUNT))]
            for machine in batch:
                machine.on()
            for machine in batch:
                other.console(machine).wait_for(r"login: ", PATIENCE)
            assert len(of_host(tmp_path, other.lab)["loops"]) == len(batch)
            for machine in batch:
                machine.off()
            # The kernel takes network namespaces down in its own time.
            deadline = time.monotonic() + PATIENCE
            while (after := (of_daemon(other), of_host(tmp_path, other.lab))) != before:
                assert time.monotonic() < deadline, changes(before, after)
                time.sleep(0.1)
    assert of_host(tmp_path, other.lab) == before[1]
    assert processes(tmp_path) == ([], [])


@pytest.mark.parametrize("turn", range(max(COUNT // 10, 4)))
def test_a_kill_at_any_moment_leaves_nothing(world, tmp_path, turn):
    chance = random.Random(turn)
    phase = ("boot", "run", "power-off", "frozen")[turn % 4]
    with World(tmp_path) as other, ThreadPoolExecutor() as pool:
        machines = [define(other, index) for index in range(2)]
        for machine in machines:
            machine.on()
        if phase == "boot":
            time.sleep(chance.uniform(0, 3))
        else:
            for machine in machines:
                other.console(machine).wait_for(r"login: ", PATIENCE)
        if phase == "power-off":

            def power_off():
                with contextlib.suppress(DriverError):
                    machines[0].ask("shutdown")
                    machines[1].off()

            pool.submit(power_off)
            time.sleep(chance.uniform(0, 0.3))
        if phase == "frozen":
            # As a machine may do it itself. cgroup v1 kills nothing that is frozen.
            for state in Path("/sys/fs/cgroup/freezer/node0", other.lab).glob("*/machine/freezer.state"):
                state.write_text("FROZEN")
        other.kill()
    # The kernel ends a killed lab's processes one after the other, and their devices with them.
    deadline = time.monotonic() + GONE_SECONDS
    while any((left := of_host(tmp_path, other.lab)).values()) or any(processes(tmp_path)):
        assert time.monotonic() < deadline, f"killed at {phase}: {left}, {processes(tmp_path)}"
        time.sleep(0.05)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/node0/{other.lab}"))


def test_two_machines_that_begin_with_the_same_users_have_different_ones(world, tmp_path):
    first = define(world, 40)
    with World(tmp_path) as other:
        second = define(other, 40)
        maps = []
        for owner, machine in ((world, first), (other, second)):
            machine.on()
            owner.console(machine).wait_for(r"login: ", PATIENCE)
            maps.append(Path(f"/proc/{owner.init(machine)}/uid_map").read_text().split())
        bases = [int(words[1]) for words in maps]
        assert bases[0] != bases[1]
        assert all(words[0] == "0" and words[2] == str(users.COUNT) for words in maps)
        # And again after it was off and on, while the other one keeps its own.
        first.off()
        first.on()
        world.console(first).wait_for(r"(?s)login: .*login: ", PATIENCE)
        assert int(Path(f"/proc/{world.init(first)}/uid_map").read_text().split()[1]) not in bases[1:]
        first.off()


def test_a_killed_monitor_is_a_machine_without_power(world):
    victim = world.boot(10)
    init = world.init(victim)
    folder = world.root / "machines" / victim.name
    os.kill(_parent(_parent(init)), signal.SIGKILL)

    def loops():
        return of_host(folder, world.lab)["loops"]

    def ended():
        return victim.state() is PowerState.OFF and not loops()

    wait_until(ended, PATIENCE, "its end, and its loop devices'", loops, poll=0.05)
    assert not Path(f"/proc/{init}").exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{victim.name}"))
    victim.on()
    world.console(victim).wait_for(r"(?s)login: .*login: ", PATIENCE)
    victim.off()


def _parent(pid):
    return int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])
