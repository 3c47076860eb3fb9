"""Directory trees of any depth, walked by descriptors, two at a time.

With cgroup v1 a machine's control groups have no limit of depth, as paths (PATH_MAX) and Python's recursion have.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class _Level:
    """A directory: its name in its parent, and its children that are still to be visited."""

    name: str
    left: list[str] = field(default_factory=list)


def visit(
    top: Path,
    before: Callable[[int, list[str]], None] | None = None,
    after: Callable[[int, list[str]], None] | None = None,
    leave: Callable[[int, str], None] | None = None,
) -> None:
    """Call `before` for each directory and `after` when those below it are done, with its descriptor and its names
    from `top` on; then `leave` with the descriptor of its parent and its name in it, but for `top`.

    Directories that vanish meanwhile are passed over. Raises OSError when there is no `top`.
    """
    directory = _opened(os.fspath(top), None)
    try:
        levels = [_Level("", _below(directory))]
        names: list[str] = []
        if before:
            before(directory, names)
        while levels:
            level = levels[-1]
            if level.left:
                name = level.left.pop()
                try:
                    child = _opened(name, directory)
                except FileNotFoundError:
                    continue
                os.close(directory)
                directory = child
                names.append(name)
                levels.append(_Level(name, _below(directory)))
                if before:
                    before(directory, names)
                continue
            if after:
                after(directory, names)
            levels.pop()
            if levels:
                try:
                    parent = _opened("..", directory)
                except FileNotFoundError:
                    return
                os.close(directory)
                directory = parent
                names.pop()
                if leave:
                    leave(directory, level.name)
    finally:
        os.close(directory)


def _opened(name: str, at: int | None) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)


def _below(directory: int) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def file_in(directory: int, name: str, flags: int) -> Iterator[int]:
    """Open a file of a directory. Raises OSError."""
    file = os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory)
    try:
        yield file
    finally:
        os.close(file)


def write_in(directory: int, name: str, text: str) -> None:
    """Write to an existing file. Raises OSError."""
    with file_in(directory, name, os.O_WRONLY) as file:
        os.write(file, text.encode())
