"""The store's contents: order, numbers, joint removals, and memory and database that never differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.enums import Severity
from installer.assisted.errors import NotFound, StoreError
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Anchor, Cluster, Event, Host, InfraEnv, Manifest
from installer.testing.engine.store_kit import CLUSTER, ENV, HOST, LONE, abandoned, filled, picture

replace = msgspec.structs.replace


@pytest.mark.parametrize(
    "doc",
    [b"{", b"[]", b"\xff", b'"\xff"', b'{"boot": "b", "monotonic": 1.0, "wall": "soon"}',
     b'{"boot": "b", "monotonic": 1.0, "wall": "2026-01-01T00:00:00"}'],
)  # fmt: skip
@pytest.mark.parametrize("table", ["anchor", "events", "manifests"])
def test_what_is_read_later_and_cannot_be_is_told_too(store: Store, table: str, doc: bytes) -> None:
    with store.change():
        store.put_anchor(Anchor(boot="b", monotonic=1.0, wall="2026-01-01T00:00:00Z"))
        store.put_manifest("c", Manifest(folder="openshift", file_name="a.yaml", content=b"a: 1\n"))
        store.add_event(Event(name="n", severity=Severity.INFO, message="m", event_time="", category="user"))
    reads = {"anchor": store.anchor, "events": store.events, "manifests": lambda: store.manifests("c")}
    assert reads[table]()
    store.db.execute(f"UPDATE {table} SET doc=?", [doc])
    with pytest.raises(StoreError, match="cannot be read: "):
        reads[table]()


def test_a_file_of_its_own_and_a_log_that_a_thread_folds_in(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "assisted.db"
    store = filled(path)
    wanted = {"journal_mode": "wal", "synchronous": 1, "wal_autocheckpoint": 32768, "busy_timeout": 1000}
    pragmas = {name: store.db.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted}
    assert pragmas == wanted
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()
    assert not Path(f"{path}-wal").exists()
    with pytest.raises(StoreError, match="closed"):
        store.events()


def test_a_store_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened: "):
        Store(tmp_path / "file" / "assisted.db")


def test_manifests_and_files_by_name(store: Store) -> None:
    assert store.manifests("c") == [Manifest(folder="openshift", file_name="a.yaml", content=b"a")]
    before = store.version("c")
    with store.change():
        for folder, name in (("openshift", "0.yaml"), ("manifests", "z.yaml")):
            store.put_manifest("c", Manifest(folder=folder, file_name=name, content=name.encode()))
        store.put_manifest("c", Manifest(folder="openshift", file_name="a.yaml", content=b"other"))
        store.put_manifest("d", Manifest(folder="openshift", file_name="d.yaml", content=b"d"))
        store.put_file("c", "bootstrap.ign", b"b")
        store.put_file("d", "master.ign", b"d")
        assert store.version("c") > before
    stored = [(item.folder, item.file_name, item.content) for item in store.manifests("c")]
    assert stored == [
        ("manifests", "z.yaml", b"z.yaml"),
        ("openshift", "0.yaml", b"0.yaml"),
        ("openshift", "a.yaml", b"other"),
    ]
    assert store.file_names("c") == ["bootstrap.ign", "master.ign"]
    assert (store.file("c", "master.ign"), store.file("d", "master.ign")) == (b"old", b"d")
    with pytest.raises(NotFound, match=r"file worker\.ign of cluster c does not exist"):
        store.file("c", "worker.ign")
    before = store.version("c")
    with store.change():
        store.delete_manifest("c", "manifests", "a.yaml")
        store.delete_manifest("c", "openshift", "0.yaml")
        store.delete_files("c")
        assert store.version("c") > before
    assert [item.file_name for item in store.manifests("c")] == ["z.yaml", "a.yaml"]
    assert (store.file_names("c"), store.file_names("d")) == ([], ["master.ign"])
    with store.change():
        store.delete_cluster("c")
    assert (store.manifests("c"), len(store.manifests("d")), store.file_names("d")) == ([], 1, ["master.ign"])


def test_deleting_a_cluster_removes_its_files_and_version(store: Store) -> None:
    with store.change():
        store.delete_cluster("c")
        store.delete_cluster("never there")
    assert (store.clusters(), store.file_names("c"), store.version("c")) == ([], [], 0)
    with pytest.raises(NotFound, match="cluster c was not found"):
        store.cluster("c")
    # Its hosts and infra-envs are left to whoever removed it.
    assert [item.id for item in store.infra_envs()] == ["e"]
    assert [item.id for item in store.hosts()] == ["h", "lone"]
    again = Store(store.path)
    assert picture(again) == picture(store)
    again.close()


def test_deleting_an_infra_env_removes_its_hosts(store: Store) -> None:
    with store.change():
        store.put_infra_env(InfraEnv(id="other", name="o"))
        store.put_host(Host(id="h", infra_env_id="other", cluster_id="c"))
    before = store.version("c")
    with store.change():
        store.delete_infra_env("e")
        assert store.version("c") > before
    with store.change():
        store.delete_infra_env("never there")
    assert [item.id for item in store.infra_envs()] == ["other"]
    assert [(host.infra_env_id, host.id) for host in store.hosts()] == [("other", "h")]
    assert [host.infra_env_id for host in store.hosts(cluster_id="c")] == ["other"]
    assert (store.unbound_hosts(), store.hosts(infra_env_id="e"), store.host_version(HOST)) == ([], [], 0)
    with pytest.raises(NotFound, match="infra-env e was not found"):
        store.infra_env("e")
    with pytest.raises(NotFound, match="host h of infra-env e was not found"):
        store.host("e", "h")
    assert store.find_host("e", "h") is None


def test_a_deleted_host_is_in_no_list(store: Store) -> None:
    before = store.version("c")
    with store.change():
        # What was not written yet of it is not written after all.
        store.put_host(replace(HOST, status_info="last words"))
        store.put_cluster(Cluster(id="short", name="s"))
        store.delete_host("e", "h")
        store.delete_host("e", "h")
        store.delete_cluster("short")
    assert store.version("c") > before
    assert (store.host_version(HOST), store.hosts(cluster_id="c")) == (0, [])
    assert [host.id for host in store.hosts(infra_env_id="e")] == ["lone"]
    again = Store(store.path)
    assert picture(again) == picture(store)
    again.close()


def test_numbers_tell_what_has_changed(store: Store) -> None:
    def numbers() -> tuple[int, int, int]:
        return store.version("c"), store.host_version(HOST), store.host_version(LONE)

    again = Store(store.path)
    # Whoever remembers no number has seen nothing.
    assert again.version("c") > 0
    again.close()
    first = numbers()
    with store.change():
        store.put_cluster(replace(CLUSTER))
        store.put_host(replace(HOST))
    store.note_check_in(replace(HOST, checked_in_at="2026-01-01T00:00:00.000Z"))
    with store.change():
        store.note_steps(replace(HOST, sent_steps={"inventory": "x"}))
    assert numbers() == first
    assert store.host("e", "h").sent_steps == {"inventory": "x"}
    with store.change():
        store.put_host(replace(LONE, status_info="new"))
    second = numbers()
    assert (second[0], second[1], second[2] > first[2]) == (*first[:2], True)
    with store.change():
        store.put_cluster(Cluster(id="d", name="d"))
        store.put_host(replace(LONE, cluster_id="d"))
    assert numbers()[0] == first[0]
    before, other = store.version("c"), store.version("d")
    with store.change():
        # From one cluster to another: both look different now.
        store.put_host(replace(LONE, cluster_id="c"))
        assert store.version("d") > other
    assert store.version("c") > before
    before = store.version("c")
    with store.change():
        store.put_infra_env(replace(ENV, name="new"))
    assert store.version("c") > before


IDS = st.sampled_from("abc")
OPERATIONS = st.one_of(
    st.tuples(st.just("put_cluster"), st.builds(Cluster, id=IDS, name=IDS)),
    st.tuples(st.just("put_infra_env"), st.builds(InfraEnv, id=IDS, name=IDS, cluster_id=st.none() | IDS)),
    st.tuples(
        st.just("put_host"),
        st.builds(Host, id=IDS, infra_env_id=IDS, cluster_id=st.none() | IDS, status_info=IDS),
    ),
    st.tuples(st.just("delete_cluster"), IDS),
    st.tuples(st.just("delete_infra_env"), IDS),
    st.tuples(st.just("delete_host"), IDS, IDS),
)


@given(st.lists(st.tuples(st.booleans(), st.lists(OPERATIONS, max_size=4)), max_size=8))
def test_memory_and_database_are_the_same_after_any_order_of_changes(tmp_path_factory: Any, changes: list[Any]) -> None:
    """Kept or abandoned: what the store tells is what one tells that reads the same file anew, order and all."""
    directory = tmp_path_factory.mktemp("store")
    store = Store(directory / "assisted.db")

    def act(operations: list[Any]) -> None:
        for name, *arguments in operations:
            getattr(store, name)(*arguments)

    def everything(of: Store) -> Any:
        by_cluster = [of.hosts(cluster_id=name) for name in "abc"]
        both = [of.hosts(infra_env_id=infra_env, cluster_id=cluster) for infra_env in "abc" for cluster in "abc"]
        by_infra_env = [of.hosts(infra_env_id=name) for name in "abc"]
        return of.clusters(), of.infra_envs(), of.hosts(), of.unbound_hosts(), by_cluster, by_infra_env, both

    for kept, operations in changes:
        before = everything(store)
        if kept:
            with store.change():
                act(operations)
        else:
            abandoned(store, lambda operations=operations: act(operations))  # type: ignore[misc]
            assert everything(store) == before
    again = Store(directory / "assisted.db")
    assert everything(again) == everything(store)
    again.close()
    store.close()


def test_a_host_that_changes_its_cluster_is_where_it_registered(store: Store) -> None:
    with store.change():
        store.put_host(Host(id="third", infra_env_id="e", cluster_id="c"))
        store.put_host(replace(LONE, cluster_id="c"))
    for each_store in (store, Store(store.path)):
        assert [host.id for host in each_store.hosts(cluster_id="c")] == ["h", "lone", "third"]
