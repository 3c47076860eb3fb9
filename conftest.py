"""The thin root of the pytest wiring: everything else is in the rooms' own conftest.py."""

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

# Two busy cores make a slow example no defect; what is too slow shows in the whole run's time. A gate judges the change
# and not the luck of the draw: the examples are the same ones, and forty show what a change breaks. `pytest
# --hypothesis-profile=explore` looks for others.
settings.register_profile("node0", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("explore", deadline=None)
settings.load_profile("node0")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Yield the garbage collector stays off while collecting: what is made then stays, and looking through it took a
    sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Freeze the objects of thousands of tests: the collector need not look through them each time, and
    forked children leave it shared."""
    gc.freeze()


# A shell that is no terminal's starts what it puts in the background with SIGINT ignored, and all that is started from
# there inherits it: tests that end a process as Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
