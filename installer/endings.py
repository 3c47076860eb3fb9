"""Ends of a command that come from outside: a signal ends it as an error does, so that everything is put away."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """A signal has ended the command; the exit code is 128 and its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


def _end(number: int, _: FrameType | None) -> None:
    # What is put away must not be interrupted by the next one.
    for other in (*_SIGNALS, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise Ended(number)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Ended in the block; what the caller ignores (nohup) stays ignored. Main thread only."""
    before = {number: signal.getsignal(number) for number in (*_SIGNALS, signal.SIGINT)}
    try:
        for number in _SIGNALS:
            if before[number] is signal.SIG_DFL:
                signal.signal(number, _end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
