"""The payloads' installer programs: a file for each installer image, made whole or not at all, never written again.

They alone make manifests and Ignition configs (design.md, decision 1): for the service, and for `node0 create`.

A release's tag may move and two clusters may install two releases: what tells programs apart is the digest of the
image that they come from. Those that nobody runs are removed, except the last: a program is as big as all else of the
service.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from installer.errors import ProgramFailed

NAME = "openshift-install"
BINARY = f"usr/bin/{NAME}"
COMMAND_TIMEOUT = 540.0
# Variables that the payload's installer is run with, in either case; besides them LC_* and XDG_*.
PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
# How soon a command is ended when nobody waits for it any more (s).
STOP_SECONDS = 0.2
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
# How many users each program has in this process, which is the folder's only user.
_uses: Counter[Path] = Counter()
_lock = threading.Lock()


def place_of(folder: Path, image: str) -> Path:
    """Return the folder for an image's program: its own each time for an image that is not given by digest."""
    digest = _DIGEST.search(image)
    name = digest[1] if digest else f"{image}\0{secrets.token_hex(8)}"
    return folder / hashlib.sha256(name.encode()).hexdigest()


@contextmanager
def installer(folder: Path, image: str, extract: Callable[[Path], object]) -> Iterator[Path]:
    """Provide the executable of an installer image, by ``extract`` (to the file it is given) when it is not there yet.

    It stays as long as the block runs. Raises what ``extract`` raises, and OSError.
    """
    place = place_of(folder, image)
    with _lock:
        _uses[place] += 1
    try:
        yield _whole(place, extract)
    finally:
        with _lock:
            _uses[place] -= 1
            if not _uses[place]:
                del _uses[place]
            _forget(folder, place)


def _whole(place: Path, extract: Callable[[Path], object]) -> Path:
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    program = place / NAME
    # Not filelock's: the service's image has no more packages than it needs.
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.is_file():
            return program
        partial = place / ".partial"
        extract(partial)
        partial.chmod(0o755)
        with partial.open("rb") as file:
            # Synced before it is renamed: after a power cut there is no name without its content.
            os.fsync(file.fileno())
        partial.replace(program)
    return program


def _forget(folder: Path, keep: Path) -> None:
    for other in folder.iterdir():
        if other not in _uses and (other != keep or not (keep / NAME).is_file()):
            shutil.rmtree(other, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what an earlier process left unfinished. Before anybody runs anything."""
    for place in folder.glob("*"):
        if not (place / NAME).is_file():
            shutil.rmtree(place, ignore_errors=True)
        for left in place.glob(".*partial*"):
            left.unlink(missing_ok=True)


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program needs; all else is secrets and settings of the administrator's."""
    return {name: value for name, value in env.items() if name.upper() in PASSED or name.startswith(("LC_", "XDG_"))}


def _started(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    for left in (4, 3, 2, 1, 0):
        try:
            return subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            # A child that another thread just forked holds the new file open for writing until it calls exec.
            if error.errno != errno.ETXTBSY or not left:
                raise
            time.sleep(STOP_SECONDS)
    raise AssertionError


def run(
    binary: Path, args: Sequence[str], directory: Path, env: Mapping[str, str], *, stop: threading.Event | None = None
) -> None:
    """Run an installer program on a directory. Raises ProgramFailed with the last lines that it printed.

    `stop`: ends the program when it is set.
    """
    command = f"{NAME} {' '.join(args)}"
    try:
        process = _started([str(binary), *args, "--dir", str(directory)], env)
    except OSError as error:
        raise ProgramFailed(command, str(error)) from error
    end = time.monotonic() + COMMAND_TIMEOUT
    with process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=STOP_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    over = stop is not None and stop.is_set()
                    if not over and time.monotonic() < end:
                        continue
                    _kill(process)
                    why = "was stopped: its attempt is over" if over else f"did not end within {COMMAND_TIMEOUT:.0f} s"
                    raise ProgramFailed(command, why) from None
        except KeyboardInterrupt:
            _kill(process)
            raise
    if process.returncode:
        last = (errors.strip() or output.strip()).splitlines()[-5:]
        raise ProgramFailed(command, f"exit code {process.returncode}: {' | '.join(last)}")


def _kill(process: subprocess.Popen[str]) -> None:
    # A child of its own may hold the pipes as well.
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
