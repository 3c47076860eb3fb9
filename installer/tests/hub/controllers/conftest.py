import pytest

from installer.hub.controllers import infraenv
from installer.testing.hub.world_kit import VERSION, hub_world
from installer.testing.service.service_kit import standalone


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("hub"), versions=(VERSION,)) as running:
        yield running


@pytest.fixture
def world(service, monkeypatch):
    monkeypatch.setattr(infraenv, "QUIET", 0.2)
    with hub_world(service) as world:
        yield world
