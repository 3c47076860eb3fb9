"""SQLite's write-ahead log is folded into the database where nobody waits for the disk: in a thread."""

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
    """Fold in what has been written until now; whoever writes meanwhile goes on. Raises sqlite3.Error."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:
        # What the database says lasts before the log is used from its beginning again.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


async def when_large(database: Path) -> None:
    """Fold the log in when it has become large. Raises sqlite3.Error, OSError."""
    if log_of(database).stat().st_size > LARGE:
        await asyncio.to_thread(fold, database)
