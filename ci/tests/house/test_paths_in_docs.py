"""Files and folders of this repository that its pages name are there: by their whole path, or by the end of one."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci", "docs")
#: The reference tells of other programs' files.
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_CODE = re.compile(r"`([\w.][\w./{},*-]*)`")


def there() -> set[str]:
    """Every tracked file and its folders, and the ends of their paths."""
    argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = {place for name in names if name for place in (Path(name), *Path(name).parents)}
    return {"/".join(path.parts[start:]) for path in paths for start in range(len(path.parts))}


def named(text: str) -> set[str]:
    """Paths that a page names: Python modules wherever they lie, else what lies in a room."""
    paths = set()
    for token in _CODE.findall(text):
        before, options, after = re.fullmatch(r"(.*?)(?:\{(.*)\})?([^{}]*)", token).groups()
        for path in (before + option + after for option in (options or "").split(",")):
            if "*" not in path and (path.endswith(".py") or (path.split("/")[0] in ROOMS and "/" in path)):
                paths.add(path.rstrip("/"))
    return paths


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    assert named(page.read_text()) - there() == set()


def test_pages_name_paths():
    assert len({path for page in PAGES for path in named(page.read_text())}) > 100


def test_what_counts_as_a_path():
    text = "`lab/x/`, `a/{b,c}.py`, `lab`, `auth/token`, `x.py`, `lab/*.py` and `installer/errors.py`"
    assert named(text) == {"lab/x", "a/b.py", "a/c.py", "x.py", "installer/errors.py"}
