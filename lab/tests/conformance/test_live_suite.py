"""The suite's own programs: they list its specs, know our images, and take just the specs that they are asked for."""

import subprocess

import pytest

from lab.conformance import images, running, suite
from lab.conformance.suite import Programs
from lab.release.stage.store import Store, default_cache

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs.built(Store(default_cache()))


def test_the_suite_knows_the_specs_and_images_of_our_tables(programs: Programs) -> None:
    specs = programs.specs()
    assert len(specs) == 311
    assert suite.plan(specs, only_part=True).specs
    assert images.unknown(programs.e2e) == []


def test_ginkgo_runs_just_the_specs_of_a_plan(programs: Programs) -> None:
    for names in (programs.specs(), programs.specs()[:7]):
        argv = [programs.e2e, "--ginkgo.dryRun", f"--ginkgo.focus={running.focus_of(names)}"]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout
        assert sorted(event[0] for event in map(suite.event_of, said.splitlines()) if event) == sorted(names)
