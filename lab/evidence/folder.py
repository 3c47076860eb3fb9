"""The folder of a run's evidence: a mark in it proves that it is ours, and which run's.

What has no mark of ours is neither replaced nor removed, whatever it is called and whoever remembers its path.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.errors import EvidenceError

MARK = ".node0-evidence"
_MARK_BYTES = 256
#: What runs leave at the top of their folders, apart from folders with a mark of their own. A folder in which anything
#: else lies has become somebody's.
NAMES = frozenset({
    MARK, ".index.html.new", "about.json", "browser.log", "commands", "console", "evidence-lost.txt", "index.html",
    "installer", "kernel-trouble.txt", "lab-failed.txt", "left-out.txt", "libvirt", "machines", "missing.txt", "nodes",
    "page.txt", "phases.json", "phases.json.new", "pytest.log", "screens", "services", "summary.md", "tests.json",
})  # fmt: skip


def mark_of(folder: Path) -> str:
    """Return the mark of a folder; empty where we put none."""
    path = folder / MARK
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MARK_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""


def put_mark(folder: Path, mark: str) -> None:
    """Mark a folder, which is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(f"{mark}\n")


def marks_of(folder: Path) -> str:
    """Return the marks of a folder and of those in it at any depth, a line each; empty where the folder has none."""
    if not mark_of(folder):
        return ""
    return "\n".join(mark_of(path) for path in sorted(mark.parent for mark in folder.rglob(MARK)))


def strangers(folder: Path, *, nested: bool = False) -> list[str]:
    """List what lies at the top of a folder that no run leaves there, sorted; `nested`: a folder with a mark is listed
    only for what no run leaves at its own top."""
    others = (path for path in folder.iterdir() if path.name not in NAMES)
    return sorted(p.name for p in others if not (nested and _is_marked(p) and not strangers(p, nested=True)))


def _is_marked(path: Path) -> bool:
    return not path.is_symlink() and bool(mark_of(path))


def has_evidence(folder: Path) -> bool:
    """Tell whether evidence of ours lies in a folder; False of one that is empty, or is not there. Raises EvidenceError
    where evidence does not belong: a link, a folder with anything else in it."""
    if folder.is_symlink():
        raise EvidenceError(f"{folder}: is a link: name the folder itself")
    if folder.exists() and not folder.is_dir():
        raise EvidenceError(f"{folder}: is no folder")
    if not folder.exists() or not any(folder.iterdir()):
        return False
    if not mark_of(folder):
        raise EvidenceError(
            f"{folder}: is not empty, and no evidence that has our mark: move it away, or name a new one"
        )
    return True


def check_below(root: Path) -> None:
    """Raise EvidenceError where labs cannot have folders in a folder: it is none, or evidence has no mark, as none
    had before 2026-11-28. A lab would refuse its place only once all before it had run."""
    if os.path.lexists(root) and not root.is_dir():
        raise EvidenceError(f"{root}: is no folder")
    for record in sorted(root.glob("*/phases.json")):
        if not mark_of(record.parent):
            raise EvidenceError(
                f"{record.parent}: has evidence without our mark (an older checkout's): move {root} away"
            )


def empty(folder: Path) -> None:
    """Remove a run's evidence, but for the folder itself. Raises EvidenceError where anything else lies there."""
    if others := strangers(folder):
        raise EvidenceError(f"{folder}: {others[0]}: is not this evidence's, and would go with it: name a new folder")
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder for the block, as its lab does; whether nobody else does. True on a file system without locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError:
            free = True
        yield free
    finally:
        os.close(descriptor)


class Folder:
    """A lab's folder of evidence, for as long as this process writes to it; `mark` is that of no other lab."""

    def __init__(self, path: Path, lab_id: str) -> None:
        self.path, self.mark = path, f"lab {lab_id} {uuid.uuid4().hex}"
        #: Whether it has this mark: until then an earlier lab's evidence may lie there.
        self.is_ours = False
        self._held = ExitStack()

    def take(self) -> None:
        """Keep others from writing there. An earlier lab's evidence stays until `replace`. Raises EvidenceError for a
        folder that is not ours or in use, OSError."""
        is_new = not has_evidence(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            if not stack.enter_context(held(self.path)):
                raise EvidenceError(f"{self.path}: another lab writes its evidence there: name another folder")
            if is_new:
                self._put_mark()
            self._held = stack.pop_all()

    def replace(self) -> None:
        """Remove an earlier lab's evidence, if there is any. Raises EvidenceError, OSError."""
        if not self.is_ours:
            empty(self.path)
            self._put_mark()

    def _put_mark(self) -> None:
        put_mark(self.path, self.mark)
        self.is_ours = True

    def adopt(self) -> None:
        """Take it over from the process that made the lab, with the mark that it has."""
        self.mark, self.is_ours = mark_of(self.path) or self.mark, True

    def claimed(self, other: Path | None) -> Path:
        """Another folder, if there is one, that has evidence of this lab too. Raises EvidenceError where anything else
        lies in it."""
        if other is None:
            return self.path
        if not has_evidence(other):
            put_mark(other, self.mark)
        if mark_of(other) != self.mark or any(path.is_symlink() for path in other.rglob("*")):
            raise EvidenceError(f"{other}: has another lab's evidence, or a link in it: name a new folder")
        return other

    def let_go(self) -> None:
        """Let others have it."""
        self._held.close()
