"""Modules of up to 400 lines, folders of up to a dozen modules, all of them in the picture of rooms; tests lie in the
rooms of what they test.

CONTRIBUTING.md, "Style", "Where a line belongs"; docs/architecture.md, "Rooms within rooms".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.imports import ROOMS, ROOT, imports, modules, named

LINES, MODULES = 400, 12
PICTURE = "docs/architecture.md"
#: Tests that import from one room only, but test another, and why.
ELSEWHERE = {
    "installer/tests/rendezvous/eventloop/test_gate_http.py": "starts the whole service, whose gate it tests",
    "installer/tests/rendezvous/reconcile/test_orders.py": "the engine is in its kit; it names one resource",
    "installer/tests/rendezvous/resources/test_clusters_as_upstream.py": "the service is in its kit",
}


@pytest.fixture(scope="module")
def paths() -> list[Path]:
    return [path.relative_to(ROOT) for path in modules(ROOT, ROOMS).values()]


@dataclass
class Drawn:
    """A room as it is drawn: the words of its lines, those of rooms within it too, and those rooms by name."""

    words: set[str] = field(default_factory=set)
    rooms: dict[str, "Drawn"] = field(default_factory=dict)

    def has(self, parts: tuple[str, ...]) -> bool:
        """Whether the folder at this path is drawn: by a line of its own, or named in the line of the room around it.
        In a tree of lines, each folder of the first level has its own."""
        if not parts:
            return True
        first, *rest = parts
        if first in self.rooms:
            return self.rooms[first].has(tuple(rest))
        return set(parts) <= self.words


def drawn(page: str) -> dict[str, Drawn]:
    """The page's picture: rooms of the top level by name."""
    tops: dict[str, Drawn] = {}
    above: list[Drawn] = []
    for line in page.split("## Rooms within rooms", 1)[1].split("```")[1].splitlines():
        if top := re.match(r"(\w+)/", line):
            above = [tops.setdefault(top[1], Drawn())]
        elif branch := re.match(r"((?:[│ ] {2})*)[├└]─ ([\w.]+(?:, [\w.]+)*)", line):
            depth = len(branch[1]) // 3 + 1
            room = Drawn()
            above = [*above[:depth], room]
            above[-2].rooms.update(dict.fromkeys(branch[2].split(", "), room))
        for room in above:
            room.words.update(re.findall(r"[\w-]+", line))
    return tops


def missing_in_picture(folders: set[Path], page: str) -> set[str]:
    """Folders that the page's picture of rooms does not show where they are; those of tests are laid out as what they
    test."""
    tops = drawn(page)
    missing = set()
    for folder in folders:
        top, *rest = folder.parts
        room = tops.get(top, Drawn())
        alone = rest and room.rooms and rest[0] not in room.rooms
        if "tests" not in folder.parts and (top not in tops or alone or not room.has(tuple(rest))):
            missing.add(str(folder))
    return missing


def only_room(name: str, source: str, by_name: Mapping[str, Path]) -> tuple[str, ...] | None:
    """The only folder that a test module imports from; None where there are several. Modules that are not in a room
    (`installer.cli`), errors and kits do not count."""
    top = name.split(".")[0]
    all_named = [edge.imported for edge in imports(name, source, by_name) if edge.kind != "typing"]
    all_named += [module for _, module in named(source, by_name, python=True)]
    rooms = set()
    for module in all_named:
        is_package = by_name[module].name == "__init__.py"
        room = tuple(module.split(".") if is_package else module.split(".")[:-1])
        if room[0] == top and len(room) > 1 and not {"testing", "tests"} & set(room) and module[-7:] != ".errors":
            rooms.add(room)
    return rooms.pop() if len(rooms) == 1 else None


def misplaced(name: str, source: str, by_name: Mapping[str, Path]) -> bool:
    """Whether a test module lies neither in the folder of the only room that it imports from, nor in one above it."""
    parts = name.split(".")
    above, below = parts[: parts.index("tests")], parts[parts.index("tests") + 1 : -1]
    here, room = (*above, *below), only_room(name, source, by_name)
    return room is not None and room[: len(here)] != here


def test_modules_have_at_most_400_lines(paths):
    assert {str(path) for path in paths if len((ROOT / path).read_text().splitlines()) > LINES} == set()


def test_folders_hold_about_a_dozen_modules(paths):
    names = [str(path.parent) for path in paths if path.name != "__init__.py"]
    assert {name: names.count(name) for name in names if names.count(name) > MODULES} == {}


def test_the_picture_names_all_rooms(paths):
    assert missing_in_picture({path.parent for path in paths}, (ROOT / PICTURE).read_text()) == set()


def test_a_room_that_is_missing_in_the_picture_is_found():
    tree = "lab/  lab.py\n├─ host  this machine;  seam: b\n│  └─ deep\n"
    page = f"a cellar\n## Rooms within rooms\n```\n{tree}```\nthe attic"
    drawn_ones = ("host", "host/seam", "host/deep", "tests/x")
    others = ("cellar", "attic", "seam", "deep", "host/attic", "host/seam/below")
    folders = {Path("lab"), *(Path("lab") / room for room in (*drawn_ones, *others))}
    assert missing_in_picture(folders, page) == {f"lab/{room}" for room in others}


def test_tests_lie_in_the_room_of_what_they_test():
    """Tests of labs, which run programs in machines, and of the repository itself are left out."""
    by_name = modules(ROOT, ("installer", "drivers", "lab", "ci"))
    elsewhere = set()
    for name, path in by_name.items():
        source, where = path.read_text(), str(path.relative_to(ROOT))
        if not path.name.startswith("test_") or "mark.lab" in source or where.startswith("ci/tests/house/"):
            continue
        if misplaced(name, source, by_name):
            elsewhere.add(where)
    assert elsewhere == set(ELSEWHERE)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a.tests.inner.deep.test_x", False), ("a.tests.inner.test_x", False), ("a.tests.test_x", False),
        ("a.tests.other.test_x", True), ("a.tests.inner.deep.deeper.test_x", True),
    ],
)  # fmt: skip
def test_a_misplaced_test_is_found(name, wrong):
    by_name = {"a.cli": Path("cli.py"), "a.inner.deep.thing": Path("thing.py"), "a.other": Path("__init__.py")}
    assert misplaced(name, "from a import cli\nfrom a.inner.deep import thing", by_name) == wrong
    assert not misplaced(name, "import a.other\nfrom a.inner.deep import thing", by_name)
