"""Modules of up to 400 lines, folders of up to a dozen modules, and all of them in the picture of rooms.

CONTRIBUTING.md, "Style"; docs/architecture.md, "Rooms within rooms".
"""

import re
from pathlib import Path

import pytest

from ci.imports import modules

ROOT = Path(__file__).parents[3]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
LINES, MODULES = 400, 12
PICTURE = "docs/architecture.md"


@pytest.fixture(scope="module")
def paths() -> list[Path]:
    return [path.relative_to(ROOT) for path in modules(ROOT, ROOMS).values()]


def unnamed(folders: set[Path], page: str) -> set[str]:
    """Folders that the page's picture of rooms does not name; those of tests are laid out as what they test."""
    picture = page.split("## Rooms within rooms", 1)[1].split("```")[1]
    named = set(re.findall(r"[\w-]+", picture))
    return {str(one) for one in folders if "tests" not in one.parts and one.name not in named}


def test_modules_are_of_a_length_that_one_reads(paths):
    assert {str(path) for path in paths if len((ROOT / path).read_text().splitlines()) > LINES} == set()


def test_folders_hold_about_a_dozen_modules(paths):
    names = [str(path.parent) for path in paths if path.name != "__init__.py"]
    assert {name: names.count(name) for name in names if names.count(name) > MODULES} == {}


def test_the_picture_names_all_rooms(paths):
    assert unnamed({path.parent for path in paths}, (ROOT / PICTURE).read_text()) == set()


def test_a_room_that_is_not_in_the_picture_is_seen():
    page = "a cellar\n## Rooms within rooms\n```\nlab/  lab.py\n├─ host  this machine\n```\nthe attic"
    folders = {Path("lab"), Path("lab/host"), Path("lab/cellar"), Path("lab/attic"), Path("lab/tests/x")}
    assert unnamed(folders, page) == {"lab/cellar", "lab/attic"}
