"""Fixtures that several modules use."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from installer.testing.create.credentials_kit import keep
from installer.testing.create.image_kit import directory, lab  # noqa: F401 - fixtures
from installer.testing.engine.world_kit import World

if TYPE_CHECKING:
    from installer.testing.orchestrator_kit import Site
    from installer.testing.waitfor_kit import Run


@pytest.fixture(scope="session", autouse=True)
def hangups() -> None:
    """SIGHUP as a terminal's child has it: under nohup all that tests start would ignore it, as it should there."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def kept_credentials() -> Iterator[None]:
    """Commands that a test runs in this process share a few sets of keys."""
    with pytest.MonkeyPatch.context() as patch:
        keep(patch)
        yield


@pytest.fixture
def run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    """wait-for in a world that a test describes."""
    from installer.testing.waitfor_kit import Run  # with all of wait-for, which few modules need

    return Run(tmp_path, caplog)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    new_world = World(tmp_path)
    yield new_world
    new_world.store.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Provide a host to install, with programs of its own, and a service on HTTP."""
    from installer.testing.orchestrator_kit import Service, Site, Timeline, serving

    with serving(Service(Timeline(tmp_path / "timeline"))) as service:
        new_site = Site(tmp_path, service, monkeypatch)
        yield new_site
        for client in new_site.clients:
            client.close()
