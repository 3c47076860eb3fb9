"""The house's arrows: scenarios -> lab -> drivers, installer alone; and those between rooms within rooms.

design.md, "The house"; CONTRIBUTING.md says where a line belongs. What is not yet as it should be stands in the lists
`KNOWN_...`: these only shrink, since what stands in them and is no longer so fails as well.
"""

from pathlib import Path

import pytest

from ci.imports import ROOMS, ROOT, Edge, graph, loops, modules, named
from ci.syntax import parse
from ci.tests.house.arrows import ALLOWED

#: May be imported throughout installer/: its single modules, the parsers, and the redactor of all logs.
COMMON = ("installer", "installer.formats", "installer.redact")
#: May be imported throughout lab/, and import nothing of ours: the cluster's programs have some of them, alone.
LEAVES = ("lab.buses", "lab.errors", "lab.numbers", "lab.release.cluster.private", "lab.release.cluster.yamltext")
#: The bottom room, which everybody may import.
BOTTOM = "installer.common"
#: Packages whose __init__ imports from the rooms below, so that users need not name these.
FACADES = ("lab",)
#: The command, which imports all rooms of installer/ and is imported by none.
COMMAND = ("installer.cli", "installer.__main__")

#: Imports that break a rule and are not mended yet: importing and imported room -> modules of the latter.
KNOWN_ARROWS: dict[tuple[str, str], set[str]] = {}
#: Imports within functions that close a cycle.
KNOWN_LATE_CYCLES: set[tuple[str, str]] = set()
#: Imports under TYPE_CHECKING that close a cycle: harmless at run time, but two modules depend on each other.
KNOWN_TYPING_CYCLES: set[tuple[str, str]] = set()
#: Modules of other rooms that are started by name instead of by their command: (file, module).
KNOWN_NAMES: set[tuple[str, str]] = set()
#: The lab release packs these programs into images, as the payload's own, and its scripts run them
#: (design.md, decision 1).
PAYLOAD = ("lab/release/components.py", "lab/release/cluster/data/")
SCRIPTS = ("", ".sh", ".service")
#: Test modules that are imported by others; shared code belongs in a kit.
KNOWN_SHARED_TESTS: set[str] = set()


@pytest.fixture(scope="module")
def by_name() -> dict[str, Path]:
    return modules(ROOT, ROOMS)


@pytest.fixture(scope="module")
def edges(by_name) -> list[Edge]:
    return graph(by_name)


def room(module: str) -> str:
    """The row of ALLOWED that a module belongs to; `installer` for installer/'s single modules."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in ALLOWED), parts[0])


def may(importer: str, imported: str) -> bool:
    """Whether the arrows let one module import the other."""
    start, end = room(importer), room(imported)
    if imported in COMMAND:
        return importer in COMMAND or start in ("installer.testing", "installer.tests", "ci.tests")
    if imported in LEAVES:
        return importer.split(".")[0] in ("lab", "scenarios", "ci")
    if start == end or end == BOTTOM or (importer in FACADES and imported.startswith(importer + ".")):
        return True
    if end.endswith(".tests"):
        return start == "ci.tests" or (start.endswith(".tests") and start.split(".")[0] == end.split(".")[0])
    if importer in COMMAND or (end in COMMON and start.split(".")[0] == COMMON[0]):
        return end.split(".")[0] == COMMON[0]
    allowed = ALLOWED.get(start, set())
    return end in allowed or any((end + ".").startswith(one[:-1]) for one in allowed if one.endswith(".*"))


def test_a_room_imports_only_along_the_arrows(edges):
    wrong: dict[tuple[str, str], set[str]] = {}
    new = []
    for edge in edges:
        if may(edge.importer, edge.imported):
            continue
        pair = (room(edge.importer), room(edge.imported))
        inner = edge.imported.removeprefix(pair[1] + ".")
        wrong.setdefault(pair, set()).add(inner)
        if inner not in KNOWN_ARROWS.get(pair, set()):
            new.append(str(edge))
    assert not new, "\n".join(["not along the arrows:", *new])
    assert wrong == KNOWN_ARROWS  # so that mended ones are removed from the list


def test_every_module_of_a_folder_has_a_row(by_name):
    """A new folder in installer/ or lab/, at any depth, is a room: it says in ALLOWED what it may import."""
    folders = {".".join(path.parts[:-1]) for path in relative(by_name) if len(path.parts) > 2}
    ours = {name for name in folders if name.split(".")[0] in ("installer", "lab")}
    assert {name for name in ours if not {"tests", "testing"} & set(name.split("."))} - set(ALLOWED) == set()
    assert {name for name in ALLOWED if name not in by_name} == set()


def test_a_leaf_imports_nothing_of_ours(edges):
    assert [str(edge) for edge in edges if edge.importer in LEAVES] == []


def relative(by_name) -> list[Path]:
    return [path.relative_to(ROOT) for path in by_name.values()]


def test_the_arrows_themselves_have_no_cycle():
    assert loops((start, end) for start, ends in ALLOWED.items() for end in ends) == []


def closing(edges, kinds: set[str], last: str) -> set[tuple[str, str]]:
    """Edges of the kind `last` within a cycle of edges of `kinds`."""
    groups = loops((edge.importer, edge.imported) for edge in edges if edge.kind in kinds)
    return {
        (edge.importer, edge.imported)
        for edge in edges
        if edge.kind == last and any({edge.importer, edge.imported} <= group for group in groups)
    }


def test_there_are_no_import_cycles(edges):
    assert loops((edge.importer, edge.imported) for edge in edges if edge.kind == "now") == []
    assert closing(edges, {"now", "late"}, "late") == KNOWN_LATE_CYCLES
    assert closing(edges, {"now", "late", "typing"}, "typing") == KNOWN_TYPING_CYCLES


def test_no_room_starts_a_module_of_another_by_name(by_name):
    """It runs the other's command instead; tests may replace what they like."""
    paths = {path: True for path in relative(by_name) if "tests" not in path.parts}
    for top in ROOMS:
        scripts = (path for path in (ROOT / top).rglob("*") if path.is_file() and path.suffix in SCRIPTS)
        paths |= {path.relative_to(ROOT): False for path in scripts}
    wrong = set()
    for path, python in paths.items():
        here = ".".join(path.with_suffix("").parts)
        for line, name in named((ROOT / path).read_text(), by_name, python=python):
            if not may(here, name) and not str(path).startswith(PAYLOAD):
                wrong.add((str(path), name))
                print(f"{path}:{line} names {name}")
    assert wrong == KNOWN_NAMES


