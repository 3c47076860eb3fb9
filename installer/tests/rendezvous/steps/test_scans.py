"""Networks that agents scan, and time sources that they ask: those that the user gave."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from installer.assisted.enums import Result, StepType
from installer.rendezvous.steps import instructions
from installer.rendezvous.store.model import InfraEnv
from installer.rendezvous.validations import network
from installer.testing.engine.fleet_kit import discovered
from installer.testing.engine.verdict_kit import host_view


@pytest.mark.parametrize(
    ("cidrs", "own", "asked"),
    [
        (["192.168.111.0/24"], "192.168.111.80/24", ["192.168.111.0/24"]),
        (["192.168.108.0/22"], "192.168.111.80/22", ["192.168.108.0/22"]),
        (["192.168.104.0/21"], "192.168.111.80/21", None),
        (["10.0.0.0/8", "192.168.111.0/24"], "192.168.111.80/24", ["192.168.111.0/24"]),
        # Alone on its link, as far as it knows.
        (["192.168.111.0/24"], "192.168.111.80/32", None),
        (["fd00::/120"], "fd00::5/120", None),
    ],
)
def test_only_what_the_agent_scans(cidrs: list[str], own: str, asked: list[str] | None) -> None:
    nic = {"name": "eno1", f"ipv{6 if ':' in own else 4}_addresses": [own]}
    view = host_view(None, {"machine_networks": [{"cidr": cidr} for cidr in cidrs]}, {"interfaces": [nic]})
    args = instructions.MAKERS[StepType.FREE_ADDRESSES](view)
    assert (json.loads(args[0]) if args else None) == asked


@pytest.mark.parametrize(
    ("cluster", "infra_env", "asked"),
    [
        ({}, {}, ""),
        ({"additional_ntp_source": "a.a,b.b"}, {"additional_ntp_sources": "b.b,c.c"}, "a.a,b.b,c.c"),
        ({"ntp_sources": "x.x"}, {"additional_ntp_sources": "c.c"}, "x.x"),
        ({"additional_ntp_source": "a.a"}, {"ntp_sources": "y.y"}, "y.y"),
        ({"ntp_sources": "x.x"}, {"ntp_sources": "y.y"}, "x.x"),
        (None, {"ntp_sources": "y.y"}, "y.y"),
    ],
)
def test_only_the_time_sources_that_are_wanted(
    cluster: dict[str, str] | None, infra_env: dict[str, str], asked: str
) -> None:
    view = replace(host_view(None, cluster), infra_env=InfraEnv(id="e", name="e", **infra_env))
    if cluster is None:
        view = replace(view, joined=None)
    [text] = instructions.MAKERS[StepType.NTP](view) or []
    assert json.loads(text).get("ntp_source", "") == asked


@pytest.mark.parametrize("name", ["ntp_sources", "additional_ntp_sources"])
def test_a_host_of_no_cluster_is_to_have_the_time_of_sources_that_are_given(name: str) -> None:
    view = host_view({"cluster_id": None})
    for infra_env, result in (
        (InfraEnv(id="e", name="e"), Result.SUPPRESSED),
        (InfraEnv(id="e", name="e", **{name: "y.y"}), Result.FAILURE),
    ):
        assert network.ntp_synced(replace(view, infra_env=infra_env)).result is result


def test_logs_are_gathered_from_the_other_masters(tmp_path: Path) -> None:
    fleet = discovered(tmp_path)
    fleet.prepare()
    first, *others = fleet.machines
    [text] = instructions.MAKERS[StepType.LOGS](fleet.world.engine.view(fleet.host(first))) or []
    assert json.loads(text)["master_ips"] == [machine.ip for machine in others]
    # Without machine networks any address that others can reach will do.
    view = fleet.world.engine.view(fleet.host(first))
    assert view.joined is not None
    [text] = (
        instructions.MAKERS[StepType.LOGS](
            replace(view, joined=msgspec.structs.replace(view.joined, machine_networks=[]))
        )
        or []
    )
    assert json.loads(text)["master_ips"] == [machine.ip for machine in others]
