"""SIGTERM and SIGHUP end a command as Ctrl-C does: what was begun is given up, and nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A second Ctrl-C within this time (s) finds the clean-up still at work; later the clean-up itself hangs.
_PATIENCE = 10.0


class Ended(KeyboardInterrupt):
    """A signal asked for the end; the text is its name."""


class _Watch:
    """Signals that came: `held` blocks wait with it, `first` is the monotonic time of the first signal, 0 before."""

    def __init__(self) -> None:
        self.held = 0
        self.first = 0.0
        self.waiting = ""

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first:
            if now - self.first > _PATIENCE:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        self.first = now
        name = signal.Signals(number).name
        if self.held:
            self.waiting = name
        else:
            raise Ended(name)


_watch = _Watch()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block a signal raises `Ended` in the main thread, once. Ignored ones stay ignored (nohup)."""
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _watch = _Watch()
    before = {}
    for number in _SIGNALS:
        old = signal.getsignal(number)
        if old in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = old
            signal.signal(number, _watch.on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Provide a short block that a signal does not cut in two: it takes effect at the block's end."""
    watch = _watch
    watch.held += 1
    try:
        yield
    finally:
        watch.held -= 1
    if watch.waiting and not watch.held:
        name, watch.waiting = watch.waiting, ""
        raise Ended(name)
