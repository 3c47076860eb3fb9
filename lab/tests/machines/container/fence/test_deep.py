"""Groups as deep as no path is long: the machine's end is its own, the lab's others live on, nothing is left."""

from pathlib import Path

import pytest

from lab.testing.containers.kit import PATIENCE, World, why_not
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

_DEEP = r"""python3 - <<'END'
import os
made = 0
for hierarchy in os.listdir('/sys/fs/cgroup'):
    os.chdir('/sys/fs/cgroup/' + hierarchy)
    try:
        for _ in range(1100):
            os.mkdir('n' * 200)
            os.chdir('n' * 200)
            made += 1
    except OSError as error:
        print(hierarchy, error)
print('made', made)
END
"""


@pytest.fixture
def world(tmp_path):
    """Provide a daemon of the test's own, which it ends."""
    if reason := why_not():
        pytest.skip(reason)
    with World(tmp_path) as new_world:
        yield new_world


def _groups(world, name=""):
    return list(Path("/sys/fs/cgroup").glob(f"*/node0/{world.lab}/{name}"))


def test_a_machine_with_deep_groups_takes_no_other_with_it(world):
    other, deep = world.define(0), world.define(1)
    other.on()
    end = {"its own power-off": lambda: None, "the BMC's": deep.off, "the lab's": world.kill}
    for way, finish in end.items():
        deep.on()
        wait_until(lambda: deep.look().running, PATIENCE, "init")
        world.console(deep).wait_for(r"login: ", PATIENCE)
        own = _DEEP + ("poweroff -ff" if way == "its own power-off" else "")
        output = world.run(deep, own).stdout
        assert way == "its own power-off" or int(output.split("made ")[1]) >= 1100, output
        finish()
        if way != "the lab's":
            wait_until(lambda: not deep.look().on, PATIENCE, f"off by {way}")
            assert not _groups(world, "m1"), way
            wait_until(lambda: other.look().running, PATIENCE, "the other's login")
            assert world.run(other, "echo alive").stdout == "alive\n"
            (world.root / "machines/m1/console.log").write_bytes(b"")
    assert not _groups(world)
