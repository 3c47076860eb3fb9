"""A build's progress: a line when a step begins to take long, and one with its duration when it ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from lab.release.stage.errors import CommandFailed, ToolMissing

_console = Console(stderr=True, highlight=False, soft_wrap=True)
_began = time.monotonic()

# A command that is silent for its user longer than this gets a line with its latest output.
HEARTBEAT_SECONDS = 15.0
TAIL_LINES = 25


def say(message: str) -> None:
    """One line on standard error, with the seconds since the program began."""
    _console.print(f"[{time.monotonic() - _began:7.1f}s] {message}", markup=False)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Log a named step's beginning, and how long it took or that it failed."""
    began = time.monotonic()
    say(f"{name}: building")
    try:
        yield
    except BaseException:
        say(f"{name}: FAILED after {time.monotonic() - began:.1f}s")
        raise
    say(f"{name}: done in {time.monotonic() - began:.1f}s")


def need(program: str, package: str) -> str:
    """Return the path of a program of the host; ToolMissing names the Debian package that has it."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise ToolMissing(program, f"apt-get install {package}")
    return path


def run(
    argv: Sequence[str],
    *,
    label: str,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Path | None = None,
) -> None:
    """Run a build command to its end, its output in ``log``, its latest line shown from time to time.

    ``env`` replaces the whole environment. ``stdout`` takes standard output to a file instead of the log.
    Raises CommandFailed with the log's tail.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    began = time.monotonic()
    with log.open("w") as sink:
        out = stdout.open("wb") if stdout else None
        try:
            child = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out or subprocess.PIPE,
                stderr=subprocess.PIPE if out else subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            stop = threading.Event()
            beat = threading.Thread(target=_heartbeat, args=(label, tail, began, stop), daemon=True)
            beat.start()
            try:
                stream = child.stderr if out else child.stdout
                assert stream is not None
                with stream:
                    for line in stream:
                        sink.write(line)
                        sink.flush()
                        if line.strip():
                            tail.append(line.rstrip())
                code = child.wait()
            except BaseException:
                child.kill()
                child.wait()
                raise
            finally:
                stop.set()
                beat.join()
        finally:
            if out:
                out.close()
    if code != 0:
        raise CommandFailed(label, code, log, "\n".join(tail))


def _heartbeat(label: str, tail: deque[str], began: float, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        latest = tail[-1][:100] if tail else "no output yet"
        say(f"{label}: {time.monotonic() - began:.0f}s: {latest}")
