"""A store with one of everything, and a database that fails."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from installer.rendezvous import events
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, Manifest

CLUSTER = Cluster(id="c", name="c", status_info="before")
ENV = InfraEnv(id="e", name="e", cluster_id="c", image_key="k")
HOST = Host(id="h", infra_env_id="e", cluster_id="c", status_info="before")
LONE = Host(id="lone", infra_env_id="e")


def filled(path: Path) -> Store:
    """Return a store with a cluster, its infra-env and host, and a host of no cluster."""
    store = Store(path)
    with store.change():
        store.put_cluster(CLUSTER)
        store.put_infra_env(ENV)
        store.put_host(HOST)
        store.put_host(LONE)
        store.put_manifest("c", Manifest(folder="openshift", file_name="a.yaml", content=b"a"))
        store.put_file("c", "master.ign", b"old")
        store.add_event(events.make("cluster_registration_succeeded", cluster=CLUSTER, name="c"))
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Provide a store with one of each kind of record, for one test."""
    store = filled(tmp_path / "assisted.db")
    yield store
    store.close()


def picture(store: Store) -> Any:
    """All that the store holds."""
    return (
        store.clusters(),
        store.infra_envs(),
        store.hosts(),
        store.hosts(infra_env_id="e"),
        store.hosts(cluster_id="c"),
        store.unbound_hosts(),
        store.events(),
        store.manifests("c"),
        [(name, store.file("c", name)) for name in store.file_names("c")],
    )


class Stop(Exception):
    """Ends a change."""


def abandoned(store: Store, act: Callable[[], object]) -> None:
    """Make a change that does this, and then fails."""

    def run() -> None:
        with store.change():
            act()
            raise Stop

    with pytest.raises(Stop):
        run()


@contextmanager
def no_more_bytes(store: Store) -> Iterator[None]:
    """Provide the kernel refuses every write past what the files hold: EFBIG, which SQLite reports as an I/O error."""
    wal = Path(f"{store.path}-wal")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another holds the database."""
    store.db.execute("PRAGMA busy_timeout=10")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()
