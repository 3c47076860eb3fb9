"""The cache of the lab release: finished build stages, named by the hash of what they were made from (keys.py).

A stage is a directory that appears by one rename when it is whole, so a reader never sees half of one and a killed
build leaves only something under ``tmp`` behind. Builders of the same stage wait for each other on a file lock;
builders of different stages do not.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from lab.release.stage import progress
from lab.release.stage.errors import ReleaseError
from lab.release.stage.keys import canonical, stage_key

STAGE_RECORD = "stage.json"
Inputs = TypeVar("Inputs")


def default_cache() -> Path:
    """Return the cache directory: $NODE0_CACHE, else $XDG_CACHE_HOME/node0, else ~/.cache/node0.

    Raises ReleaseError for a relative one, which the build's commands would take for others.
    """
    for name, below in (("NODE0_CACHE", ""), ("XDG_CACHE_HOME", "node0")):
        if chosen := os.environ.get(name):
            if not Path(chosen).is_absolute():
                raise ReleaseError(f"{name} is {chosen!r}: want an absolute path")
            return Path(chosen, below)
    return Path.home() / ".cache/node0"


@dataclass(frozen=True)
class Store:
    """The release's share of the cache directory ``cache``."""

    cache: Path

    @property
    def root(self) -> Path:
        """Directory under which everything of the lab release lies."""
        return self.cache / "release"

    @property
    def logs(self) -> Path:
        """Directory of the build commands' logs."""
        return self._dir("logs")

    def _dir(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log(self, label: str) -> Path:
        """File that a command called ``label`` logs to; a later run of the same label replaces it."""
        return self.logs / f"{label}-{os.getpid()}.log"

    def lock(self, name: str) -> FileLock:
        """Return the lock called ``name``, shared by all processes that use this cache."""
        return FileLock(self._dir("locks") / f"{name}.lock")

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock called ``name``; says so on the progress stream when somebody else has it."""
        lock = self.lock(name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress.say(f"{name}: waiting for another build of it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def scratch(self, name: str) -> Path:
        """Return a new empty directory on the cache's file system, for work that is renamed into place or thrown away.

        It is locked as long as this process lives (`abandoned`).
        """
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._dir("tmp")))
        # Open until the process ends: however that comes about, the lock ends with it.
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH | fcntl.LOCK_NB)
        return path

    def path(self, name: str, key: str) -> Path:
        """Return the path of the finished stage ``name`` with key ``key``."""
        return self.root / name / key[:16]

    def stage(self, name: str, inputs: Inputs, build: Callable[[Store, Inputs, Path], None]) -> Path:
        """Return the finished stage's directory; builds it first when nobody has built it from these inputs with this
        code.

        ``build`` is called with this store, the inputs and an empty directory, and leaves the result there; when it
        raises, nothing is kept. It may be no closure: all that it is told is in ``inputs`` (lab.release.stage.keys).
        """
        final = self.path(name, stage_key(inputs, build))
        if final.is_dir():
            os.utime(final)  # prune goes by the date of the last use
            return final
        with self.hold(f"{name}-{final.name}"):
            if final.is_dir():
                return final
            work = self.scratch(name)
            began = time.monotonic()
            try:
                with progress.step(name):
                    build(self, inputs, work)
                record = {"inputs": canonical(inputs), "seconds": round(time.monotonic() - began, 1)}
                (work / STAGE_RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
                work.chmod(0o755)
                final.parent.mkdir(parents=True, exist_ok=True)
                work.rename(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return final


def abandoned(path: Path) -> bool:
    """Return whether a directory of `scratch` is no longer in use: the process that made it has ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return not path.is_dir()  # a file of who knows whom; an unreadable directory stays
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
