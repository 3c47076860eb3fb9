"""The house's arrows: scenarios -> lab -> drivers, installer alone (design.md, "The house")."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
ALLOWED = {
    "installer": {"installer"},
    "drivers": {"drivers"},
    "lab": {"lab", "drivers"},
    "scenarios": {"scenarios", "lab", "drivers"},
    "ci": {"ci", "scenarios", "lab", "drivers", "installer"},  # on top of both halves
}


def imported_rooms(source: str, room: str) -> set[str]:
    """Names of the project's rooms that a module imports, absolute or relative."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(room if node.level else (node.module or "").split(".")[0])
    return found & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_along_the_arrows(room):
    wrong = {
        f"{path.relative_to(ROOT)} imports {', '.join(sorted(extra))}"
        for path in sorted((ROOT / room).rglob("*.py"))
        if (extra := imported_rooms(path.read_text(), room) - ALLOWED[room])
    }
    assert not wrong


def test_the_cluster_programs_stand_alone():
    """They run in containers that hold nothing else of the lab."""
    wrong = {
        f"{path.name}: {node.module}"
        for path in (ROOT / "lab/release/cluster").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("lab")
        and not (node.module or "").startswith("lab.release.cluster")
    }
    assert not wrong


def test_a_forbidden_import_is_seen():
    assert imported_rooms("def f():\n    import installer.config", "lab") == {"installer"}
    assert imported_rooms("from installer import config", "lab") == {"installer"}
    assert imported_rooms("from .x import y", "lab") == {"lab"}


def test_no_unknown_top_level_folder():
    tracked = {
        p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and not p.name.endswith(".egg-info")
    }
    assert tracked - {"build", "artifacts", "__pycache__"} <= {*ROOMS, "docs"}
