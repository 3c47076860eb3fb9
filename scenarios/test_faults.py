"""Faults in real installations: each completes, or the first line says what is wrong, and where (docs/faults.md)."""

import re
import time
from functools import partial

import pytest

from lab.deploy import Deployment
from lab.errors import DaemonEndedError
from lab.faults import Panic
from lab.host.paths import cache_dir
from scenarios.catalogue import truth
from scenarios.catalogue.faulty import LABS, ROWS, Outcome, Row, Told, disturb, disturb_while
from scenarios.catalogue.ids import words_of
from scenarios.catalogue.scheduling import Durations
from scenarios.testing import surfaces
from scenarios.testing.cluster import INSTALL_SECONDS, Installation, output_of
from scenarios.testing.hub import installed_by_hub, operator
from scenarios.testing.hubresources import resources

#: ci/tests/faults runs those of the swarm lane.
IN_LABS = [row for row in ROWS if set(row.lanes) & set(LABS)]
BY_ID = {row.id: row for row in IN_LABS}
UNDISTURBED = Durations(cache_dir() / "undisturbed.json")


def _marks(row: Row) -> list[pytest.MarkDecorator]:
    marks = [] if row.gate else [pytest.mark.nightly]
    if row.vm:
        marks.append(pytest.mark.vm(row.vm))
    if row.void:
        marks.append(pytest.mark.ends_daemon(row.void))
    if panics := [fault.node for fault in row.faults if isinstance(fault, Panic)]:
        marks.append(pytest.mark.panics(*panics))
    return marks


@pytest.mark.parametrize("deployment", [pytest.param(row.id, marks=_marks(row)) for row in IN_LABS], indirect=True)
def test_an_installation_completes_or_says_why(deployment: Deployment, request: pytest.FixtureRequest) -> None:
    row = BY_ID[request.node.callspec.params["deployment"]]
    if row.void:
        _void(row, deployment)
        return
    # The run's evidence becomes a case for `ci/bench/run diagnosis`.
    truth.leave(row, deployment.topology, deployment.lab.artifacts)
    by_hub = "hub" in words_of(row.id).variants
    outcome = _disturb_hub(row, deployment) if by_hub else disturb(deployment, row, partial(_unsaid, deployment))
    print(f"{row.name}: wait-for ended with {outcome.code} after {outcome.seconds:.0f} s; {outcome.errors[:3]}")
    if row.told is not None:
        _check_told(row, outcome)
        return
    assert outcome.code == 0, f"{row.name}: {outcome.errors[:5] or outcome.output[-2000:]}"
    installation = Installation(deployment)
    assert installation.api_ready()
    assert installation.nodes_ready()
    assert installation.unwell_operators() == []
    _in_time(row, outcome, f"{row.scenario}@{deployment.topology.machine}")


def _disturb_hub(row: Row, deployment: Deployment) -> Outcome:
    """Apply a cluster's resources to a hub, and wait as a person does who waits for the cluster."""
    name, minutes = deployment.topology.cluster_name, row.told_minutes(deployment.topology.machine)
    limit = 60 * minutes or INSTALL_SECONDS
    with operator(deployment) as hub:

        def install() -> Outcome:
            began = time.monotonic()
            hub.apply(resources(deployment))
            result = hub.waited(f"clusterdeployment/{name}", limit)
            return Outcome(result.returncode, output_of(result), time.monotonic() - began)

        outcome = disturb_while(hub, row, limit, install)
        if outcome.code == 0:
            installed_by_hub(deployment, hub)
        return outcome


def _void(row: Row, deployment: Deployment) -> None:
    """Expect the run's immediate end with an error of the lab, which names the daemon that has ended."""
    with pytest.raises(DaemonEndedError) as caught:
        disturb(deployment, row)
    assert [line.partition(" at ")[0] for line in caught.value.ended] == [f"{row.void} was killed by SIGKILL"]


def _unsaid(deployment: Deployment, told: Told) -> tuple[str, ...]:
    """List where the row's cause is missing: a line for each of page, console and archive that the row asks for."""
    hosts = [told.host] if told.host else [node.name for node in deployment.topology.nodes]
    found = [
        surfaces.page_lacks(deployment, told.page) if told.page else "",
        *(surfaces.console_lacks(deployment, host, told.console) for host in hosts if told.console),
        surfaces.archive_lacks(deployment, told.archive) if told.archive else "",
    ]
    return tuple(filter(None, found))


def _check_told(row: Row, outcome: Outcome) -> None:
    assert row.told is not None
    assert outcome.code == row.told.code, f"wait-for ended with {outcome.code}: {outcome.output[-2000:]}"
    first = outcome.errors[0] if outcome.errors else ""
    assert re.search(row.told.cause, first), f"the first error does not name the cause: {outcome.errors[:6]}"
    assert row.told.host in first, f"the first error does not name {row.told.host}: {outcome.errors[:6]}"
    assert not outcome.unsaid, "\n".join(outcome.unsaid)


def _in_time(row: Row, outcome: Outcome, job: str) -> None:
    """Compare the time with the last undisturbed installation on this machine, if there is one."""
    if not row.faults and row.bmc == "lab":
        UNDISTURBED.update({job: outcome.seconds})
        return
    usual = UNDISTURBED.read().get(job)
    assert row.completes is not None
    assert usual is None or outcome.seconds <= usual * row.completes.factor, (
        f"took {outcome.seconds:.0f} s, {outcome.seconds / usual:.1f} times the undisturbed {usual:.0f} s"
    )
