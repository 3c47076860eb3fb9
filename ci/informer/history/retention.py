"""The time that evidence is kept: runs stay in the history, their folders go, the oldest first."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.store import History, Row
from lab.evidence.folder import held, marks_of, strangers

#: Days that evidence of green and of red runs is kept, and GiB of it in all, by default.
GREEN_DAYS, RED_DAYS, GIB = 7, 60, 50


@dataclass(frozen=True)
class Limits:
    """The limits of what is kept."""

    green_days: int = GREEN_DAYS
    red_days: int = RED_DAYS
    total: int = GIB << 30


def size(folder: Path) -> int:
    """Bytes that a folder takes of the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _red(row: Row) -> bool:
    return row.outcome in (Outcome.FAILED, Outcome.VOID)


def due(rows: list[tuple[Row, int]], today: date, limits: Limits) -> list[Row]:
    """Run whose evidence goes: what is too old, then the oldest green and the oldest red ones, until the rest fits.

    `rows` has the bytes of each run's evidence.
    """
    gone: list[tuple[Row, int, bool]] = []
    kept: list[tuple[Row, int, bool]] = []
    for row, taken in sorted(rows, key=lambda entry: entry[0].began):
        red = _red(row)
        days = limits.red_days if red else limits.green_days
        (gone if row.day < today - timedelta(days=days) else kept).append((row, taken, red))
    total = sum(taken for _, taken, _ in kept)
    for row, taken, red in sorted(kept, key=lambda entry: (entry[2], entry[0].began)):
        if total <= limits.total:
            break
        total -= taken
        gone.append((row, taken, red))
    return [row for row, _, _ in gone]


def _below(history: History, root: Path) -> dict[Path, list[Row]]:
    """Folders below `root` with the runs whose evidence they are, as their marks say: more than one where it was loaded
    as well. A folder that has become another run's, or somebody's, is none of these, whatever path a run remembers.

    Relative paths are skipped, as nobody knows what they are relative to, and so is a folder with the history in it.
    """
    by_folder: dict[Path, list[Row]] = {}
    for row in history.runs(ahead=True):
        folder = Path(row.folder)
        place = folder.resolve()
        if not folder.is_absolute() or folder.is_symlink() or root not in place.parents or not place.is_dir():
            continue
        if not row.mark or row.mark != marks_of(place) or strangers(place, nested=True):
            continue
        if place not in history.path.resolve().parents:
            by_folder.setdefault(place, []).append(row)
    return by_folder


def prune(history: History, root: Path, today: date, limits: Limits) -> tuple[int, int]:
    """Remove evidence below `root` that is due; how many runs', and bytes. What lies elsewhere is left alone, and so
    is a folder that has no mark of such a run, or in which evidence lies that is kept, be it another run's or in a
    folder within."""
    rows_below = _below(history, root.resolve())
    rows: list[tuple[Row, int]] = []
    for folder, sharing in rows_below.items():
        # Its bytes count once: with the one that keeps it longest.
        last = max(sharing, key=lambda row: (_red(row), row.began))
        rows += [(row, size(folder) if row is last else 0) for row in sharing]
    gone = {row.id for row in due(rows, today, limits)}
    kept = [folder for folder, sharing in rows_below.items() if any(row.id not in gone for row in sharing)]
    count, freed = 0, 0
    # The inner ones first, so that bytes are counted once here too.
    for folder in sorted(rows_below, key=lambda folder: -len(folder.parts)):
        if any(folder == row or folder in row.parents for row in kept):
            continue
        taken = size(folder)
        with held(folder) as free:
            if not free:  # its lab is being collected
                continue
            shutil.rmtree(folder)
        with history.writing() as db:
            db.executemany("UPDATE run SET folder = '' WHERE id = ?", [(row.id,) for row in rows_below[folder]])
        count, freed = count + len(rows_below[folder]), freed + taken
    return count, freed
