"""Faults at random (`--chaos SEED`): each installation completes, or says why; what does neither is a finding."""

import re
import time
from contextlib import ExitStack

import pytest

from lab.deploy import Deployment
from scenarios.catalogue.chaos import Drawn, as_yaml, drawn, seeds
from scenarios.catalogue.faulty import Outcome, disturbed, installed
from scenarios.catalogue.ids import topology_of
from scenarios.catalogue.variants import CHAOS
from scenarios.testing.cluster import Installation

#: Seconds for the bootstrap; an installation that says why it fails ends with this time-out.
LIMIT = 900


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each seed of --chaos. Raises pytest.UsageError for invalid seeds."""
    text, scenario = (metafunc.config.getoption(name) for name in ("--chaos", "--chaos-on"))
    ids = []
    try:
        for seed, only in seeds(text) if text else []:
            # Raises ValueError for a fault that the seed does not have, before there is a lab.
            drawn(seed, scenario, topology_of(scenario), only)
            ids.append(f"{scenario}-chaos_{seed}" + "".join(f"_{place}" for place in only))
    except ValueError as error:
        raise pytest.UsageError(f"--chaos: {error}") from error
    metafunc.parametrize("deployment", ids, indirect=True)


def faults_of(scenario_id: str) -> tuple[Drawn, ...]:
    """Return the faults that the seed in an id draws."""
    scenario, _, word = scenario_id.rpartition("-")
    match = CHAOS.fullmatch(word)
    assert match is not None
    only = tuple(int(place) for place in match["only"].split("_") if place)
    return drawn(int(match["seed"]), scenario, topology_of(scenario), only)


def test_an_installation_completes_or_says_why(deployment: Deployment, request: pytest.FixtureRequest) -> None:
    scenario_id = request.node.callspec.params["deployment"]
    faults = faults_of(scenario_id)
    print(as_yaml([fault.row for fault in faults]))
    deployment.create_image()
    with ExitStack() as stack:
        began = time.monotonic()
        futures = [stack.enter_context(disturbed(deployment, fault.row, began, LIMIT)) for fault in faults]
        outcome = installed(deployment, LIMIT, f"--timeout={LIMIT}")
    happened = [fault for fault, future in zip(faults, futures, strict=True) if future.result(60) is not None]
    print(f"{scenario_id}: ended with {outcome.code} after {outcome.seconds:.0f} s; {outcome.errors[:3]}")
    if outcome.code:
        first = outcome.errors[0] if outcome.errors else ""
        assert any(re.search(fault.cause, first) for fault in happened), _finding(scenario_id, faults, outcome)
        return
    installation = Installation(deployment)
    assert installation.api_ready(), _finding(scenario_id, faults, outcome)
    assert installation.nodes_ready(), _finding(scenario_id, faults, outcome)
    assert installation.unwell_operators() == [], _finding(scenario_id, faults, outcome)


def _finding(scenario_id: str, faults: tuple[Drawn, ...], outcome: Outcome) -> str:
    """Return the outcome of an installation that neither completed nor said why, and the commands that repeat it."""
    scenario, _, word = scenario_id.rpartition("-")
    seed = word.split("_")[1]
    again = [f"pytest scenarios/ --chaos {seed} --chaos-on {scenario}"]
    if len(faults) > 1:
        again += [f"pytest scenarios/ --chaos {seed}:{place} --chaos-on {scenario}" for place in range(len(faults))]
    return "\n".join(
        [
            f"neither complete nor told: exit code {outcome.code} after {outcome.seconds:.0f} s",
            *outcome.errors[:5],
            "again, and with one of the faults each:",
            *again,
            as_yaml([fault.row for fault in faults]),
        ]
    )
