"""The history's file: tables, and how older files become newer ones."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from ci.informer.errors import HistoryError, InformerError
from ci.informer.history.files import has_locks

#: Statements that migrate a file from version n to n + 1 (`PRAGMA user_version`); never edited, only added to.
MIGRATIONS = (
    """
    CREATE TABLE payload (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, good INTEGER);
    CREATE TABLE job (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE test (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE cluster (
        id TEXT PRIMARY KEY, text TEXT NOT NULL, first_seen TEXT NOT NULL, last_seen TEXT NOT NULL
    );
    CREATE TABLE run (
        id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job(id),
        payload INTEGER NOT NULL REFERENCES payload(id), key TEXT NOT NULL UNIQUE,
        began TEXT NOT NULL, seconds REAL NOT NULL, outcome TEXT NOT NULL,
        reason TEXT NOT NULL, folder TEXT NOT NULL, label TEXT NOT NULL DEFAULT '', advice TEXT NOT NULL DEFAULT '',
        component TEXT NOT NULL DEFAULT '',
        cluster TEXT REFERENCES cluster(id)
    );
    CREATE INDEX run_began ON run (began);
    CREATE INDEX run_job ON run (job, began);
    CREATE TABLE step (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE, position INTEGER NOT NULL, name TEXT NOT NULL,
        depth INTEGER NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL,
        PRIMARY KEY (run, position)
    ) WITHOUT ROWID;
    CREATE TABLE attempt (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE, position INTEGER NOT NULL,
        test INTEGER NOT NULL REFERENCES test(id), outcome TEXT NOT NULL, seconds REAL NOT NULL, message TEXT NOT NULL,
        PRIMARY KEY (run, position)
    ) WITHOUT ROWID;
    CREATE INDEX attempt_test ON attempt (test);
    CREATE TABLE evidence (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE, kind TEXT NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (run, kind)
    ) WITHOUT ROWID;
    CREATE TABLE symptom (
        run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE, name TEXT NOT NULL, kind TEXT NOT NULL,
        line TEXT NOT NULL, PRIMARY KEY (run, name)
    ) WITHOUT ROWID;
    CREATE TABLE regression (
        id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job(id), since TEXT NOT NULL, seen TEXT NOT NULL,
        closed TEXT, sample TEXT NOT NULL, base TEXT NOT NULL, p REAL NOT NULL, UNIQUE (job, since)
    );
    CREATE TABLE note (
        id INTEGER PRIMARY KEY, run INTEGER REFERENCES run(id) ON DELETE CASCADE, cluster TEXT REFERENCES cluster(id),
        regression INTEGER REFERENCES regression(id), written TEXT NOT NULL, text TEXT NOT NULL
    );
    CREATE TABLE applied (what TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    ALTER TABLE run ADD COLUMN host TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN revision TEXT NOT NULL DEFAULT '';
    CREATE TABLE plan (
        id TEXT PRIMARY KEY, made TEXT NOT NULL, plan TEXT NOT NULL, artifacts TEXT NOT NULL, ended TEXT
    );
    CREATE TABLE unit (
        key TEXT PRIMARY KEY, plan TEXT NOT NULL REFERENCES plan(id), position INTEGER NOT NULL, unit TEXT NOT NULL,
        done INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX unit_plan ON unit (plan, position);
    """,
    "ALTER TABLE payload ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN mark TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN command TEXT NOT NULL DEFAULT ''",
    """
    CREATE TABLE image (
        payload INTEGER NOT NULL REFERENCES payload(id), tag TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (payload, tag)
    ) WITHOUT ROWID
    """,
)
VERSION = len(MIGRATIONS)
#: Seconds to wait for another process that is writing.
WAIT = 60.0
#: Tables that every version of a history has.
_FIRST_TABLES = {"payload", "job", "run", "attempt", "cluster", "applied"}


def connect(path: Path, *, make: bool = True) -> sqlite3.Connection:
    """Open a history, migrated where needed, and made where there is none, if `make`. Raises InformerError for a file
    that is not a history, or is a newer version's."""
    if not make and not path.exists():
        raise InformerError(f"{path}: no such history; node0-ci run, nightly and load begin one")
    if path.exists() and not path.is_file():
        raise InformerError(f"{path}: not a history of node0-ci: not a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        locks = has_locks(path.parent)
        # On a file system without locks SQLite takes every file for locked; its dotfile VFS uses a folder as the lock.
        name = path.absolute().as_uri() + ("" if locks else "?vfs=unix-dotfile")
        connection = sqlite3.connect(name, timeout=WAIT, isolation_level=None, uri=True)
    except (OSError, sqlite3.Error) as error:
        raise HistoryError(f"{path}: {error}") from error
    try:
        connection.row_factory = sqlite3.Row
        if not locks:
            _without_wal(connection, path)
        _migrate(connection, path, wal=locks)
        connection.execute("PRAGMA foreign_keys=ON")
    except sqlite3.OperationalError as error:  # locked, not readable, full
        connection.close()
        raise HistoryError(f"{path}: {error}{_hint(path)}") from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise InformerError(f"{path}: not a history of node0-ci: {error}") from error
    except InformerError:
        connection.close()
        raise
    return connection


def lock_of(path: Path) -> Path:
    """Return the folder that SQLite makes as long as it holds a history whose file system has no locks."""
    return path.with_name(f"{path.name}.lock")


def _without_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch a file from write-ahead logging, which needs shared memory and locks, to the rollback journal."""
    with path.open("rb") as file:
        header = file.read(20)
    if header[18:20] == b"\2\2":
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=DELETE", "locking_mode=NORMAL"):
            connection.execute(f"PRAGMA {pragma}").fetchall()


def _hint(path: Path) -> str:
    """Return a likely reason that SQLite does not tell; it writes beside the file even for reading."""
    if lock_of(path).is_dir():
        return f" (by {lock_of(path).name} beside it: remove that, if no node0-ci runs)"
    if not os.access(path.parent, os.W_OK):
        return " (its folder cannot be written to)"
    return " (its disk is full)" if not shutil.disk_usage(path.parent).free else ""


def _migrate(connection: sqlite3.Connection, path: Path, *, wal: bool) -> None:
    if _version(connection, path) == VERSION:
        return
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been quicker.
        for number in range(_version(connection, path), VERSION):
            for statement in MIGRATIONS[number].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    # Other programs number their files as well.
    if version < 0 or (version and not tables >= _FIRST_TABLES) or (tables and not version):
        raise InformerError(f"{path}: not a history of node0-ci: it has other tables")
    if version > VERSION:
        raise InformerError(
            f"{path}: user_version: {version} is newer than {VERSION}, the newest this node0-ci reads: update node0-ci"
        )
    return version
