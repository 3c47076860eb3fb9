"""The store when its database refuses: full, an I/O error, another's lock, at each write and at the commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import HostStatus
from installer.assisted.errors import NotFound, StoreError
from installer.rendezvous import events
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.documents import HostInventory
from installer.rendezvous.store.model import Cluster, Event, Host, InfraEnv, Manifest
from installer.testing.engine.store_kit import CLUSTER, ENV, HOST, LONE, abandoned, locked, no_more_bytes, picture

replace = msgspec.structs.replace
# More than fits into the pages that a small database has free.
MUCH = "x" * 3_000_000


def event(text: str) -> Event:
    return replace(events.make("validations_ignored", cluster=CLUSTER), props=text)


# Each write of the store, with so much that a full database cannot take it; removals come with something big.
WRITES: dict[str, Callable[[Store], None]] = {
    "put_cluster": lambda s: s.put_cluster(replace(CLUSTER, status_info=MUCH)),
    "put_cluster, new": lambda s: s.put_cluster(Cluster(id="new", name="n", status_info=MUCH)),
    "put_infra_env": lambda s: s.put_infra_env(replace(ENV, additional_trust_bundle=MUCH)),
    "put_infra_env, new": lambda s: s.put_infra_env(InfraEnv(id="new", name="n", additional_trust_bundle=MUCH)),
    "put_host": lambda s: s.put_host(replace(HOST, inventory=HostInventory(MUCH))),
    "put_host, new": lambda s: s.put_host(replace(HOST, id="new", inventory=HostInventory(MUCH))),
    "put_host, bound": lambda s: s.put_host(replace(LONE, cluster_id="c", inventory=HostInventory(MUCH))),
    "note_steps": lambda s: s.note_steps(replace(HOST, sent_steps={"inventory": MUCH})),
    "add_event": lambda s: s.add_event(event(MUCH)),
    "put_manifest": lambda s: s.put_manifest(
        "c", Manifest(folder="openshift", file_name="b.yaml", content=MUCH.encode())
    ),
    "put_manifest, again": lambda s: s.put_manifest(
        "c", Manifest(folder="openshift", file_name="a.yaml", content=MUCH.encode())
    ),
    "put_file": lambda s: s.put_file("c", "bootstrap.ign", MUCH.encode()),
    "put_file, again": lambda s: s.put_file("c", "master.ign", MUCH.encode()),
    "delete_manifest": lambda s: (s.delete_manifest("c", "openshift", "a.yaml"), s.put_file("c", "x", MUCH.encode()))[
        0
    ],
    "delete_host": lambda s: (s.delete_host("e", "h"), s.put_file("c", "x", MUCH.encode()))[0],
    "delete_infra_env": lambda s: (s.delete_infra_env("e"), s.put_file("c", "x", MUCH.encode()))[0],
    "delete_cluster": lambda s: (s.delete_cluster("c"), s.put_file("d", "x", MUCH.encode()))[0],
}


@contextmanager
def full(store: Store) -> Iterator[None]:
    """Provide the database may not grow by a single page."""
    pages = store.db.execute("PRAGMA page_count").fetchone()[0]
    store.db.execute(f"PRAGMA max_page_count={pages}")
    try:
        yield
    finally:
        store.db.execute("PRAGMA max_page_count=1073741823")


FAULTS: dict[str, tuple[Callable[[Store], AbstractContextManager[None]], str]] = {
    "full": (full, "database or disk is full"),
    "I/O error": (no_more_bytes, "disk I/O error"),
    "locked": (locked, "database is locked"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("write", WRITES)
def test_memory_and_database_stay_one(store: Store, write: str, fault: str) -> None:
    before, versions = picture(store), (store.version("c"), store.host_version(HOST), store.host_version(LONE))
    broken, words = FAULTS[fault]

    def attempt() -> None:
        with store.change():
            WRITES[write](store)

    for _ in range(2):
        # The same again is not "unchanged": it fails again.
        with broken(store), pytest.raises(StoreError, match=words) as caught:
            attempt()
        assert caught.value.status == 503
        assert picture(store) == before
    again = Store(store.path)
    assert picture(again) == before
    again.close()
    # Whoever looked at numbers in between must never see one again for something else.
    assert store.version("c") >= versions[0]
    assert store.version("c") > 0
    for host, version in zip((HOST, LONE), versions[1:], strict=True):
        assert store.host_version(host) >= version
    # What was refused is taken when there is room, and is there after a restart.
    attempt()
    after = picture(store)
    assert after != before
    again = Store(store.path)
    assert picture(again) == after
    again.close()


@pytest.mark.parametrize("write", [name for name in WRITES if not name.startswith("delete")])
def test_small_changes_fail_at_the_commit(store: Store, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little to write SQLite keeps all in its cache until COMMIT, and only that fails."""
    monkeypatch.setitem(globals(), "MUCH", "y")
    before = picture(store)
    seen: list[str] = []
    store.db.set_trace_callback(seen.append)
    with no_more_bytes(store), pytest.raises(StoreError, match="disk I/O error"), store.change():
        WRITES[write](store)
    assert seen[-1] in ("COMMIT", "ROLLBACK")
    assert "COMMIT" in seen
    assert picture(store) == before
    with store.change():
        WRITES[write](store)
    assert picture(store) != before


