"""The service's one store: SQLite in WAL mode, one transaction a change, whole again after SIGKILL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from installer.rendezvous.errors import NotFound
from installer.rendezvous.model import Cluster, Event, Host, InfraEnv, Manifest

_SCHEMA = """
CREATE TABLE IF NOT EXISTS clusters (id TEXT PRIMARY KEY, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS infra_envs (id TEXT PRIMARY KEY, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS hosts (infra_env_id TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
    doc BLOB NOT NULL, PRIMARY KEY (infra_env_id, id));
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id TEXT, host_id TEXT,
    infra_env_id TEXT, severity TEXT NOT NULL, category TEXT NOT NULL, doc BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS manifests (cluster_id TEXT NOT NULL, folder TEXT NOT NULL, file_name TEXT NOT NULL,
    doc BLOB NOT NULL, PRIMARY KEY (cluster_id, folder, file_name));
CREATE TABLE IF NOT EXISTS files (cluster_id TEXT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (cluster_id, name));
"""

_T = TypeVar("_T", Cluster, InfraEnv)


class Store:
    """Reads at any time; writes only within :meth:`change`. For one thread (the event loop's)."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        self._depth = 0

    def close(self) -> None:
        """Close the database; the WAL is folded in."""
        self._db.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """All writes within are one transaction: kept together, or dropped together on an exception."""
        if self._depth:
            raise RuntimeError("a change is already under way")
        self._db.execute("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        else:
            self._db.execute("COMMIT")
        finally:
            self._depth = 0

    def _write(self, sql: str, *values: object) -> None:
        if not self._depth:
            raise RuntimeError("a write outside of a change")
        self._db.execute(sql, values)

    # clusters and infra-envs

    def _all(self, table: str, kind: type[_T]) -> list[_T]:
        rows = self._db.execute(f"SELECT doc FROM {table} ORDER BY rowid")
        return [msgspec.json.decode(row[0], type=kind) for row in rows]

    def clusters(self) -> list[Cluster]:
        """All clusters, oldest first."""
        return self._all("clusters", Cluster)

    def infra_envs(self) -> list[InfraEnv]:
        """All infra-envs, oldest first."""
        return self._all("infra_envs", InfraEnv)

    def cluster(self, cluster_id: str) -> Cluster:
        """One cluster. Raises NotFound."""
        row = self._db.execute("SELECT doc FROM clusters WHERE id=?", (cluster_id,)).fetchone()
        if row is None:
            raise NotFound(f"cluster {cluster_id} was not found")
        return msgspec.json.decode(row[0], type=Cluster)

    def infra_env(self, infra_env_id: str) -> InfraEnv:
        """One infra-env. Raises NotFound."""
        row = self._db.execute("SELECT doc FROM infra_envs WHERE id=?", (infra_env_id,)).fetchone()
        if row is None:
            raise NotFound(f"infra-env {infra_env_id} was not found")
        return msgspec.json.decode(row[0], type=InfraEnv)

    def put_cluster(self, cluster: Cluster) -> None:
        """Insert or replace."""
        self._write(
            "INSERT INTO clusters VALUES (?,?) ON CONFLICT(id) DO UPDATE SET doc=excluded.doc",
            cluster.id,
            msgspec.json.encode(cluster),
        )

    def put_infra_env(self, infra_env: InfraEnv) -> None:
        """Insert or replace."""
        self._write(
            "INSERT INTO infra_envs VALUES (?,?) ON CONFLICT(id) DO UPDATE SET doc=excluded.doc",
            infra_env.id,
            msgspec.json.encode(infra_env),
        )

    def delete_cluster(self, cluster_id: str) -> None:
        """Remove a cluster with its manifests and files."""
        for table, key in (("clusters", "id"), ("manifests", "cluster_id"), ("files", "cluster_id")):
            self._write(f"DELETE FROM {table} WHERE {key}=?", cluster_id)

    def delete_infra_env(self, infra_env_id: str) -> None:
        """Remove an infra-env and its hosts."""
        self._write("DELETE FROM infra_envs WHERE id=?", infra_env_id)
        self._write("DELETE FROM hosts WHERE infra_env_id=?", infra_env_id)

    # hosts

    def hosts(self, infra_env_id: str | None = None, cluster_id: str | None = None) -> list[Host]:
        """Hosts in order of registration, of one infra-env or cluster when given."""
        rows = self._db.execute("SELECT doc FROM hosts ORDER BY seq")
        found = [msgspec.json.decode(row[0], type=Host) for row in rows]
        return [
            host
            for host in found
            if (infra_env_id is None or host.infra_env_id == infra_env_id)
            and (cluster_id is None or host.cluster_id == cluster_id)
        ]

    def find_host(self, infra_env_id: str, host_id: str) -> Host | None:
        """One host, or None."""
        row = self._db.execute("SELECT doc FROM hosts WHERE infra_env_id=? AND id=?", (infra_env_id, host_id))
        found = row.fetchone()
        return None if found is None else msgspec.json.decode(found[0], type=Host)

    def host(self, infra_env_id: str, host_id: str) -> Host:
        """One host. Raises NotFound."""
        found = self.find_host(infra_env_id, host_id)
        if found is None:
            raise NotFound(f"host {host_id} of infra-env {infra_env_id} was not found")
        return found

    def put_host(self, host: Host) -> None:
        """Insert or replace; the place in the order stays."""
        self._write(
            "INSERT INTO hosts VALUES (?,?,(SELECT COALESCE(MAX(seq),0)+1 FROM hosts),?) "
            "ON CONFLICT(infra_env_id, id) DO UPDATE SET doc=excluded.doc",
            host.infra_env_id,
            host.id,
            msgspec.json.encode(host),
        )

    def delete_host(self, infra_env_id: str, host_id: str) -> None:
        """Remove a host."""
        self._write("DELETE FROM hosts WHERE infra_env_id=? AND id=?", infra_env_id, host_id)

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
        """All events, oldest first."""
        return [
            msgspec.json.decode(row[0], type=Event) for row in self._db.execute("SELECT doc FROM events ORDER BY seq")
        ]

    # manifests and files

    def manifests(self, cluster_id: str) -> list[Manifest]:
        """Manifests of a cluster by folder and name."""
        rows = self._db.execute(
            "SELECT doc FROM manifests WHERE cluster_id=? ORDER BY folder, file_name", (cluster_id,)
        )
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

    def delete_manifest(self, cluster_id: str, folder: str, file_name: str) -> None:
        """Remove a manifest."""
        self._write(
            "DELETE FROM manifests WHERE cluster_id=? AND folder=? AND file_name=?", cluster_id, folder, file_name
        )

    def file(self, cluster_id: str, name: str) -> bytes:
        """Content of a generated file. Raises NotFound."""
        row = self._db.execute("SELECT content FROM files WHERE cluster_id=? AND name=?", (cluster_id, name)).fetchone()
        if row is None:
            raise NotFound(f"file {name} of cluster {cluster_id} does not exist (yet)")
        return bytes(row[0])

    def put_file(self, cluster_id: str, name: str, content: bytes) -> None:
        """Insert or replace a generated file."""
        self._write("INSERT OR REPLACE INTO files VALUES (?,?,?)", cluster_id, name, content)
