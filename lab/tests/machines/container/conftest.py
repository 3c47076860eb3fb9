"""A world for a module's machines; what it leaves is a failure of its last test."""

import pytest

from lab.testing.containers.kit import World, why_not


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Provide a daemon for machines."""
    if reason := why_not():
        pytest.skip(reason)
    with World(tmp_path_factory.mktemp("world")) as shared_world:
        yield shared_world


@pytest.fixture(scope="module")
def machine(world):
    """Provide a machine at its login."""
    return world.boot()
