"""Faults drawn at random: the same for the same seed, and each could be a row of the table."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci.tests.pytest_kit import pytest_scenarios
from scenarios.catalogue.chaos import KINDS, MOST, as_yaml, drawn, seeds
from scenarios.catalogue.faulty import load
from scenarios.catalogue.ids import topology_of

SCENARIOS = ["sno-ipv4-static-uefi", "compact-ipv4-static-uefi", "ha-ipv4-static-uefi"]


@settings(max_examples=50)
@given(st.integers(0, 10**9 - 1), st.sampled_from(SCENARIOS))
def test_a_seed_draws_the_same_rows_again_and_each_fits_the_table(seed, scenario):
    topology = topology_of(scenario)
    faults = drawn(seed, scenario, topology)
    assert faults == drawn(seed, scenario, topology)
    assert 1 <= len(faults) <= MOST
    assert len({fault.kind for fault in faults}) == len(faults)
    rows = [fault.row for fault in faults]
    assert load({"t": as_yaml(rows)}) == tuple(rows)
    names = {node.name for node in topology.nodes}
    assert {fault.node for row in rows for fault in row.faults if getattr(fault, "node", "")} <= names
    for place, fault in enumerate(faults):
        assert drawn(seed, scenario, topology, [place]) == (fault,)


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_faults_of_the_service_and_the_bootstrap_are_at_the_rendezvous_host(seed):
    topology = topology_of(SCENARIOS[2])
    for drawn_fault in drawn(seed, SCENARIOS[2], topology):
        [fault] = drawn_fault.row.faults
        if getattr(fault, "process", "agent") != "agent" or drawn_fault.row.begin.stage:
            assert fault.node == topology.masters[0].name
            assert drawn_fault.row.begin.host in ("", fault.node)


def test_fifty_seeds_draw_every_kind():
    topology = topology_of(SCENARIOS[0])
    assert {fault.kind for seed in range(1, 51) for fault in drawn(seed, SCENARIOS[0], topology)} == set(KINDS)


def test_momentary_faults_have_no_end_and_some_others_never_end():
    topology = topology_of(SCENARIOS[0])
    faults = [fault for seed in range(1, 201) for fault in drawn(seed, SCENARIOS[0], topology)]
    staying = [fault for fault in faults if KINDS[fault.kind].lasts and fault.row.end is None]
    assert staying
    assert all(KINDS[fault.kind].may_stay for fault in staying)
    assert all(fault.row.end is None for fault in faults if not KINDS[fault.kind].lasts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17", [(17, ())]),
        ("17,23", [(17, ()), (23, ())]),
        ("1-3", [(1, ()), (2, ()), (3, ())]),
        ("17:0,2", [(17, (0, 2))]),
    ],
)
def test_seeds_on_the_command_line(text, expected):
    assert seeds(text) == expected


@pytest.mark.parametrize("text", ["", "x", "1-x", "17:", "17:x", "5-3", "-1", "1764180000", "1-1764180000"])
def test_invalid_seeds_are_refused(text):
    with pytest.raises(ValueError, match=r"want seeds like 17|no seed|nine digits"):
        seeds(text)


def test_a_fault_that_a_seed_does_not_have_is_refused():
    with pytest.raises(ValueError, match="not 7"):
        drawn(17, SCENARIOS[0], topology_of(SCENARIOS[0]), [7])


def test_an_id_may_name_a_seed_and_its_faults():
    assert topology_of("sno-ipv4-static-uefi-chaos_17_0") == topology_of("sno-ipv4-static-uefi")
    with pytest.raises(ValueError, match="'chaos_x' is not one of"):
        topology_of("sno-ipv4-static-uefi-chaos_x")


def test_rows_are_readable():
    topology = topology_of(SCENARIOS[0])
    [first, *_] = yaml.safe_load(as_yaml([fault.row for fault in drawn(3, SCENARIOS[0], topology)]))
    assert first["name"] == "chaos_3_0"
    assert first["why"].startswith("drawn by seed 3: ")


def test_the_command_refuses_a_fault_that_a_seed_does_not_have_before_there_is_a_lab():
    code, output = pytest_scenarios("--collect-only", "--chaos", "17:12")
    assert code == pytest.ExitCode.INTERRUPTED
    assert re.search(r"UsageError: --chaos: seed 17 has faults 0 to \d, not 12\n", output)
