"""The clock of serial lines."""

import datetime

from lab.daemons import consoleclock
from lab.daemons.consoleclock import Stamper


def test_serial_lines_get_the_time_when_they_were_seen(tmp_path):
    log = tmp_path / "n.log"
    stamper = Stamper(log)
    now = datetime.datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
    log.write_bytes(b"one\r\ntw")
    assert stamper.step(now) == 1
    log.write_bytes(b"one\r\ntwo\n")
    assert stamper.step(now) == 1
    assert (tmp_path / "n.timed.log").read_text() == "03:04:05.678 one\n03:04:05.678 two\n"


def test_a_machine_that_prints_line_ends_alone_does_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(consoleclock, "MOST_BYTES", 10_000)
    log = tmp_path / "n.log"
    stamper = Stamper(log)
    now = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    for count in (1000, 2000, 3000):
        log.write_bytes(b"\n" * count)
        assert stamper.step(now) == 1000
    stamped = (tmp_path / "n.timed.log").read_bytes()
    assert 10_000 <= len(stamped) < 10_100
    assert stamped.endswith(b"03:04:05.000 \nnode0: this log is full; the raw one may go on\n")
