"""The files that a command writes into the asset directory: made beside what is there, and put in place together, last.

Whatever goes wrong before, a full disk or a signal, leaves the directory as it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path
from types import TracebackType

from installer import signals
from installer.errors import StateError
from installer.files import Partial, hidden, leftovers

FOLDERS = ("", "auth", "tls", "cluster-manifests", "mirror")
_FOLDER_MODE = 0o750


class Outputs:
    """New files and folders of one directory. A context: what was not put in place when it ends is removed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: list[Partial] = []
        self._folders: list[tuple[Path, Path, str]] = []
        self._parents: list[Path] = []
        self._gone: set[str] = set()
        self._done = False

    def __enter__(self) -> Outputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for partial in self._files:
            partial.discard()
        for new, _, _ in self._folders:
            shutil.rmtree(new, ignore_errors=True)
        if not self._done:
            for folder in reversed(self._parents):
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def put(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Write a file by its path below the directory, for its owner only unless `mode` says otherwise; StateError."""
        path = self._directory / name
        try:
            if not path.parent.is_dir():
                # Noted before it is made: a signal may come in between.
                self._parents.append(path.parent)
                path.parent.mkdir(mode=_FOLDER_MODE)
            partial = Partial(path, mode)
            self._files.append(partial)
            partial.write(data)
            partial.close()
        except OSError as error:
            raise StateError(f"failed to write {path}: {error.strerror or error}") from error

    def take(self, partial: Partial) -> None:
        """Adopt a file that was written already."""
        self._files.append(partial)

    def folder(self, name: str, own: str) -> Path:
        """Return a new empty folder, to be filled, whose files will be in `name` in place of all files there that match
        the pattern `own`; what else is there stays."""
        path = self._directory / name
        new = hidden(path.resolve())
        try:
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            new.mkdir(mode=_FOLDER_MODE)
        except OSError as error:
            raise StateError(f"failed to write {path}: {error.strerror or error}") from error
        self._folders.append((new, path, own))
        return new

    def remove(self, *names: str) -> None:
        """Files to remove once all others are in place, and the folders that are empty then.

        A folder where new files are in their place, and no others, is as if it were new: closed to others.
        """
        self._gone.update(names)

    def commit(self) -> None:
        """Put everything in place, in the order given; a signal waits. Raises StateError."""
        with signals.deferred():
            path = self._directory
            try:
                old = {removed.parent for name in self._gone if (removed := self._directory / name).exists()}
                for partial in self._files:
                    path = partial.dest
                    partial.commit()
                for new, path, own in self._folders:
                    _place(new, path, own)
                self._done = True
                path = self._directory
                # Inputs are removed once what was made of them is on the disk.
                for folder in {path, *(partial.dest.parent for partial in self._files)}:
                    _sync(folder)
                self._remove(old)
            except OSError as error:
                raise StateError(f"failed to write {path}: {error.strerror or error}") from error

    def _remove(self, old: set[Path]) -> None:
        written = {partial.dest for partial in self._files}
        removed = [path for name in self._gone if (path := self._directory / name) not in written]
        for path in removed:
            path.unlink(missing_ok=True)
        for folder in {(self._directory / name).parent for name in self._gone} - {self._directory}:
            left = set(folder.iterdir()) if folder.is_dir() else None
            if left == set():
                folder.rmdir()
            elif folder in old and left is not None and left <= written:
                folder.chmod(folder.stat().st_mode & _FOLDER_MODE)


def _place(new: Path, path: Path, own: str) -> None:
    """Put files where they belong; nothing else that is there is touched, as an error would lose it."""
    if not path.is_dir():
        new.rename(path)
        return
    made = [file.name for file in new.iterdir()]
    for name in made:
        (new / name).replace(path / name)
    for file in path.glob(own):
        if file.name not in made and not file.is_dir():
            file.unlink()


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can sync directories
            os.fsync(fd)
    finally:
        os.close(fd)


def sweep(directory: Path) -> None:
    """Remove what commands that were killed have left; for a command that holds the directory's lock."""
    for folder in FOLDERS:
        for path in leftovers(directory / folder):
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
