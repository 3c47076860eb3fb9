"""The payloads' installer programs: a file for each installer image, made whole or not at all, never written again.

A release's tag may move and two clusters may install two releases: what tells programs apart is the digest of the
image that they come from. Those that nobody runs are removed, except the last: a program is as big as all else of the
service.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "openshift-install"
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
