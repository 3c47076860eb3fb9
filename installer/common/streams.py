"""The standard streams of a command, even if its caller closed them."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from io import UnsupportedOperation


def with_streams(program: str, run: Callable[[], int], unwritten: int = 1) -> int:
    """Run a command; return its exit code, or `unwritten` after a line on stderr if its output cannot be written.

    For a closed stream it gets /dev/null: else the next file would have its number, and what programs print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        discard_output()
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError):  # stderr may be full too; the exit code tells
                print(f"{program}: standard output: {error.strerror}", file=sys.stderr)
        return unwritten


def output_is_lost() -> bool:
    """Check whether the output cannot be written: its reader has gone, or the disk is full."""
    poll = select.poll()
    try:
        sys.stdout.flush()
        poll.register(sys.stdout.fileno(), 0)
    except UnsupportedOperation:
        return False  # it is no file
    except OSError:
        return True
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard_output() -> None:
    """Discard the output that could not be written, and all that follows."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
