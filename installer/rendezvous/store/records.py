"""The service's database file: its schema and transactions, and what is kept only there and read on demand.

That is events, manifests, generated files, secrets and the anchor. What is kept in memory as well is the store's
(database.py).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from installer.assisted.errors import NotFound, StoreError
from installer.rendezvous.store.model import Anchor, Event, Manifest

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clusters (id TEXT PRIMARY KEY, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS infra_envs (id TEXT PRIMARY KEY, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS hosts (infra_env_id TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
    doc BLOB NOT NULL, PRIMARY KEY (infra_env_id, id));
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT, host_id TEXT,
    infra_env_id TEXT, severity TEXT NOT NULL, category TEXT NOT NULL, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS manifests (cluster_id TEXT NOT NULL, folder TEXT NOT NULL, file_name TEXT NOT NULL,
    doc BLOB NOT NULL, PRIMARY KEY (cluster_id, folder, file_name));
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS files (cluster_id TEXT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (cluster_id, name));
CREATE TABLE IF NOT EXISTS anchor (id INTEGER PRIMARY KEY CHECK (id = 1), doc BLOB NOT NULL);
"""

# Nobody else writes this file; whoever holds it all the same must not stop the service for long (s).
BUSY = 1.0
# The write-ahead log is folded in when it is larger: SQLite itself would let it become as large (1000 pages).
LARGE_LOG = 4 * 1024**2
log = logging.getLogger("assisted-service")


