"""Scores of diagnosis, and cases whose truth is the row's."""

import msgspec
import pytest

from ci.bench import diagnosis
from ci.bench.diagnosis import Named, Score, score
from lab import faults
from lab.faults.moments import Moment
from scenarios.catalogue import truth
from scenarios.catalogue.faulty import Completes, Row, Told
from scenarios.catalogue.ids import topology_of
from scenarios.catalogue.truth import Cause

SCENARIO = "compact-ipv4-static-uefi"
LOST = Row(
    name="two_lost", scenario=SCENARIO, begin=Moment(seconds=0), why="x", told=Told(cause="x"),
    faults=(faults.LinkDown("master-1"), faults.RegistryRefuses()),
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "want"),
    [
        ((), Score(0, 0, 0, 0)),
        ((("host-lost", "master-1", "registration"),), Score(0, 0, 1, 1)),
        ((("host-lost", "master-2", "registration"),), Score(0, 0, 0, 0)),
        (
            (("host-lost", "master-1", "validation"), ("registry-refuses", "registry", "validation")),
            Score(1, 1, 1, 0),
        ),
        (
            (
                ("host-lost", "master-1", "registration"),
                ("registry-refuses", "registry", "preparation"),
                ("clock", "master-0", "validation"),
            ),
            Score(2 / 3, 0, 1, 1),
        ),
    ],
)
def test_a_missed_cause_is_nothing_and_a_false_one_costs_precision(found, want):
    case = truth.of(LOST, topology_of(SCENARIO))
    assert score([Named(Cause(kind, component), phase) for kind, component, phase in found], case) == want


def test_a_case_is_scored_by_its_first_line_and_the_undisturbed_accuses_nobody(tmp_path):
    row = msgspec.structs.replace(LOST, faults=LOST.faults[:1])
    error = 'level=error msg="Host master-{} with MAC address 52:54:00:00:00:01 never registered (2 of 3 expected)"'
    sound = msgspec.structs.replace(row, name="sound", told=None, completes=Completes())
    for case, text in ((row, error.format(1)), (sound, 'level=info msg="Cluster is installed"')):
        folder = tmp_path / case.id
        truth.leave(case, topology_of(SCENARIO), folder)
        (folder / "commands").mkdir()
        (folder / "commands/01-wait-for.log").write_text(f"{text}\n{error.format(2) if case is row else ''}\n")
        outcome = "failed" if case is row else "passed"
        (folder / "phases.json").write_text(f'[{{"name": "wait-for", "outcome": "{outcome}", "seconds": 1}}]')
    lines = list(diagnosis.lines(tmp_path))
    assert [line.split()[-5:] for line in lines[1:3]] == [["1", "1.00", "1.00", "1.00", "1.00"]] * 2
    assert lines[-1] == "accusations in 1 installations without a cause: 0"
