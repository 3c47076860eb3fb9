"""The service's one store: SQLite in WAL mode, one transaction a change, whole again after SIGKILL.

What is read often (clusters, infra-envs, hosts) is also kept decoded in memory: the process is the file's only user.
Within a change clusters and hosts change in memory only; how they end up is written once, at the change's end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from installer.assisted.errors import NotFound, StoreError
from installer.rendezvous.store.feed import Feed
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, decode, encode

Key = tuple[str, str]


class Store(Feed):
    """Reads at any time; writes only within :meth:`change`. For one thread (the event loop's)."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError when the file cannot be used."""
        super().__init__(path)
        # Every change of a cluster and what belongs to it, or of a host, gets the next number; check-ins do not count.
        self._counter = 0
        self._versions: dict[str, int] = {}
        self._host_versions: dict[Key, int] = {}
        # What the change under way has to write, in this order.
        self._open_clusters: dict[str, None] = {}
        self._open_hosts: dict[Key, None] = {}
        # Clusters whose version number this change has changed or removed.
        self._touched: set[str] = set()
        self._numbered: set[Key] = set()
        # Called after a change that the feed has.
        self.announce: Callable[[], None] = lambda: None
        try:
            with self._reading():
                self._load()
                self._fill_feed()
        except StoreError:
            self.close()
            raise

    def _load(self) -> None:
        self._sequence = int(self._rows("SELECT COALESCE(MAX(seq),0) FROM hosts")[0][0])
        rows = self._rows("SELECT doc FROM clusters ORDER BY rowid")
        clusters = {item.id: item for item in (decode(row[0], Cluster) for row in rows)}
        rows = self._rows("SELECT doc FROM infra_envs ORDER BY rowid")
        infra_envs = {item.id: item for item in (decode(row[0], InfraEnv) for row in rows)}
        rows = self._rows("SELECT doc FROM hosts ORDER BY seq")
        hosts = [decode(row[0], Host) for row in rows]
        self._restore(clusters, infra_envs, {(host.infra_env_id, host.id): host for host in hosts})
        for cluster_id in clusters:
            self._touch(cluster_id)

    def _restore(self, clusters: dict[str, Cluster], infra_envs: dict[str, InfraEnv], hosts: dict[Key, Host]) -> None:
        self._clusters, self._infra_envs = clusters, infra_envs
        self._hosts: dict[Key, Host] = {}
        self._of_cluster: dict[str | None, dict[Key, Host]] = {}
        self._of_infra_env: dict[str, dict[Key, Host]] = {}
        for host in hosts.values():
            self._index(host)

    def _index(self, host: Host) -> None:
        key = (host.infra_env_id, host.id)
        previous = self._hosts.get(key)
        if previous is not None and previous.cluster_id != host.cluster_id:
            self._of_cluster[previous.cluster_id].pop(key, None)
            # Rebuilt, so that the host stands among the others of its new cluster in the order of registration.
            self._hosts[key] = host
            mine = {key: other for key, other in self._hosts.items() if other.cluster_id == host.cluster_id}
            self._of_cluster[host.cluster_id] = mine
        self._hosts[key] = host
        self._of_cluster.setdefault(host.cluster_id, {})[key] = host
        self._of_infra_env.setdefault(host.infra_env_id, {})[key] = host

    @contextmanager
    def change(self) -> Iterator[None]:
        """All writes within are one transaction: kept together, or dropped together on an exception.

        Raises StoreError when the database does not take them: a full disk, an I/O error, another's lock.
        """
        if self._changing:
            raise RuntimeError("a change is already under way")
        # Check-ins live in memory only, so what was there before is put back from memory, not read again.
        before = (dict(self._clusters), dict(self._infra_envs), dict(self._hosts))
        self._open_clusters, self._open_hosts, self._touched, self._numbered = {}, {}, set(), set()
        self._changed = {}
        committed = False
        try:
            self._begin()
            self._changing = True
            yield
            self._flush()
            self.db.execute("COMMIT")
            committed = True
        except sqlite3.Error as error:
            raise StoreError(self.path, "written", str(error)) from error
        finally:
            self._changing = False
            if not committed:
                # Memory first: what follows may fail too, and the database holds nothing of this change either way.
                self._take_back(*before)
                self._roll_back()
        if self._changed:
            self.announce()

    def _take_back(self, clusters: dict[str, Cluster], infra_envs: dict[str, InfraEnv], hosts: dict[Key, Host]) -> None:
        self._restore(clusters, infra_envs, hosts)
        # Whoever saw the states of the change that failed must look again; a number is never given twice.
        for cluster_id in self._touched & clusters.keys():
            self._count(cluster_id)
        for cluster_id in self._touched - clusters.keys():
            self._versions.pop(cluster_id, None)
        for key in tuple(self._numbered):
            if key in hosts:
                self._number(key)
            else:
                self._host_versions.pop(key, None)

    def _flush(self) -> None:
        for cluster_id in self._open_clusters:
            self._write(
                "INSERT INTO clusters VALUES (?,?) ON CONFLICT(id) DO UPDATE SET doc=excluded.doc",
                cluster_id,
                encode(self._clusters[cluster_id]),
            )
        for key in self._open_hosts:
            self._sequence += 1
            self._write(
                "INSERT INTO hosts VALUES (?,?,?,?) ON CONFLICT(infra_env_id, id) DO UPDATE SET doc=excluded.doc",
                *key,
                self._sequence,
                encode(self._hosts[key]),
            )
        self._write_feed()

    def _touch(self, cluster_id: str | None) -> None:
        if cluster_id is not None:
            self._touched.add(cluster_id)
            self._count(cluster_id)

    def _count(self, cluster_id: str) -> None:
        self._counter += 1
        self._versions[cluster_id] = self._counter

    def _number(self, key: Key) -> None:
        self._numbered.add(key)
        self._counter += 1
        self._host_versions[key] = self._counter

    def version(self, cluster_id: str) -> int:
        """Grows with every change of the cluster, its hosts, infra-envs or manifests; starts anew with the process."""
        return self._versions.get(cluster_id, 0)

    def host_version(self, host: Host) -> int:
        """Another number after every change of this host; calling in and being handed steps are none."""
        return self._host_versions.get((host.infra_env_id, host.id), 0)

    # clusters and infra-envs

    def clusters(self) -> list[Cluster]:
        """All clusters, oldest first."""
        return list(self._clusters.values())

    def infra_envs(self) -> list[InfraEnv]:
        """All infra-envs, oldest first."""
        return list(self._infra_envs.values())

    def find_cluster(self, cluster_id: str) -> Cluster | None:
        """One cluster, or None."""
        return self._clusters.get(cluster_id)

    def cluster(self, cluster_id: str) -> Cluster:
        """One cluster. Raises NotFound."""
        cluster = self._clusters.get(cluster_id)
        if cluster is None:
            raise NotFound(f"cluster {cluster_id} was not found")
        return cluster

    def find_infra_env(self, infra_env_id: str) -> InfraEnv | None:
        """One infra-env, or None."""
        return self._infra_envs.get(infra_env_id)

    def infra_env(self, infra_env_id: str) -> InfraEnv:
        """One infra-env. Raises NotFound."""
        infra_env = self._infra_envs.get(infra_env_id)
        if infra_env is None:
            raise NotFound(f"infra-env {infra_env_id} was not found")
        return infra_env

    def put_cluster(self, cluster: Cluster) -> None:
        """Insert or replace."""
        self._check()
        if self._clusters.get(cluster.id) == cluster:
            return
        self._clusters[cluster.id] = cluster
        self._open_clusters[cluster.id] = None
        self._note("cluster", cluster.id)
        self._touch(cluster.id)

    def put_infra_env(self, infra_env: InfraEnv) -> None:
        """Insert or replace."""
        self._write(
            "INSERT INTO infra_envs VALUES (?,?) ON CONFLICT(id) DO UPDATE SET doc=excluded.doc",
            infra_env.id,
            encode(infra_env),
        )
        self._infra_envs[infra_env.id] = infra_env
        self._note("infra_env", infra_env.id)
        self._touch(infra_env.cluster_id)

    def delete_cluster(self, cluster_id: str) -> None:
        """Remove a cluster with its manifests and files; its hosts and infra-envs belong to none any more."""
        for table, key in (("clusters", "id"), ("manifests", "cluster_id"), ("files", "cluster_id")):
            self._write(f"DELETE FROM {table} WHERE {key}=?", cluster_id)
        if self._clusters.pop(cluster_id, None) is not None:
            self._note("cluster", cluster_id, deleted=True)
        self._open_clusters.pop(cluster_id, None)
        self._versions.pop(cluster_id, None)
        self._touched.add(cluster_id)

    def delete_infra_env(self, infra_env_id: str) -> None:
        """Remove an infra-env and its hosts."""
        self._write("DELETE FROM infra_envs WHERE id=?", infra_env_id)
        self._write("DELETE FROM hosts WHERE infra_env_id=?", infra_env_id)
        removed = self._infra_envs.pop(infra_env_id, None)
        if removed is not None:
            self._note("infra_env", infra_env_id, deleted=True)
        for key, host in self._of_infra_env.pop(infra_env_id, {}).items():
            self._forget(key, host)
        self._touch(removed.cluster_id if removed else None)

    # hosts

    def hosts(self, infra_env_id: str | None = None, cluster_id: str | None = None) -> list[Host]:
        """Hosts in order of registration, of one infra-env or cluster when given."""
        if cluster_id is not None:
            hosts = self._of_cluster.get(cluster_id, {}).values()
            return [host for host in hosts if infra_env_id is None or host.infra_env_id == infra_env_id]
        if infra_env_id is not None:
            return list(self._of_infra_env.get(infra_env_id, {}).values())
        return list(self._hosts.values())

    def unbound_hosts(self) -> list[Host]:
        """Hosts that belong to no cluster."""
        return list(self._of_cluster.get(None, {}).values())

    def find_host(self, infra_env_id: str, host_id: str) -> Host | None:
        """One host, or None."""
        return self._hosts.get((infra_env_id, host_id))

    def host(self, infra_env_id: str, host_id: str) -> Host:
        """One host. Raises NotFound."""
        host = self.find_host(infra_env_id, host_id)
        if host is None:
            raise NotFound(f"host {host_id} of infra-env {infra_env_id} was not found")
        return host

    def put_host(self, host: Host) -> None:
        """Insert or replace; the place in the order stays."""
        self._check()
        key = (host.infra_env_id, host.id)
        previous = self._hosts.get(key)
        if previous == host:
            return
        self._index(host)
        self._open_hosts[key] = None
        self._note("host", host.id, host.infra_env_id)
        self._number(key)
        self._touch(host.cluster_id)
        if previous is not None and previous.cluster_id != host.cluster_id:
            self._touch(previous.cluster_id)

    def note_check_in(self, host: Host) -> None:
        """Remember that a host called in: in memory only, as it says nothing that outlives this process.

        A restarted service counts silence from its own start, and the next change of the host writes it all the same.
        """
        self._index(host)

    def note_steps(self, host: Host) -> None:
        """Keep which steps a host was handed: nothing that anybody sees, or that is judged."""
        self._check()
        self._index(host)
        self._open_hosts[(host.infra_env_id, host.id)] = None

    def _forget(self, key: Key, host: Host) -> None:
        del self._hosts[key]
        self._open_hosts.pop(key, None)
        self._host_versions.pop(key, None)
        self._numbered.add(key)
        self._note("host", host.id, host.infra_env_id, deleted=True)
        self._of_cluster[host.cluster_id].pop(key, None)
        self._touch(host.cluster_id)

    def delete_host(self, infra_env_id: str, host_id: str) -> None:
        """Remove a host."""
        self._write("DELETE FROM hosts WHERE infra_env_id=? AND id=?", infra_env_id, host_id)
        key = (infra_env_id, host_id)
        host = self._hosts.get(key)
        if host is not None:
            self._forget(key, host)
            self._of_infra_env[infra_env_id].pop(key, None)
