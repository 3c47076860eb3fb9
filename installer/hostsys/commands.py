"""Programs with a bound on everything: how long they run, how much they print, and what they leave running."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

CHUNK = 64 * 1024
LARGEST = 32 * 1024**2
# How long a program may take to end after SIGTERM, and after SIGKILL (one that hangs in disk I/O does not end).
GRACE = 5.0


@dataclass(frozen=True)
class Completed:
    """A program's result: its exit ``code`` (minus the signal's number), None when it was ended, with ``why``.

    ``out`` and ``err`` are what it printed until then.
    """

    code: int | None
    out: bytes
    err: bytes
    why: str = ""


def run(
    command: Sequence[str],
    timeout: float,
    *,
    env: Mapping[str, str] | None = None,
    merged: bool = False,
    largest: int = LARGEST,
    feed: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run a program to its end, at most ``timeout`` seconds and ``largest`` bytes of output; then it is ended.

    It has a process group of its own, which ends with it: a shell's or nsenter's child is not left behind. What a
    daemon that it started prints later is not waited for. ``merged``: errors among the output; ``feed`` gets the
    output as it comes. Raises OSError when it cannot be started.
    """
    deadline = time.monotonic() + timeout
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    except ValueError as error:
        # A NUL in an argument or the environment.
        raise OSError(errno.EINVAL, str(error)) from None
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    reader = _Reader(pipes, largest, feed)
    try:
        cut = reader.read(process.pid, deadline)
        if cut:
            _end(process)
    except BaseException:
        _end(process)
        raise
    finally:
        for pipe in pipes:
            pipe.close()
    out, err = bytes(reader.kept[0]), b"" if merged else bytes(reader.kept[1])
    if cut == "size":
        return Completed(None, out, err, f"printed more than {largest} bytes")
    return (
        Completed(None, out, err, f"did not end within {timeout:g} s") if cut else Completed(process.wait(), out, err)
    )


class _Reader:
    """Takes what a program prints, until it ends."""

    def __init__(self, pipes: Sequence[IO[bytes]], largest: int, feed: Callable[[bytes], None] | None) -> None:
        self._pipes, self._left, self._feed = pipes, largest, feed
        self.kept = [bytearray() for _ in pipes]

    def read(self, pid: int, deadline: float) -> str:
        """Empty when the process has ended, else what stopped the reading: ``time`` or ``size``."""
        ended = os.pidfd_open(pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ)
                for number, pipe in enumerate(self._pipes):
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ, number)
                while (left := deadline - time.monotonic()) > 0:
                    ready = [key for key, _ in selector.select(left)]
                    # It has ended, so that all it wrote is in the pipes.
                    over = any(key.fd == ended for key in ready)
                    numbers = range(len(self._pipes)) if over else [key.data for key in ready]
                    for number in numbers:
                        if not self._take(number, over, deadline):
                            with contextlib.suppress(KeyError):
                                selector.unregister(self._pipes[number])
                        if self._left < 0:
                            return "size"
                    if over:
                        return ""
                return "time"
        finally:
            os.close(ended)

    def _take(self, number: int, all_of_it: bool, deadline: float) -> bool:
        """Take what is there; False at the end of the stream."""
        while True:
            try:
                chunk = os.read(self._pipes[number].fileno(), CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._left -= len(chunk)
            if number == 0 and self._feed is not None:
                self._feed(chunk)
            self.kept[number] += chunk[: len(chunk) + min(self._left, 0)]
            # A daemon that it left behind may print for ever.
            if not all_of_it or self._left < 0 or time.monotonic() >= deadline:
                return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
