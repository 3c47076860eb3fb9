"""A command in a process that is forked from the test's: most of a short run is its interpreter's start."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

#: A command's function: it is given its arguments and returns its exit code.
Main = Callable[[Sequence[str]], int]
#: Bytes that a run may take besides what the test's process has.
MEMORY = 2 << 30


class Forked:
    """A run beside the test, which has to wait for its end. `pid` is its process."""

    def __init__(self, main: Main, arguments: Sequence[str], *, stdin: int | None = None) -> None:
        self._arguments = arguments
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until `wait`
        with open(os.devnull, "r+b") as null:
            self.pid = os.fork()
            if not self.pid:
                streams = [null.fileno() if stdin is None else stdin, null.fileno(), self._output.fileno()]
                _become(main, arguments, streams)

    def wait(self, seconds: float = 60.0) -> tuple[int, str]:
        """Exit code, a signal's number with a minus, and standard error. It is killed, and TimeoutError raised, if it
        hangs."""
        ended = _has_ended(self.pid, seconds)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self._output:
            text = _read(self._output)
        if not ended:
            raise TimeoutError(f"{' '.join(self._arguments)}: not over within {seconds:.0f} s, said {text!r}")
        return code, text


def forked(main: Main, arguments: Sequence[str], *, stdin: int | None = None, seconds: float = 60.0) -> tuple[int, str]:
    """Exit code and standard error. It is killed, and TimeoutError raised, if it hangs."""
    return Forked(main, arguments, stdin=stdin).wait(seconds)


def _become(main: Main, arguments: Sequence[str], streams: Sequence[int]) -> NoReturn:
    """Return the child: runs the command with these standard streams, within its memory."""

    def run() -> int:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        return main(arguments)

    end_with(run)


def end_with(run: Callable[[], int]) -> NoReturn:
    """In a forked child: run this and end with its exit code; nothing of the test's process is tidied up here."""
    code = 1
    try:
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until its end
        code = run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _has_ended(child: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _read(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()
