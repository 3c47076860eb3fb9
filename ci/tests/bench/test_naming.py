"""The time that a fault goes unnamed, read from a run's evidence."""

import json
from datetime import UTC, datetime

import pytest

from ci.bench import naming
from scenarios.catalogue.faulty import ROWS

BEGAN = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NEVER = next(row for row in ROWS if row.name == "wrong_vlan")


def _log(*lines):
    return "".join(f'time="2026-01-01T12:{at}Z" level={level} msg="{message}"\n' for at, level, message in lines)


def test_the_first_complaint_that_names_cause_and_host_counts():
    log = _log(
        ("00:05", "info", "Host master-2 never registered"),
        ("01:00", "warning", "Host master-1 never registered"),
        ("02:00", "warning", "Host master-2 with MAC address 52:54:00:00:00:01 never registered"),
        ("05:00", "error", "Host master-2 with MAC address 52:54:00:00:00:01 never registered"),
    )
    assert naming.naming(NEVER, BEGAN, log) == naming.Naming("wrong_vlan", 120.0, ())


def test_complaints_before_the_fault_do_not_count():
    log = _log(("00:00", "error", "master-2 never registered"))
    assert naming.naming(NEVER, BEGAN.replace(minute=10), log).seconds is None


def test_a_host_that_the_first_error_names_beside_the_rows_is_accused():
    log = _log(
        ("05:00", "error", "Bootstrap failed to complete"),
        ("05:00", "error", "Hosts master-0 and master-2 never registered"),
        ("05:01", "error", "master-1 is only in the second"),
    )
    assert naming.naming(NEVER, BEGAN, log).accused == ("master-0",)


def test_the_faults_targets_and_witnesses_are_not_wrongly_accused():
    rows = {row.name: row for row in ROWS if row.told is not None}
    cut_off = _log(("05:00", "error", "Host master-2 failed: it lost its connection; master-0 did not"))
    assert naming.naming(rows["partition_for_good"], BEGAN, cut_off).accused == ("master-0",)
    seen = _log(("05:00", "error", "api vips <192.168.111.5> is already in use, as host master-1 sees; master-2"))
    assert naming.naming(rows["vip_taken"], BEGAN, seen).accused == ("master-2",)


@pytest.mark.parametrize("phases", [[], [{"name": "lab up", "began": "2026-01-01T12:00:00Z"}]])
def test_a_run_whose_fault_never_began_is_passed_over(tmp_path, phases):
    _evidence(tmp_path / "a", phases, "")
    assert naming.read([tmp_path]) == []


def test_the_latest_run_of_a_row_is_taken_wherever_it_lies(tmp_path, capsys):
    for folder, began, line in (("b", "2026-01-01T11:00:00Z", "12:00"), ("a", "2026-01-01T12:00:00Z", "00:30")):
        log = _log((line, "error", "master-2 never registered"))
        _evidence(tmp_path / folder, [{"name": "fault wrong_vlan", "began": began}], log)
    assert [found.seconds for found in naming.read([tmp_path])] == [30.0]
    naming.run([tmp_path / "a"])
    assert "1 of 1 named: P50 30 s, max 30 s\nnamed wrongly: 0" in capsys.readouterr().out


def _evidence(folder, phases, log):
    run = folder / NEVER.id
    (run / "installer").mkdir(parents=True)
    (run / "phases.json").write_text(json.dumps(phases))
    (run / "installer/openshift_install.log").write_text(log)
