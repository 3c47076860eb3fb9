"""The table of installations: it can be read, covers every value of every dimension, and what it lacks is proposed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci import combinations
from ci.tests import pytest_kit
from lab.inputs.configs import Access
from lab.release.components import hardware_requirements
from lab.topology import Topology
from scenarios.catalogue import matrix as catalogue
from scenarios.catalogue.errors import MatrixError
from scenarios.catalogue.ids import GRAMMAR, further_files, id_of, topology_of, words_of
from scenarios.catalogue.matrix import DIMENSIONS, Row, load, params, row_of, table
from scenarios.catalogue.variants import FEATURES

ROOT = Path(__file__).parents[2]
ACCESS = Access("{}", "", "", (), tang_servers='[{"url": "http://192.168.111.1:7500", "thumbprint": "t"}]')
GOOD = """
rows:
- {name: a-b, topology: sno-ipv4-static-uefi, runs: gate}
- {name: a-c, topology: compact-ipv6-dhcp-bios, variants: [jumbo], runs: weekly, minutes: 90, vm: because}
waiting:
  boot: {pxe: nothing serves it}
"""


def test_every_value_of_every_dimension_is_in_a_nightly_scenario_or_waits_for_something() -> None:
    waiting = {(name, value) for name, values in table().waiting.items() for value in values}
    assert set(table().uncovered()) == waiting


def test_a_value_without_a_nightly_row_is_reported() -> None:
    weekly = load(GOOD.replace("runs: gate", "runs: weekly"))
    lacking = set(weekly.uncovered())
    assert lacking == {(name, value) for name, values in DIMENSIONS.items() for value in values}
    assert ("stack", "ipv4") not in set(load(GOOD).uncovered())
    assert ("stack", "ipv6") not in set(load(GOOD).uncovered(("weekly",)))


def test_each_row_is_a_topology_with_what_its_words_say() -> None:
    for row in table().rows:
        topology, words = topology_of(row.id), words_of(row.id)
        families = {"ipv4": {4}, "ipv6": {6}, "dual": {4, 6}}[words.stack]
        assert {subnet.version for subnet in topology.machine_subnets} == families, row.id
        assert {(":" in a and 6) or 4 for node in topology.nodes for a in topology.known_addresses(node)} == families
        assert topology.addressing == words.addressing, row.id
        assert {node.firmware for node in topology.nodes} == {words.firmware}, row.id
        for service in ("api", "ingress"):
            assert len(topology.vips(service)) == (len(families) if topology.platform == "baremetal" else 0)


@pytest.mark.parametrize("name", FEATURES)
def test_each_feature_changes_the_topology_or_the_inputs(name: str) -> None:
    for stack in GRAMMAR["stack"]:
        plain = f"compact-{stack}-{FEATURES[name].addressing[0]}-uefi"
        changed = id_of(plain, variants=(name,))
        files = further_files(changed)
        config: dict[str, object] = {"rendezvousIP": "x", "hosts": [{"role": "master"}]}
        install: dict[str, object] = {}
        FEATURES[name].agent_config(config, topology_of(plain))
        FEATURES[name].install_config(install, topology_of(plain))
        manifest: dict[str, dict[str, object]] = {"spec": {}}
        FEATURES[name].cluster_install(manifest, ACCESS)
        same = topology_of(changed) == topology_of(plain)
        assert not same or files or install or config == {"hosts": [{}]}, changed
        edited = manifest["spec"] or install or config == {"hosts": [{}]}
        assert FEATURES[name].written is bool(files or edited)
        after, before = topology_of(changed), topology_of(plain)
        assert [identity(after, i) for i in range(3)] == [identity(before, i) for i in range(3)]


def identity(topology: Topology, index: int) -> tuple[str, tuple[str, ...], str]:
    """Name, addresses and MAC address of a node, which no feature changes."""
    node = topology.nodes[index]
    return node.name, topology.known_addresses(node), node.mac


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("name: a-b", "name: A_b", "want words of lower-case letters"),
        ("static-uefi", "static-tape", "'tape' is not one of uefi, bios"),
        ("runs: gate", "runs: daily", "Invalid enum value 'daily'"),
        ("runs: gate", "run: gate", "unknown field `run`"),
        ("[jumbo]", "[small_disk]", "'small_disk' is not one of left_out"),
        ("[jumbo]", "[left_out]", "left_out is for static only"),
        (
            "topology: compact-ipv6-dhcp-bios, variants: [jumbo]",
            "topology: sno-ipv6-dhcp-bios, variants: [workers]",
            "workers is for several nodes only",
        ),
        ("[jumbo]", "[kernel_arguments], boot: discovery-iso", "is in files that discovery-iso has none of"),
        ("minutes: 90", "minutes: 0", "minutes 0: less than 1"),
        ("{pxe: nothing", "{tape: nothing", "waiting.boot: 'tape' is not one of iso"),
        ("boot: {pxe: nothing serves it}", "stack: {ipv6: x}", "waiting.stack.ipv6: a-c has it"),
        ("waiting:", "waited:", "unknown field `waited`"),
    ],
)
def test_what_is_wrong_with_the_table(old: str, new: str, rule: str) -> None:
    assert len(load(GOOD).rows) == 2
    with pytest.raises(MatrixError) as caught:
        load(GOOD.replace(old, new), "matrix.yaml")
    assert rule in str(caught.value)
    assert all(line.startswith("matrix.yaml: ") for line in str(caught.value).splitlines())


def test_all_that_is_wrong_with_the_table_is_reported_at_once() -> None:
    rows = """
    - {name: a-b, topology: sno-ipv4-static-tape, runs: gate, variants: [jumbo, x, jumbo, z], minutes: 0}
    - {name: a-b, topology: sno-ipv4-static-uefi, runs: daily}
    - {name: c, topology: sno-ipv4-static-uefi, runs: gate}
    - {name: d, topology: sno-ipv4-static-uefi, runs: gate}
    - [e]
    """
    with pytest.raises(MatrixError) as caught:
        load(f"rows: {rows}\nwaiting: {{boots: {{pxe: x}}, stack: {{ipv4: x, ipv5: x}}}}", "m")
    message = str(caught.value).splitlines()
    wanted = [
        "m: a-b: minutes 0: less than 1", "m: a-b: variants: 'x' is not one of", "m: a-b: variants: 'z' is not one of",
        "m: a-b: variants: jumbo is there twice", "m: a-b: topology 'sno-ipv4-static-tape': ",
        "m: a-b: Invalid enum value 'daily'", "m: 4: Expected `object`, got `array`", "m: name a-b: is there twice",
        "m: id sno-ipv4-static-uefi: is there twice", "m: waiting.boots is not one of shape, stack",
        "m: waiting.stack: 'ipv5' is not one of", "m: waiting.stack.ipv4: c has it", "m: waiting.stack.ipv4: d has it",
    ]  # fmt: skip
    assert [line[: len(start)] for line, start in zip(message, wanted, strict=True)] == wanted


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "want a mapping with a list of rows"),
        ("- a", "want a mapping with a list of rows"),
        ("rows: {a: b}", "want a mapping with a list of rows"),
        ("rows: []\nrows: []", 'line 2: key "rows" already set in map'),
        ("rows: [", "matrix.yaml: line "),
        ("\0", "control characters are not allowed"),
    ],
)
def test_the_command_tells_what_is_wrong_with_the_file(
    text: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "matrix.yaml").write_text(text)
    monkeypatch.setattr(catalogue, "TABLE", tmp_path / "matrix.yaml")
    table.cache_clear()
    try:
        assert combinations.main([]) == 1
    finally:
        table.cache_clear()
    out, err = capsys.readouterr()
    assert out == ""
    assert [rule in line for line in err.splitlines()] == [True]
    assert err.startswith("ci/matrix: matrix.yaml: ")


def test_workers_come_behind_the_others_with_addresses_of_their_own() -> None:
    for stack in GRAMMAR["stack"]:
        plain, more = (topology_of(f"arbiter-{stack}-dhcp-bios{end}") for end in ("", "-workers"))
        assert more.nodes[:3] == plain.nodes
        assert [node.name for node in more.workers] == ["worker-0", "worker-1"]
        assert [more.known_addresses(node)[0].rpartition(".")[2].rpartition(":")[2] for node in more.nodes] == (
            ["20", "21", "22", "23", "24"] if stack != "ipv6" else ["14", "15", "16", "17", "18"]
        )
        assert {len(more.known_addresses(node)) for node in more.nodes} == {2 if stack == "dual" else 1}
        assert {node.firmware for node in more.nodes} == {"bios"}
    assert [node.name for node in topology_of("ha-ipv4-static-uefi-workers").workers[2:]] == ["worker-2", "worker-3"]


def test_a_lone_node_of_the_least_size_has_what_the_release_asks_for() -> None:
    (least,) = json.loads(hardware_requirements())
    (node,) = topology_of("sno-ipv4-static-uefi-minimum").nodes
    assert (node.vcpu, node.memory_mib) == (least["sno"]["cpu_cores"], least["sno"]["ram_mib"])
    # Of disks the release counts GB, and the lab GiB.
    assert (node.disk_gib - 1) << 30 < least["sno"]["disk_size_gb"] * 10**9 <= node.disk_gib << 30


def test_platform_external_is_balanced_by_the_user_where_there_is_something_to_balance() -> None:
    several, alone = (topology_of(f"{shape}-ipv4-static-uefi-external_platform") for shape in ("compact", "sno"))
    assert (several.platform, several.load_balancer, several.vips("api")) == ("external", True, ())
    assert (alone.platform, alone.load_balancer) == ("external", False)


def test_parameters_carry_how_often_they_run() -> None:
    marks = {param.values[0]: {mark.name for mark in param.marks} for param in params()}
    assert marks["sno-ipv4-static-uefi"] == set()
    assert marks["sno-ipv6-static-uefi"] == {"nightly"}
    assert marks["ha-dual-dhcp-uefi"] == {"weekly"}
    assert [param.values[0] for param in params(lambda row: row.name == "e2e-agent-sno-ipv6")] == [
        "sno-ipv6-static-uefi"
    ]
    assert row_of("sno-ipv4-static-uefi-small_disk") is None
    vm = Row(name="x", topology="sno-ipv4-static-uefi", runs="weekly", vm="because")
    assert [(mark.name, mark.args) for mark in vm.marks] == [("weekly", ()), ("vm", ("because",))]


def installed(*options: str) -> set[str]:
    """Return the ids of the installations that pytest would make."""
    tests = (test for test in pytest_kit.collected(*options) if test.startswith("scenarios/test_install.py::"))
    return {test.partition("[")[2].rstrip("]") for test in tests}


def test_k_selects_by_the_words_and_names_of_rows() -> None:
    ids = {row.id for row in table().rows if row.topology.startswith("compact-ipv6-")}
    assert installed("--weekly", "-k", "compact and ipv6") == ids
    assert installed("--nightly", "-k", "e2e-agent-ha-dualstack") == {"ha-dual-static-uefi"}
    gate = {row.id for row in table().rows if row.runs == "gate"}
    assert installed() == gate
    assert installed("--nightly") == {row.id for row in table().rows if row.runs != "weekly"}


def test_proposed_rows_cover_all_pairs_that_are_possible(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fifth of the variants, since all take five times as long."""
    some = {**DIMENSIONS, "variant": DIMENSIONS["variant"][::5]}
    monkeypatch.setattr(combinations, "DIMENSIONS", some)
    assert combinations.main(["--missing"]) == 0
    captured = capsys.readouterr()
    ids = combinations.candidates(combinations.dimensions(table()))
    initially = set().union(*(combinations.pairs_of(row.id) for row in table().rows))
    covered = set(initially)
    for row in load("rows:\n" + captured.out).rows:
        new = combinations.pairs_of(row.id) - covered
        assert new, row.id
        covered |= new
        assert {node.firmware for node in topology_of(row.id).nodes} == {words_of(row.id).firmware}
    every = set().union(*ids.values())
    assert captured.err.startswith(f"{len(every & initially)} of {len(every & covered)} pairs are covered by ")
    assert (("firmware", "bios"), ("boot", "http-boot")) in every - covered
    assert not any(combinations.is_topology(name) for name, pairs in ids.items() if pairs - covered)


