"""How long evidence is kept: runs stay in the history, their folders go, the oldest first."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.store import History, Row

#: Days that evidence of green and of red runs is kept, and GiB of it in all, unless told otherwise.
GREEN_DAYS, RED_DAYS, GIB = 7, 60, 50


@dataclass(frozen=True)
class Limits:
    """What may be kept."""

    green_days: int = GREEN_DAYS
    red_days: int = RED_DAYS
    total: int = GIB << 30


def size(folder: Path) -> int:
    """Bytes that a folder takes of the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def due(rows: list[tuple[Row, int]], today: date, limits: Limits) -> list[Row]:
    """Runs whose evidence goes: what is too old, then the oldest green and the oldest red ones, until the rest fits.

    `rows` has the bytes of each run's evidence.
    """
    gone: list[tuple[Row, int, bool]] = []
    kept: list[tuple[Row, int, bool]] = []
    for row, taken in sorted(rows, key=lambda one: one[0].began):
        red = row.outcome in (Outcome.FAILED, Outcome.VOID)
        days = limits.red_days if red else limits.green_days
        (gone if row.day < today - timedelta(days=days) else kept).append((row, taken, red))
    total = sum(taken for _, taken, _ in kept)
    for row, taken, red in sorted(kept, key=lambda one: (one[2], one[0].began)):
        if total <= limits.total:
            break
        total -= taken
        gone.append((row, taken, red))
    return [row for row, _, _ in gone]


def prune(history: History, root: Path, today: date, limits: Limits) -> tuple[int, int]:
    """Remove evidence below `root` that is due; how many runs', and bytes. What lies elsewhere is left alone."""
    root = root.resolve()
    here = [row for row in history.runs() if row.folder and Path(row.folder).resolve().is_relative_to(root)]
    rows = [(row, size(Path(row.folder))) for row in here if Path(row.folder).is_dir()]
    sizes = {row.id: taken for row, taken in rows}
    gone = due(rows, today, limits)
    for row in gone:
        folder = Path(row.folder).resolve()
        if folder != root:
            shutil.rmtree(folder)
        with history.writing() as db:
            db.execute("UPDATE run SET folder = '' WHERE id = ?", (row.id,))
    return len(gone), sum(sizes[row.id] for row in gone)
