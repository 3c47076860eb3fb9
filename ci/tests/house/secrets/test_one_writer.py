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


def changes(source: str) -> set[str]:
    """Lines of a module that call a method which changes the store, whatever variable the store is in."""
    return {
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in nodes(source, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
    }


@pytest.mark.parametrize("room", READERS)
def test_no_other_room_changes_the_store(room):
    folder = ROOT / "installer" / "rendezvous" / room
    paths = sorted(folder.rglob("*.py"))
    assert paths
    assert not {f"{path.relative_to(ROOT)}:{line}" for path in paths for line in changes(path.read_text())}


def test_the_methods_that_change_the_store_are_found_by_their_names():
    assert {"change", "put_cluster", "put_host", "delete_host", "add_event", "note_steps", "put_file"} <= WRITES


@pytest.mark.parametrize("source", ["with store.change(): pass", "engine.store.put_host(host)", "s.add_event(e)"])
def test_a_change_is_found(source):
    assert changes(source)


def test_reading_is_allowed():
    assert not changes("store.hosts()\nstore.cluster(x)")
