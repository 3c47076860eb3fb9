"""Run commands with their output streamed: to a file as it comes, to a logger, and to the caller at the end."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lab.cleanup import afterwards, finish
from lab.errors import CommandTimeoutError

log = logging.getLogger(__name__)

_TAIL_LINES = 25
_DRAIN_SECONDS = 5.0
_CHECK_SECONDS = 0.5


# Variables of the environment that would send programs out of a lab (proxies), or make them distrust its CA.
_FOREIGN = re.compile(r"^(https?|ftp|all|no)_proxy$|^(SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$", re.I)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without proxies and foreign CAs, plus `extra`."""
    own = {key: value for key, value in os.environ.items() if not _FOREIGN.fullmatch(key)}
    own["PATH"] = f"{own.get('PATH', '/usr/bin:/bin')}:/usr/local/sbin:/usr/sbin:/sbin"
    return own | dict(extra or {})


class _Stream(threading.Thread):
    """Copies one of a command's streams line by line."""

    def __init__(self, source: IO[str], sink: IO[str], lock: threading.Lock, echo: logging.Logger) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self._source = source
        self._sink = sink
        self._lock = lock
        self._echo = echo
        self.start()

    def run(self) -> None:
        with self._source:
            for line in self._source:
                self.lines.append(line)
                self._echo.info("%s", line.rstrip("\n"))
                with self._lock:
                    if not self._sink.closed:
                        self._sink.write(line)
                        self._sink.flush()


def end_group(process: subprocess.Popen[str], grace: float = 5.0) -> None:
    """End a process that leads a group, and the whole group: TERM, then KILL after `grace` seconds."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _nothing() -> None:
    """Do nothing, as a check that never raises."""


def _wait(process: subprocess.Popen[str], timeout: float, check: Callable[[], None]) -> int:
    """Return the exit code of a process; raises TimeoutExpired, or what `check` raises, which is called while
    waiting."""
    deadline = time.monotonic() + timeout
    while True:
        check()
        left = deadline - time.monotonic()
        try:
            code = process.wait(max(min(left, _CHECK_SECONDS), 0))
        except subprocess.TimeoutExpired:
            if left <= 0:
                raise
        else:
            check()
            return code


def run_streaming(
    argv: Sequence[str],
    *,
    log_file: Path,
    timeout: float,
    env: Mapping[str, str],
    echo: logging.Logger = log,
    shown: Sequence[str] | None = None,
    check: Callable[[], None] = _nothing,
) -> subprocess.CompletedProcess[str]:
    """Run `argv`; its output goes to `log_file` and, line by line, to `echo`.

    The result has stdout and stderr separately, the file has them as they came. `shown` stands for `argv` in messages.
    Raises CommandTimeoutError after `timeout` seconds, and what `check` raises before, during or after the run; either
    way the command's whole process group has been ended by then.
    """
    named = list(shown or argv)
    begin = time.monotonic()
    lock = threading.Lock()
    with log_file.open("a", errors="replace") as sink:
        sink.write(f"$ {' '.join(named)}\n")
        sink.flush()
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("subprocess without pipes")
        out = _Stream(process.stdout, sink, lock, echo)
        err = _Stream(process.stderr, sink, lock, echo)
        try:
            code = _wait(process, timeout, check)
        except subprocess.TimeoutExpired:
            end_group(process)
            for stream in (out, err):
                stream.join(_DRAIN_SECONDS)
            tail = "".join([*out.lines, *err.lines][-_TAIL_LINES:])
            raise CommandTimeoutError(named, timeout, tail) from None
        except BaseException as error:
            finish(("end the command", lambda: end_group(process, grace=1.0)), cause=error)
            raise
        # A grandchild may hold the pipes open: its output after the command's end is not part of the result.
        for stream in (out, err):
            stream.join(_DRAIN_SECONDS)
        with lock:
            sink.write(f"= exit {code} after {time.monotonic() - begin:.1f} s\n")
    return subprocess.CompletedProcess(named, code, "".join(out.lines), "".join(err.lines))


@contextmanager
def in_background(
    argv: Sequence[str], *, log_file: Path, env: Mapping[str, str], shown: Sequence[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run `argv` for the length of the block, its output in `log_file`; its process group ends with the block."""
    with log_file.open("a") as sink:
        sink.write(f"$ {' '.join(shown or argv)}\n")
        sink.flush()
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=dict(env),
            text=True,
            start_new_session=True,
        )
    with afterwards(("end the command", lambda: end_group(process))):
        yield process
