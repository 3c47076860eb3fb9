"""Fixtures and options of scenarios."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.paths import cache_dir
from lab.release.build import Release, build_release
from scenarios.cluster import Deployment, Installation
from scenarios.ids import topology_of
from scenarios.scheduling import Durations, ScenarioScheduling, reorder, unit_of

ROOT = Path(__file__).parents[1]
DURATIONS = Durations(cache_dir() / "durations.json")
FAILED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of scenarios."""
    group = parser.getgroup("node0", "scenarios in the virtual bare-metal lab")
    group.addoption("--artifacts", default=str(ROOT / "artifacts"), help="where evidence goes (default: artifacts/)")
    group.addoption("--installer", help="another installer to test, for example a path of openshift-install")
    group.addoption("--lab", metavar="ID", help="examine the cluster of a lab that was kept, instead of installing one")
    group.addoption(
        "--lab-keep",
        choices=("never", "on-failure", "always"),
        default="never",
        help="leave the lab running when its scenario ends, for `node0-lab ls|ssh|console`",
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ScenarioScheduling:
    """Scenarios are handed out whole, the longest first."""
    return ScenarioScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest scenario first, the same in every worker."""
    reorder(items, DURATIONS.read())


def _installed_already(lab_id: str, release: Release) -> Installation:
    """The cluster of a kept lab, for --lab."""
    lab = Lab.attach(lab_id)
    return Installation(Deployment(lab, lab.layout.root / "cluster", [], release, lab.access))


@pytest.fixture(scope="session")
def release() -> Release:
    """The lab release, built when its inputs changed."""
    return build_release()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what failed, on the test and on its module, for --lab-keep=on-failure."""
    report = yield
    if report.failed:
        for node in (item, item.parent):
            if node is not None:
                node.stash.setdefault(FAILED, []).append(item.nodeid)
    return report


@contextmanager
def _deployed(request: pytest.FixtureRequest, release: Release) -> Iterator[Deployment]:
    scenario_id: str = request.param
    artifacts = Path(request.config.getoption("--artifacts")) / scenario_id
    shutil.rmtree(artifacts, ignore_errors=True)
    installer = request.config.getoption("--installer")
    keep = request.config.getoption("--lab-keep")
    with Lab(topology_of(scenario_id), artifacts=artifacts, release=release) as lab:
        deployment = Deployment(
            lab=lab,
            # With the lab it goes, and its keys with it: only what holds no secret is copied to the artefacts.
            directory=lab.layout.root / "cluster",
            installer=[installer] if installer else [str(Path(sys.executable).with_name("node0"))],
            release=release,
            access=lab.access,
        )
        failed, start = True, time.monotonic()
        try:
            deployment.write_configs()
            yield deployment
            failed = bool(request.node.stash.get(FAILED, []))
            if not failed:
                unit = unit_of(f"{request.node.nodeid.split('::')[0]}::_[{scenario_id}]")
                DURATIONS.update({unit: time.monotonic() - start})
        finally:
            lab.collect()
            deployment.keep_evidence()
            if keep == "always" or (keep == "on-failure" and failed):
                lab.keep()


@pytest.fixture
def deployment(request: pytest.FixtureRequest, release: Release) -> Iterator[Deployment]:
    """A lab that is up with both config files written; nothing has booted. Parametrise with a scenario id."""
    with _deployed(request, release) as deployed:
        yield deployed


@pytest.fixture(scope="module")
def installation(request: pytest.FixtureRequest, release: Release) -> Iterator[Installation]:
    """An installed cluster, made once a module and id. Parametrise with a scenario id."""
    kept = request.config.getoption("--lab")
    if kept:
        yield _installed_already(kept, release)
        return
    with _deployed(request, release) as deployed:
        yield deployed.install()
