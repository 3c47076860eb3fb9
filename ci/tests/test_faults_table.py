"""The table of faults is whole: each row can be read, says what must come of it, and blames no one else."""

import pytest

from lab.faults import DiskErrors, DiskSlow
from scenarios.catalogue.errors import TableError
from scenarios.catalogue.faulty import ROWS, Outcome, load
from scenarios.catalogue.ids import topology_of

GOOD = """
- name: a_b
  scenario: sno-ipv4-static-uefi
  faults: [{type: Outage, service: registry}]
  begin: {seconds: 0}
  why: because
  completes: {}
"""


def test_every_row_is_of_a_scenario_and_its_hosts_are_of_its_topology():
    for row in ROWS:
        names = {node.name for node in topology_of(row.id).nodes}
        nodes = {value for fault in row.faults if (value := getattr(fault, "node", ""))}
        hosts = {moment.host for moment in (row.begin, row.end) if moment is not None and moment.host}
        named = {row.told.host} if row.told and row.told.host else set()
        assert nodes | hosts | named <= names, row.name


def test_disks_can_fail_where_a_row_has_them_fail_and_nowhere_else():
    for row in ROWS:
        failing = {fault.node for fault in row.faults if isinstance(fault, DiskErrors | DiskSlow)}
        for node in topology_of(row.id).nodes:
            assert {disk.can_fail for disk in node.all_disks} == {node.name in failing}, row.name


def test_three_rows_are_in_the_gate_at_most():
    assert 1 <= sum(row.gate for row in ROWS) <= 3


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("name: a_b", "name: A-b", "want words of lower-case letters"),
        ("type: Outage", "type: Dance", "Invalid value 'Dance'"),
        ("service: registry", "sorvice: registry", "unknown field `sorvice`"),
        ("begin: {seconds: 0}", "begin: {}", "must be one of stage, event"),
        ("completes: {}", "completes: {}\n  told: {cause: x}", "want one of completes, told and void"),
        ("completes: {}", "gate: true", "want one of completes, told and void"),
        ("completes: {}", "completes: {}\n  void: registry", "want one of completes, told and void"),
        ("completes: {}", "void: registry", "void: no fault ends registry"),
        ("completes: {}", "told: {cause: '('}", "cause: missing )"),
    ],
)
def test_what_is_wrong_with_a_row(old, new, rule):
    assert len(load({"t": GOOD})) == 1
    with pytest.raises(TableError) as caught:
        load({"t.yaml": GOOD.replace(old, new)})
    assert rule in str(caught.value)
    assert str(caught.value).startswith("t.yaml: ")


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(TableError) as caught:
        load({"t": GOOD, "u": GOOD + GOOD.replace("begin: {seconds: 0}", "begin: {}").replace("a_b", "c")})
    assert len(str(caught.value).splitlines()) == 2
    assert "u: sno-ipv4-static-uefi-a_b: is there twice" in str(caught.value)


def test_the_error_lines_of_a_waiting_command():
    lines = [
        'level=info msg="fine"',
        'level=error msg="host \\"a\\" is gone"',
        "level=fatal msg=short of it",
        "level=debug msg=x",
    ]
    output = "\n".join(lines)
    assert Outcome(5, output, 1.0).errors == ['host "a" is gone', "short of it"]
