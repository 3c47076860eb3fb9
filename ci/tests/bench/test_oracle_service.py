"""`ci/bench/run oracle-service`: scenarios that a seed decides, and a comparison that sees what differs."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from ci.bench.oracle.service import api, comparison, play, requests
from ci.bench.oracle.service.scenarios import CHANGES, TOPOLOGIES, World, change, scenarios
from installer.testing.service.rendezvous_kit import Running
from installer.testing.service.words_kit import Scheme

pytestmark = pytest.mark.slow

READY = ("sno", "ipv6", "sno-dual", "compact", "dual", "ha-roles", "none-dual")


def shown(world: World) -> str:
    hosts = [{**vars(host), "network": None} for host in world.hosts]
    return json.dumps([world.cluster, world.patch, hosts, vars(world.network)], default=list)


def test_a_seed_decides_the_scenarios() -> None:
    count = len(TOPOLOGIES) + len(CHANGES) + 50
    first, same, other = (scenarios(count, seed) for seed in (1, 1, 2))
    assert [world.done for world in first] == [world.done for world in same] != [world.done for world in other]
    assert [world.name[4:] for world in first[: len(TOPOLOGIES)]] == list(TOPOLOGIES)


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_changes_something(what: str) -> None:
    before = shown(World("000", "compact"))
    worlds = [World("000", "compact") for _ in range(9)]
    assert any(change(world, what, random.Random(seed)) and shown(world) != before for seed, world in enumerate(worlds))


def test_both_services_are_compared_and_what_was_registered_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(play, "SETTLED_S", 1.0)
    monkeypatch.setattr(comparison, "scenarios", lambda count, seed: [World("000", "dual")])
    few = ("PATCH host host_role", "POST hosts")
    every = requests.every
    monkeypatch.setattr(requests, "every", lambda version: [case for case in every(version) if case.kind in few])
    (tmp_path / "other").mkdir()
    other = Running(tmp_path / "other", HW_VALIDATOR_REQUIREMENTS="")
    other.start()
    try:
        files = {scheme: tmp_path / scheme for scheme in (Scheme.USER, Scheme.AGENT)}
        for scheme, path in files.items():
            path.write_text(f"{other.keys.token(scheme)}\n")
        comparison.run(other.url, 1, 1, ca=other.ca, user_token=files[Scheme.USER], token=files[Scheme.AGENT])
        tokens = {scheme: path.read_text().strip() for scheme, path in files.items()}
        here = api.Api("it", other.url, tokens, other.ca)
        assert [here.ask("GET", path)[1] for path in ("/clusters", "/infra-envs")] == [[], []]
        played = [play.Played(World("001", name)) for name in READY]
        small = World("002", "sno")
        small.hosts[0].inventory["disks"] = None
        played.append(play.Played(small))
        play.play(here, played, here.version())
    finally:
        other.stop()
    output = capsys.readouterr().out
    assert "no differences" in output
    assert re.search(r"cluster-status +1 of +1 \(100.0 %\)", output)
    assert re.search(r"requests +(\d+) of +\1 ", output)
    assert [result.facts["cluster-status"] for result in played] == ["ready"] * len(READY) + ["insufficient"]
    assert all(
        200 <= code < 300 for result in played for name, code in result.facts.items() if name.startswith("code ")
    )
    comparison.report(comparison.facts(played[-1:], played[:1]))
    output = capsys.readouterr().out
    assert "host-validation has-min-valid-disks: error there, passed here   [002 sno: nothing changed]" in output


def test_a_service_that_does_not_answer_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^http://127\.0\.0\.1:9: "):
        comparison.run("http://127.0.0.1:9", 1, 1, ca=None, user_token=None, token=None)
