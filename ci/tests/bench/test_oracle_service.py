"""What is played to both services: scenarios that a seed decides, and a comparison that sees what differs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from ci.bench.oracle.service import drive, installing, requests, verdicts
from ci.bench.oracle.service.changes import CHANGES
from ci.bench.oracle.service.payload import write_installer
from ci.bench.oracle.service.programs import ours, service_home
from ci.bench.oracle.service.worlds import TOPOLOGIES, World, worlds
from installer.testing.service.rendezvous_kit import make_keys

READY = ("sno", "sno-dual", "compact", "ha-roles", "fencing", "none-dual")


def shown(world: World) -> str:
    return json.dumps([world.cluster, world.patch, [vars(host) for host in world.hosts]], default=repr)


def test_a_seed_decides_the_scenarios() -> None:
    one, same, other = (worlds(400, seed, CHANGES) for seed in (1, 1, 2))
    assert [shown(world) for world in one] == [shown(world) for world in same]
    assert [shown(world) for world in one] != [shown(world) for world in other]
    assert {world.name[4:] for world in one[: len(TOPOLOGIES)]} == set(TOPOLOGIES)
    assert {name for world in one for name in world.done} == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_changes_something(name: str) -> None:
    cluster, hosts = TOPOLOGIES["compact"]()
    world = World("000", cluster, hosts)
    before = shown(world)
    assert any(CHANGES[name](world, random.Random(seed)) and shown(world) != before for seed in range(9))


def test_our_service_accepts_valid_clusters_and_reports_an_invalid_host(tmp_path: Path) -> None:
    worlds = [World(name, *TOPOLOGIES[name]()) for name in READY]
    small = World("small", *TOPOLOGIES["sno"]())
    small.hosts[0].inventory["disks"] = None
    with ours(make_keys(), tmp_path / "ours") as api:
        played = drive.play_all(api, [*worlds, small])
        one, other = requests.Request("a", "GET", "/clusters/{cluster}"), requests.Request("b", "GET", "/clusters/x")
        assert requests.asked(api, [one, other]) == [200, 400]
    assert [view["status"] for _, view in played] == ["ready"] * len(READY) + ["insufficient"]
    assert all(200 <= code < 300 for one, _ in played for _, code in one.codes)
    again = verdicts.compare(played[0], played[0])
    assert not again.differences()
    assert verdicts.agreement([again])[-1][1].strip() == "1 of      1 (100.0 %)"
    # Compare two different worlds as if they were one: by the second's name, hosts have the same ids.
    played[0][0].world.name = "small"
    differing = verdicts.compare(played[0], played[-1])
    differing_names = {pair[0] for pair in differing.differences()}
    assert {"cluster-status", "host-status 0", "host-validation has-min-valid-disks of 0"} <= differing_names


def test_a_step_with_a_different_field_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "CASES", [("sno", installing.bootable, ["--append-karg", "a=b"])])
    program, keys = str(write_installer(tmp_path / "openshift-install")), make_keys()
    image = f"registry.bench.node0.example/ocp/installer@sha256:{'4' * 64}"
    with (
        ours(keys, tmp_path / "one", INSTALLER_BINARY=program) as one,
        ours(keys, tmp_path / "other", INSTALLER_BINARY=program, INSTALLER_IMAGE=image) as other,
    ):
        rows, lines = installing.compared(one, other)
    assert [row[0] for row in rows] == [
        "container-image-availability, fields", "install, fields", "installation-disk-speed-check, fields",
    ]  # fmt: skip
    assert [line[: line.index(" registry.")] for line in lines] == ["sno, host 0 install: installer_image:"]


def test_without_the_real_service_it_says_what_belongs_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORACLE_HOME", str(tmp_path))
    with pytest.raises(SystemExit, match="bin/assisted-service: no such program"):
        service_home()
