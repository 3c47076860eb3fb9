"""Fixtures that several modules use."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci.informer.cli import main
from ci.informer.history.store import History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Provide an empty history, `history.db`."""
    with History(tmp_path / "history.db") as history:
        yield history


@pytest.fixture
def node0_ci(tmp_path: Path) -> Callable[..., int]:
    """`node0-ci` with these words, on `history.db`; its exit code."""
    return lambda *words: main(["--history", str(tmp_path / "history.db"), *map(str, words)])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Provide a file system of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)
