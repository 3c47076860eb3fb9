"""Ctrl-C and SIGTERM of commands that bring up a lab: said at once, with an exit code of their own."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Interrupted(KeyboardInterrupt):
    """A signal ended the command; `exit_code` is a shell's for it: 130 after Ctrl-C, 143 after SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def announced(consequence: Callable[[], str]) -> Iterator[None]:
    """Raise Interrupted within the block when one of the signals comes, after a warning of the `consequence`: cleaning
    up takes its time. Signals that this process ignores stay ignored."""

    def interrupt(number: int, _frame: object) -> None:
        log.warning("interrupted: %s", consequence())
        raise Interrupted(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
