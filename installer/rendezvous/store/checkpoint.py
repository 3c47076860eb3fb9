"""Checkpoints of SQLite's write-ahead log, in a thread: there nobody waits for the disk."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

# As large as SQLite lets it become by itself (1000 pages).
LARGE = 4 * 1024**2


def log_of(database: Path) -> Path:
    """SQLite's write-ahead log of a database."""
    return database.with_name(f"{database.name}-wal")


def fold(database: Path) -> None:
    """Checkpoint what has been written so far; whoever writes meanwhile goes on. Raises sqlite3.Error."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:
        # The database is synced before the log is used from its beginning again.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


async def when_large(database: Path) -> None:
    """Checkpoint the log when it has become large. Raises sqlite3.Error, OSError."""
    if log_of(database).stat().st_size > LARGE:
        await asyncio.to_thread(fold, database)