def test_what_is_started_by_name_can_be_started(by_name):
    """`python -m a.package` wants a __main__ in it: scripts in images say so only when they run."""
    wrong = []
    for top in ROOMS:
        for path in (item for item in (ROOT / top).rglob("*") if item.is_file() and item.suffix in SCRIPTS):
            for line, name in named(path.read_text(), by_name, python=False):
                module = by_name[f"{name}.__main__"] if f"{name}.__main__" in by_name else by_name[name]
                if module.name != "__main__.py" and '__name__ == "__main__"' not in module.read_text():
                    wrong.append(f"{path.relative_to(ROOT)}:{line} starts {name}")
    assert not wrong


def test_what_tests_share_lies_in_kits(edges):
    shared = {edge.imported for edge in edges if edge.imported.rpartition(".")[2].startswith("test_")}
    assert shared == KNOWN_SHARED_TESTS


def test_no_unknown_top_level_folder():
    tracked = {
        p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and not p.name.endswith(".egg-info")
    }
    assert tracked - {"build", "artifacts", "__pycache__"} <= {*ROOMS, "docs"}


@pytest.mark.parametrize(
    ("importer", "imported", "verdict"),
    [
        ("lab.x", "installer.config", False), ("scenarios.x", "installer.config", False),
        ("installer.config.x", "lab.x", False), ("drivers.x", "lab.x", False), ("lab.x", "scenarios.x", False),
        ("lab.release.cluster.x", "lab.y", False), ("lab.release.cluster.x", "lab.release.stage.store", False),
        ("installer.image.x", "installer.create.y", False), ("installer.create.x", "installer.image.y", True),
        ("installer.create.x", "installer.errors", True), ("installer.errors", "installer.create.x", False),
        ("installer.create.x", "installer.cli", False), ("installer.cli", "installer.create.x", True),
        ("installer.errors", "installer.progress", True), ("lab.x", "installer.errors", False),
        ("installer.create.x", "installer.tests.kit", False), ("installer.tests.test_x", "installer.create.y", True),
        ("lab.tests.test_x", "lab.release.cluster.y", True), ("lab.tests.test_x", "installer.create.y", False),
        ("ci.tests.test_x", "installer.create.y", True), ("ci.bench.x", "installer.create.y", False),
        ("scenarios.x", "lab.release.build", True), ("lab.x", "lab.release.cluster.y", False),
    ],
)  # fmt: skip
def test_whether_one_room_may_import_another(importer, imported, verdict):
    assert may(importer, imported) is verdict


def test_all_modules_are_found_and_can_be_parsed(by_name):
    assert len(by_name) > 400
    for path in by_name.values():
        parse(path.read_text())
