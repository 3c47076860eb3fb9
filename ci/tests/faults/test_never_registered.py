"""Registrations that the service refuses for good: `wait-for` names cause and host, as far as it can from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci.tests.faults.install import logged
from ci.tests.faults.lane import INFRA_ENV, KUBE_CA, QUICK, SwarmLane
from installer.assisted.errors import ClientError
from installer.common.certificates import SERVER, leaf
from installer.testing.waitfor_kit import server, serving
from installer.waitfor.command import execute
from scenarios.catalogue.faulty import Outcome
from scenarios.catalogue.ids import topology_of


def refused_cluster(lane: SwarmLane) -> None:
    with pytest.raises(ClientError, match="pull"):
        lane.service.client().register_cluster({"name": "c", "openshift_version": "4.18.0", "pull_secret": "no JSON"})


def refused_host(lane: SwarmLane) -> None:
    lane.register()
    other = INFRA_ENV[:-1] + "8"
    with pytest.raises(ClientError):
        lane.service.client("agentAuth").register_host(other, lane.hosts["master-0"].id, "v")


#: Requests to one service, in this order, and words of the first error that `wait-for` then logs.
REFUSED: tuple[tuple[Callable[[SwarmLane], None], tuple[str, ...]], ...] = (
    (lambda lane: None, ("0 clusters are known to the service on 127.0.0.1", "agent-register-cluster.service")),
    (refused_cluster, ("The cluster was not registered", "pull")),
    (refused_host, ("The host at 127.0.0.1 was refused its registration", "booted from another image?")),
)


@pytest.mark.slow
def test_why_nobody_registers(tmp_path: Path) -> None:
    lane = SwarmLane(tmp_path, topology_of("sno-ipv4-static-uefi"))
    pair = leaf(KUBE_CA, "server", names=("127.0.0.1",), usages=SERVER)
    (tmp_path / "kube").mkdir()
    api = server(lane.kube, pair, tmp_path / "kube", client_ca=KUBE_CA.certificate)
    folder, settings = lane.state(api), replace(QUICK, rest_port=lane.service.port)
    try:
        lane.service.start()
        with serving(api):
            for ask, words in REFUSED:
                ask(lane)
                with logged() as log:
                    code = execute("bootstrap-complete", folder, 1.0, settings)
                outcome = Outcome(code, "\n".join(log.lines), 1.0)
                assert outcome.code == 5, outcome.output
                assert [word for word in words if word not in outcome.errors[0]] == [], outcome.errors
    finally:
        lane.end()
