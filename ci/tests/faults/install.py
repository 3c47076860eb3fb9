"""A simulated installation with the faults of a row, until the real `wait-for` ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ci.tests.faults.effects import BEGIN
from ci.tests.faults.hosts import SPEED
from ci.tests.faults.lane import KUBE_CA, LIMIT_SECONDS, POLL_SECONDS, QUICK, SwarmLane
from installer.common.certificates import SERVER, leaf
from installer.testing.waitfor_kit import server, serving
from installer.waitfor.command import execute
from lab.topology import Topology
from scenarios.catalogue.faulty import Outcome, Row


class _Lines(logging.Handler):
    """The log of one thread, as the command prints it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._mine = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of a record of this thread."""
        if record.thread == self._mine:
            text = record.getMessage().replace('"', '\\"')
            self.lines.append(f'level={record.levelname.lower()} msg="{text}"')


@contextmanager
def logged() -> Iterator[_Lines]:
    """Yield what `wait-for` logs in this thread, line by line."""
    log, lines = logging.getLogger("installer.waitfor"), _Lines()
    log.addHandler(lines)
    log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        log.removeHandler(lines)


def _drive(lane: SwarmLane, row: Row, began: float, limit: float, *, broken: threading.Event) -> bool:
    """Begin and end the row's faults; False when their moment did not come. `broken` is set once they have begun."""
    at = began if row.begin.seconds is None else began - row.begin.seconds * (1 - 1 / SPEED)
    if not row.begin.wait(lane, at, limit, lane.over, poll=POLL_SECONDS):
        return False
    undo = [BEGIN[type(fault)](lane, fault) for fault in row.faults]
    broken.set()
    if row.end is not None:
        now = time.monotonic()
        at = now if row.end.seconds is None else now - row.end.seconds * (1 - 1 / SPEED)
        if row.end.wait(lane, at, limit, lane.over, poll=POLL_SECONDS):
            for stop in reversed(undo):
                stop()
    return True


def run(row: Row, directory: Path, topology: Topology) -> Outcome:
    """Install with the row's faults, up to where `wait-for` ends. Raises AssertionError where they did not begin."""
    limit = row.told.minutes * 60 / SPEED if row.told else LIMIT_SECONDS
    directory.mkdir(parents=True)
    lane = SwarmLane(directory, topology)
    pair = leaf(KUBE_CA, "server", names=("127.0.0.1",), usages=SERVER)
    (directory / "kube").mkdir()
    api = server(lane.kube, pair, directory / "kube", client_ca=KUBE_CA.certificate)
    outcomes: list[bool | BaseException] = []
    broken = threading.Event()

    def disturb() -> None:
        try:
            outcomes.append(_drive(lane, row, began, LIMIT_SECONDS, broken=broken))
        except BaseException as error:
            outcomes.append(error)
            broken.set()

    try:
        lane.service.start()
        lane.register()
        with serving(api), logged() as lines:
            folder = lane.state(api)
            settings = replace(QUICK, rest_port=lane.service.port)
            began = time.monotonic()
            threads = [threading.Thread(target=disturb), threading.Thread(target=lane.drive)]
            # Faults of the start begin before the first agent registers.
            threads[0].start()
            if row.begin.seconds == 0:
                broken.wait(LIMIT_SECONDS)
            for host in lane.hosts.values():
                host.start()
            threads[1].start()
            code = execute("bootstrap-complete", folder, limit, settings)
            took = time.monotonic() - began
            lane.over.set()
            for thread in threads:
                thread.join(LIMIT_SECONDS)
    finally:
        lane.end()
    [happened] = outcomes or [False]
    if isinstance(happened, BaseException):
        raise happened
    assert happened or not row.faults, f"{row.name} did not begin: all was over after {took:.1f} s"
    return Outcome(code, "\n".join(lines.lines), took)