def test_nothing_is_proposed_where_nothing_is_missing() -> None:
    ids = combinations.candidates({**{name: values[:1] for name, values in DIMENSIONS.items()}})
    assert list(ids) == ["sno-ipv4-static-uefi"]
    assert combinations.propose(ids, ids["sno-ipv4-static-uefi"]) == []
    assert combinations.propose(ids, ()) == [("sno-ipv4-static-uefi", ids["sno-ipv4-static-uefi"])]


def test_of_those_that_add_as_much_the_smallest_is_proposed_first() -> None:
    values = {name: values[:1] for name, values in DIMENSIONS.items()} | {"shape": ("ha", "compact", "sno")}
    proposed = combinations.propose(combinations.candidates(values), ())
    assert [name.partition("-")[0] for name, _ in proposed] == ["sno", "compact", "ha"]


def test_values_that_exclude_each_other_are_not_possible() -> None:
    values = {name: values[0] for name, values in DIMENSIONS.items()}
    assert combinations.possible(values)
    assert not combinations.possible(values | {"addressing": "dhcp", "variant": "left_out"})
    assert not combinations.possible(values | {"firmware": "bios", "boot": "http-boot"})
    assert not combinations.possible(values | {"firmware": "bios", "variant": "tpm_encryption"})


def test_pairs_are_those_of_missing_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        combinations.main(["--pairs"])
    assert "--pairs needs --missing" in capsys.readouterr().err
