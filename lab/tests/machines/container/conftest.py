"""A world for a module's machines; what it leaves is a failure of its last test."""

import os

import pytest

from lab.host.preflight import container_problems
from lab.testing.containers.kit import PATIENCE, World, tree


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A daemon for machines."""
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, loop devices, control groups")
    if tree() is None:
        pytest.skip("no release was built here: there is no tree to boot")
    if problems := container_problems():
        pytest.skip("; ".join(problems))
    shared_world = World(tmp_path_factory.mktemp("world"))
    try:
        yield shared_world.start()
    finally:
        shared_world.kill()


@pytest.fixture(scope="module")
def machine(world):
    """A machine at its login."""
    one = world.define()
    one.on()
    world.console(one).wait_for(r"login: ", PATIENCE)
    return one
