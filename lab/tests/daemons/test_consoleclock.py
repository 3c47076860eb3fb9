"""The clock of serial lines."""

import datetime

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
