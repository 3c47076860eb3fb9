"""The service's store is changed by its resources, and by time (reconcile/): whoever answers requests only reads it."""

import ast
import inspect
from pathlib import Path

import pytest

from ci.syntax import nodes
from installer.rendezvous.store.database import Store

ROOT = Path(__file__).parents[4]
READERS = ("api", "page", "steps", "validations", "prepare", "discovery", "states", "client", "eventloop")
WRITES = frozenset(
    name
    for name, _ in inspect.getmembers(Store, inspect.isfunction)
    if name == "change" or name.startswith(("put_", "delete_", "add_", "note_"))
)


def writers(source: str) -> set[str]:
    """The lines of a module that change a store, each with its expression; whatever the store is called there."""
    return {
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in nodes(source, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
    }


@pytest.mark.parametrize("room", READERS)
def test_nobody_else_changes_the_store(room):
    folder = ROOT / "installer" / "rendezvous" / room
    paths = sorted(folder.rglob("*.py"))
    assert paths
    assert not {f"{path.relative_to(ROOT)}:{line}" for path in paths for line in writers(path.read_text())}


def test_the_stores_writers_are_known():
    assert {"change", "put_cluster", "put_host", "delete_host", "add_event", "note_steps", "put_file"} <= WRITES


@pytest.mark.parametrize("source", ["with store.change(): pass", "engine.store.put_host(host)", "s.add_event(e)"])
def test_a_writer_is_seen(source):
    assert writers(source)


def test_reading_is_free():
    assert not writers("store.hosts()\nstore.cluster(x)")