class Records(ABC):
    """The database. Writes belong to a transaction, which the store begins and ends."""

    def __init__(self, path: Path, further_schema: str) -> None:
        """Raise StoreError when the file cannot be used."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.db = self._connect()
            self.db.executescript(_SCHEMA + further_schema)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(path, "opened", str(error)) from error
        # Is a change under way?
        self._changing = False
        # The connection was given up; whoever reads or writes next makes one.
        self._lost = False

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        try:
            self.path.chmod(0o600)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            # Checkpoints wait for the disk: a thread makes them, SQLite itself only if that falls behind.
            db.execute("PRAGMA wal_autocheckpoint=32768")
        except (sqlite3.Error, OSError):
            db.close()
            raise
        return db

    def close(self) -> None:
        """Close the database; the WAL is folded in."""
        self.db.close()

    def _roll_back(self) -> None:
        """End the transaction, which SQLite itself has ended already after some errors."""
        if not self.db.in_transaction:
            return
        try:
            self.db.execute("ROLLBACK")
        except sqlite3.Error as error:
            # To close a connection ends its transaction; whoever reads or writes next opens another.
            log.error("%s: a change cannot be rolled back, the database is opened anew: %s", self.path, error)
            self.db.close()
            self._lost = True

    def _begin(self) -> None:
        self._reopen()
        self.db.execute("BEGIN IMMEDIATE")

    def _reopen(self) -> None:
        if not self._lost:
            return
        try:
            self.db = self._connect()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self.path, "opened", str(error)) from error
        self._lost = False

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Raise StoreError."""
        self._reopen()
        with self._reading():
            return self.db.execute(sql, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read and decode within. Raises StoreError for what cannot be read."""
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise StoreError(self.path, "read", str(error)) from error

    def _check(self) -> None:
        if not self._changing:
            raise RuntimeError("a write outside of a change")

    def _write(self, sql: str, *values: object) -> None:
        self._check()
        self.db.execute(sql, values)

    @abstractmethod
    def _touch(self, cluster_id: str | None) -> None:
        """Something of this cluster has changed."""

    # events

    def add_event(self, event: Event) -> None:
        """Append an event."""
        self._write(
            "INSERT INTO events (cluster_id, host_id, infra_env_id, severity, category, doc) VALUES (?,?,?,?,?,?)",
            event.cluster_id,
            event.host_id,
            event.infra_env_id,
            event.severity,
            event.category,
            msgspec.json.encode(event),
        )

    def events(self) -> list[Event]:
        """All events, oldest first. Raises StoreError."""
        rows = self._rows("SELECT doc FROM events ORDER BY seq")
        with self._reading():
            return [msgspec.json.decode(row[0], type=Event) for row in rows]

    def select_events(self, where: str, values: list[object]) -> list[tuple[int, bytes]]:
        """Return (number, JSON as the API shows it) of the events for which a condition over the columns holds."""
        return [(row[0], row[1]) for row in self._rows(f"SELECT seq, doc FROM events {where}", *values)]

    # manifests and files

    def manifests(self, cluster_id: str) -> list[Manifest]:
        """Manifests of a cluster by folder and name. Raises StoreError."""
        rows = self._rows("SELECT doc FROM manifests WHERE cluster_id=? ORDER BY folder, file_name", cluster_id)
        with self._reading():
            return [msgspec.msgpack.decode(row[0], type=Manifest) for row in rows]

    def put_manifest(self, cluster_id: str, manifest: Manifest) -> None:
        """Insert or replace."""
        self._write(
            "INSERT OR REPLACE INTO manifests VALUES (?,?,?,?)",
            cluster_id,
            manifest.folder,
            manifest.file_name,
            msgspec.msgpack.encode(manifest),
        )
        self._touch(cluster_id)

    def delete_manifest(self, cluster_id: str, folder: str, file_name: str) -> None:
        """Remove a manifest."""
        self._write(
            "DELETE FROM manifests WHERE cluster_id=? AND folder=? AND file_name=?", cluster_id, folder, file_name
        )
        self._touch(cluster_id)

    def secret(self, name: str) -> bytes:
        """Return a random secret of this store's own, made when it is asked for the first time. Raises StoreError."""
        query = "SELECT value FROM secrets WHERE name=?"
        rows = self._rows(query, name)
        if not rows:
            try:
                self.db.execute("INSERT OR IGNORE INTO secrets VALUES (?, randomblob(32))", (name,))
            except sqlite3.Error as error:
                raise StoreError(self.path, "written", str(error)) from error
            rows = self._rows(query, name)
        return bytes(rows[0][0])

    def file_names(self, cluster_id: str) -> list[str]:
        """Names of the generated files of a cluster."""
        rows = self._rows("SELECT name FROM files WHERE cluster_id=? ORDER BY name", cluster_id)
        return [str(row[0]) for row in rows]

    def file(self, cluster_id: str, name: str) -> bytes:
        """Content of a generated file. Raises NotFound."""
        rows = self._rows("SELECT content FROM files WHERE cluster_id=? AND name=?", cluster_id, name)
        if not rows:
            raise NotFound(f"file {name} of cluster {cluster_id} does not exist (yet)")
        return bytes(rows[0][0])

    def put_file(self, cluster_id: str, name: str, content: bytes) -> None:
        """Insert or replace a generated file."""
        self._write("INSERT OR REPLACE INTO files VALUES (?,?,?)", cluster_id, name, content)

    def delete_files(self, cluster_id: str) -> None:
        """Remove all generated files of a cluster."""
        self._write("DELETE FROM files WHERE cluster_id=?", cluster_id)

    def anchor(self) -> Anchor | None:
        """Return the time that the service noted last; None before it ever did. Raises StoreError."""
        rows = self._rows("SELECT doc FROM anchor")
        with self._reading():
            anchor = msgspec.json.decode(rows[0][0], type=Anchor) if rows else None
            if anchor is not None and datetime.fromisoformat(anchor.wall).tzinfo is None:
                raise ValueError(f"the time {anchor.wall!r} has no zone")
        return anchor

    def put_anchor(self, anchor: Anchor) -> None:
        """Note the time."""
        self._write("INSERT OR REPLACE INTO anchor VALUES (1, ?)", msgspec.json.encode(anchor))


def write_ahead_log(database: Path) -> Path:
    """SQLite's write-ahead log of a database."""
    return database.with_name(f"{database.name}-wal")


def fold_log(database: Path) -> None:
    """Checkpoint all that has been written so far; whoever writes meanwhile goes on. Raises sqlite3.Error."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:
        # The database is synced before the log is used from its beginning again.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


async def fold_large_log(database: Path) -> None:
    """Checkpoint the log in a thread once it has become large. Raises sqlite3.Error, OSError."""
    if write_ahead_log(database).stat().st_size > LARGE_LOG:
        await asyncio.to_thread(fold_log, database)
