"""The cache of the lab release: finished build stages, named by the hash of what they were made from.

A stage is a directory that appears by one rename when it is whole, so a reader never sees half of one and a killed
build leaves only something under ``tmp`` behind. Builders of the same stage wait for each other on a file lock;
builders of different stages do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from lab.release import progress

STAGE_RECORD = "stage.json"


def default_cache() -> Path:
    """The cache directory: $NODE0_CACHE, else $XDG_CACHE_HOME/node0, else ~/.cache/node0."""
    if own := os.environ.get("NODE0_CACHE"):
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "node0"


def digest_of(parts: Mapping[str, str]) -> str:
    """Hex SHA-256 over named parts; the order in which they were put in does not matter."""
    return hashlib.sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_digest(paths: Iterable[tuple[str, Path]]) -> str:
    """Hex SHA-256 over (name in the result, file) pairs: names, execute bits and bytes."""
    listing = {name: f"{os.access(path, os.X_OK):d}:{file_sha256(path)}" for name, path in paths}
    return digest_of(listing)


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
        """The lock called ``name``, shared by all processes that use this cache."""
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
        """A new empty directory on the cache's file system, for work that is renamed into place or thrown away."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._dir("tmp")))

    def path(self, name: str, key: str) -> Path:
        """Where the stage ``name`` with key ``key`` lies once it is finished."""
        return self.root / name / key[:16]

    def stage(self, name: str, inputs: Mapping[str, str], build: Callable[[Path], None]) -> Path:
        """The finished stage's directory; runs ``build(directory)`` first when nobody has built it from these inputs.

        ``build`` gets an empty directory and leaves the result there; when it raises, nothing is kept.
        """
        final = self.path(name, digest_of(inputs))
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
                    build(work)
                record = {"inputs": dict(inputs), "seconds": round(time.monotonic() - began, 1)}
                (work / STAGE_RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
                work.chmod(0o755)
                final.parent.mkdir(parents=True, exist_ok=True)
                work.rename(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return final
