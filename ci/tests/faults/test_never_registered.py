"""Registrations that the service refuses for good: `wait-for` names cause and host, as far as it can from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci.tests.faults.install import logged
from ci.tests.faults.lane import INFRA_ENV, KUBE_CA, QUICK, SwarmLane
from installer.assisted.errors import ClientError
from installer.credentials.certificates import leaf
from installer.testing.waitfor_kit import server, serving
from installer.waitfor.command import execute
from scenarios.catalogue.faulty import Outcome
from scenarios.catalogue.ids import topology_of


def outcome(directory: Path, before: Callable[[SwarmLane], None]) -> Outcome:
    """What a short `wait-for bootstrap-complete` says after the service has been asked for something."""
    lane = SwarmLane(directory, topology_of("sno-ipv4-static-uefi"))
    pair = leaf(KUBE_CA, "server", addresses=("127.0.0.1",), server=True)
    (directory / "kube").mkdir()
    api = server(lane.kube, pair, directory / "kube", client_ca=KUBE_CA.certificate.decode())
    try:
        lane.service.start()
        before(lane)
        with serving(api), logged() as lines:
            code = execute("bootstrap-complete", lane.state(api), 2.0, replace(QUICK, rest_port=lane.service.port))
    finally:
        lane.end()
    return Outcome(code, "\n".join(lines.lines), 2.0)


def refused_cluster(lane: SwarmLane) -> None:
    with pytest.raises(ClientError, match="pull"):
        lane.service.client().register_cluster({"name": "c", "openshift_version": "4.18.0", "pull_secret": "no JSON"})


def refused_host(lane: SwarmLane) -> None:
    lane.register()
    other = INFRA_ENV[:-1] + "8"
    with pytest.raises(ClientError):
        lane.service.client("agentAuth").register_host(other, lane.hosts["master-0"].id, "v")


@pytest.mark.parametrize(
    ("before", "first"),
    [
        (refused_cluster, ("The cluster was not registered", "pull")),
        (lambda lane: None, ("0 clusters are known to the service on 127.0.0.1", "agent-register-cluster.service")),
        (refused_host, ("The host at 127.0.0.1 was refused its registration", "booted from another image?")),
    ],
    ids=["cluster-refused", "nobody-asked", "host-refused"],
)
def test_why_nobody_registers(before: Callable[[SwarmLane], None], first: tuple[str, ...], tmp_path: Path) -> None:
    result = outcome(tmp_path, before)
    assert result.code == 5, result.output
    for words in first:
        assert words in result.errors[0], result.errors
