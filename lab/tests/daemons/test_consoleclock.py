"""The clock of serial lines."""

import datetime

from lab.daemons import consoleclock
from lab.daemons.consoleclock import Stamper
from lab.machines.container.hardware import line


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


def test_a_virtual_machine_that_never_stops_talking_does_not_fill_the_disk_either(tmp_path, monkeypatch):
    """Its log is written by another process, which appends to it and knows of no limit."""
    monkeypatch.setattr(consoleclock, "RAW_BYTES", 100_000)
    monkeypatch.setattr(consoleclock, "MORE_BYTES", 1000)
    log = tmp_path / "n.log"
    stamper = Stamper(log)
    now = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    written = b"".join(b"line %09d\n" % number for number in range(100))
    with log.open("ab", buffering=0) as machine:
        for _ in range(300):
            machine.write(written)
            stamper.step(now)
            assert log.stat().st_size < 100_000 + 1000 + 2 * len(written)
        raw = log.read_bytes()
        assert raw.startswith(written * (100_000 // len(written)))
        full = b"node0: this log is full; what follows goes to who is connected only\r\n"
        assert raw[100_000:].strip().startswith(full.strip())
        # What was kept has its times, each line once.
        timed = (tmp_path / "n.timed.log").read_text().splitlines()
        assert len(timed) == raw[:100_000].count(b"\n")
        assert timed[-1].split(" ", 1)[1] == raw[:100_000].splitlines()[len(timed) - 1].decode()


def test_the_limit_is_the_one_of_a_container_machine():
    assert consoleclock.RAW_BYTES == line.LOG_BYTES
