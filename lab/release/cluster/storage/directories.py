"""The directories that local volumes are, all in one base directory that only root may enter."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.release.cluster.errors import VolumeError

#: Seconds that removing one directory's content may take; the next try goes on where this one ended.
REMOVE_SECONDS = 300.0
MOUNTS = Path("/proc/self/mountinfo")


class Directories:
    """Makes and removes the directories right below ``base``, by their names alone; the caller has checked those."""

    def __init__(self, base: Path, mounts: Path = MOUNTS) -> None:
        self.base = base
        self._mounts = mounts

    def free(self) -> int:
        """Return the free bytes of the disk, without what is root's. Raises VolumeError."""
        with self._named(self.base, "look at"):
            self._make_base()
            disk = os.statvfs(self.base)
        return disk.f_bavail * disk.f_frsize

    def make(self, name: str) -> None:
        """Make a directory that every user of a pod may write to; one that is there already is kept. Raises
        VolumeError."""
        path = self.base / name
        with self._named(path, "make"):
            self._make_base()
            with contextlib.suppress(FileExistsError):
                path.mkdir()
            handle = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchmod(handle, 0o777)
            finally:
                os.close(handle)

    def remove(self, name: str) -> None:
        """Remove a directory with all that is in it, and nothing else: no link is followed, nothing that is mounted is
        entered. One that is gone is no error. Raises VolumeError."""
        path = self.base / name
        if not os.path.lexists(path):
            return
        if path.is_symlink() or not path.is_dir():
            raise VolumeError(f"cannot remove {path}: it is no directory")
        if mounted := self._mounted(path):
            raise VolumeError(f"cannot remove {path}: {mounted} is mounted there")
        # By rm, for a tree may be deeper than Python's recursion or our open files go.
        argv = ["rm", "--recursive", "--force", "--one-file-system", "--", str(path)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=REMOVE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise VolumeError(f"removing {path} takes longer than {REMOVE_SECONDS:g} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"rm ended with {done.returncode}"]
            raise VolumeError(f"cannot remove {path}: {said[-1][:200]}")

    def _make_base(self) -> None:
        self.base.mkdir(parents=True, exist_ok=True)
        self.base.chmod(0o700)

    def _mounted(self, path: Path) -> str:
        """Return what is mounted at or below a path, as this process sees it; else an empty text."""
        # Names of places need not be UTF-8.
        for line in self._mounts.read_bytes().strip(b"\n").split(b"\n"):
            place = Path(line.split(b" ")[4].decode("unicode_escape"))
            if place.is_relative_to(path):
                return str(place)
        return ""

    @staticmethod
    @contextlib.contextmanager
    def _named(path: Path, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise VolumeError(f"cannot {verb} {path}: {error.strerror}") from error
