"""Cleanup steps: each one runs whatever the others raise, and none of them hides the original error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

#: (what the step does, in words that follow "could not", the function that does it).
Step = tuple[str, Callable[[], object]]


def finish(*steps: Step, cause: BaseException | None = None) -> None:
    """Run every step.

    With a `cause`, which the caller goes on to raise, the steps' errors are added to it as notes. Without one, the
    first error is raised once all steps have run, with the others as notes. Ctrl-C during a step is never lost.
    """
    failed: list[tuple[str, BaseException]] = []
    for what, step in steps:
        try:
            step()
        except BaseException as error:
            log.warning("could not %s: %s", what, _described(error))
            failed.append((what, error))
    if not failed:
        return
    interrupt = next((error for _, error in failed if not isinstance(error, Exception)), None)
    raised = cause if cause is not None and interrupt is None else interrupt or failed[0][1]
    for what, other in failed:
        raised.add_note(f"could not {what}" if other is raised else f"could not {what}: {_described(other)}")
    if interrupt is not None and cause is not None:
        raise interrupt from cause
    if raised is not cause:
        raise raised


@contextmanager
def afterwards(*steps: Step) -> Iterator[None]:
    """Run the steps after the block, however it ends."""
    try:
        yield
    except BaseException as error:
        finish(*steps, cause=error)
        raise
    finish(*steps)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
