"""The rows of the swarm lane (docs/faults.md): the service itself, agents over hosts of data, and `wait-for`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ci.tests.faults import install
from scenarios.catalogue.faulty import ROWS, Outcome, Row
from scenarios.catalogue.ids import topology_of

pytestmark = pytest.mark.slow

SWARM = [row for row in ROWS if "swarm" in row.lanes]
#: Rows that run at once: each of them mostly waits.
AT_ONCE = 5


#: The others take a minute or two together, as tests of labs do. One of these completes and one fails.
FAST = ("orchestrator_killed", "service_killed_while_installing")


def _param(row: Row) -> Any:
    fast = row.name in FAST and row.scenario.startswith("sno-")
    return pytest.param(row, id=row.id, marks=[] if fast else [pytest.mark.lab])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Mapping[str, Future[Outcome]]:
    """Provide the outcome of each selected row, by its id."""
    chosen = {item.callspec.params["row"].id for item in request.session.items if item.path == Path(__file__)}
    folder = tmp_path_factory.mktemp("swarm")
    with ThreadPoolExecutor(AT_ONCE, "row") as pool:
        return {
            row.id: pool.submit(install.run, row, folder / row.id, topology_of(row.id))
            for row in SWARM
            if row.id in chosen
        }


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("row", [_param(row) for row in SWARM])
def test_a_swarm_completes_or_says_why(row: Row, outcomes: Mapping[str, Future[Outcome]]) -> None:
    outcome = outcomes[row.id].result()
    print(f"{row.name}: {outcome.code} after {outcome.seconds:.1f} s; {outcome.errors[:3]}")
    if row.told is None:
        assert outcome.code == 0, f"{row.name}: {outcome.errors[:5] or outcome.output[-2000:]}"
        return
    assert outcome.code == row.told.code, outcome.output[-3000:]
    first = outcome.errors[0] if outcome.errors else ""
    assert re.search(row.told.cause, first), f"the first error does not name the cause: {outcome.errors[:6]}"
    assert row.told.host in first, f"the first error does not name {row.told.host}: {outcome.errors[:6]}"