def test_versions_seen_during_a_failed_change_are_not_used_again(store: Store) -> None:
    versions: set[int] = {store.version("c")}
    hosts: set[int] = {store.host_version(HOST)}

    def act() -> None:
        store.put_cluster(replace(CLUSTER, status_info="seen"))
        store.put_host(replace(HOST, status_info="seen"))
        versions.add(store.version("c"))
        hosts.add(store.host_version(HOST))

    for _ in range(3):
        abandoned(store, act)
        assert store.version("c") not in versions
        assert store.host_version(HOST) not in hosts
        versions.add(store.version("c"))
        hosts.add(store.host_version(HOST))


def test_a_removal_that_fails_leaves_numbers_that_were_never_given(store: Store) -> None:
    seen = {store.version("c"), 0}
    seen_host = {store.host_version(HOST), 0}

    def act() -> None:
        store.delete_host("e", "h")
        store.delete_cluster("c")
        with pytest.raises(NotFound):
            store.cluster("c")

    for _ in range(2):
        abandoned(store, act)
        assert store.cluster("c") == CLUSTER
        assert store.host("e", "h") == HOST
        assert store.version("c") not in seen
        assert store.host_version(HOST) not in seen_host
        seen.add(store.version("c"))
        seen_host.add(store.host_version(HOST))


def test_a_record_that_was_not_stored_has_no_version(store: Store) -> None:
    def act() -> None:
        store.put_cluster(Cluster(id="new", name="n"))
        store.put_host(Host(id="new", infra_env_id="e", cluster_id="new"))

    abandoned(store, act)
    assert store.version("new") == 0
    assert store.host_version(Host(id="new", infra_env_id="e")) == 0
    assert store.hosts(cluster_id="new") == []


def test_check_ins_outlive_a_failed_change(store: Store) -> None:
    called = replace(HOST, checked_in_at="2026-01-01T00:00:00.000Z")
    store.note_check_in(called)
    number = store.host_version(HOST)
    with full(store), pytest.raises(StoreError), store.change():
        store.put_file("c", "x", MUCH.encode())
    assert store.host("e", "h") == called
    assert store.host_version(HOST) == number


def test_a_transaction_that_cannot_be_rolled_back_is_given_up_with_its_connection(store: Store) -> None:
    before = picture(store)

    class Stubborn:
        """A connection on which ROLLBACK fails, as on a disk that has gone."""

        def __init__(self, real: sqlite3.Connection) -> None:
            self.real = real

        def execute(self, sql: str, *values: Any) -> Any:
            if sql == "ROLLBACK":
                raise sqlite3.OperationalError("disk I/O error")
            return self.real.execute(sql, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    store.db = Stubborn(store.db)  # type: ignore[assignment]

    def act() -> None:
        store.put_cluster(replace(CLUSTER, status_info="never"))
        store.add_event(events.make("validations_ignored", cluster=CLUSTER))

    abandoned(store, act)
    assert store.clusters() == before[0]
    # Readers need not wait for the next change.
    assert picture(store) == before
    assert store.secret("urls") == store.secret("urls")
    with store.change():
        store.put_cluster(replace(CLUSTER, status_info="after"))
    assert len(store.events()) == len(before[6])
    assert store.cluster("c").status_info == "after"
    again = Store(store.path)
    assert picture(again) == picture(store)
    again.close()


def test_a_secret_is_read_where_nothing_can_be_written(store: Store) -> None:
    before = store.secret("urls")
    assert len(before) == 32
    with no_more_bytes(store):
        assert store.secret("urls") == before
        with pytest.raises(StoreError, match="disk I/O error"):
            store.secret("other")
    assert store.secret("other") not in (before, b"")
    assert store.secret("other") == store.secret("other")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no database at all" * 200, "cannot be opened: file is not a database"), (None, "cannot be opened: ")],
)
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "assisted.db"
    path.write_bytes(content) if content is not None else path.mkdir()
    with pytest.raises(StoreError, match=words) as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert caught.value.path == path


def test_a_record_that_cannot_be_read_is_named(store: Store) -> None:
    store.db.execute("UPDATE hosts SET doc='{' WHERE id='h'")
    with pytest.raises(StoreError, match="cannot be read: "):
        Store(store.path)


def test_one_change_at_a_time(store: Store) -> None:
    with store.change(), pytest.raises(RuntimeError, match="already under way"), store.change():
        pass
    for write in WRITES.values():
        with pytest.raises(RuntimeError, match="outside"):
            write(store)
    assert picture(store)[0] == [CLUSTER]


def test_order_and_place_of_hosts(store: Store) -> None:
    with store.change():
        store.put_host(Host(id="third", infra_env_id="e", cluster_id="c"))
    with store.change():
        store.put_host(replace(HOST, status=HostStatus.KNOWN))
    for each_store in (store, Store(store.path)):
        assert [host.id for host in each_store.hosts()] == ["h", "lone", "third"]
        assert [host.id for host in each_store.hosts(cluster_id="c")] == ["h", "third"]
        assert [host.id for host in each_store.unbound_hosts()] == ["lone"]
        assert [host.id for host in each_store.hosts(infra_env_id="e", cluster_id="c")] == ["h", "third"]
        assert each_store.hosts(infra_env_id="other", cluster_id="c") == []
