"""Citations of pages, sections, rules and decisions resolve (CONTRIBUTING.md, "Citations"). Paths in pages exist, whole
or by their ends; so do modules in comments and docstrings, whole or by their ends within the same top folder. Files of
other programs are cited as `program:path`."""

import functools
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from ci.citations import MADE_UP, ROOM_PAGES, ROOT, Checker, check, comments, python_blocks
from ci.imports import modules
from ci.pages import Library, slug

PAGES = {
    "docs/reference/installer.md": "# I\n## 1. Files\n### 1.2 rules\n| 1 | a |\n| 12 | b |\n### 1.3 more\n### 1.4 x\n"
    "## 7. Flow\n| 18b | x |\n## 10. Pain\n1. **A**\n",
    "docs/reference/cluster.md": "# C\n## 2. Bootstrap\n```\n## 3. not one\n```\n",
    "docs/design.md": "# D\n## The house\n### Decision 1: The seam\n",
}
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci", "docs")
#: The reference tells of other programs' files.
DOCS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_BAR = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([\w.][\w./{},*-]*)`")
_MODULE = re.compile(r"(?<![\w./:*{}-])(?:[\w.-]+/)*\w+\.py\b")


@pytest.fixture
def checker(tmp_path: Path) -> Checker:
    for name, text in PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Checker(Library(tmp_path))


def test_every_citation_resolves():
    problems, count = check()
    assert not problems, "\n".join(["", *problems])
    assert count > 400  # or the search does not find them


@pytest.mark.parametrize(
    "text",
    [
        "installer.md §1.2", "reference/installer.md §1.2, §7", "installer.md §1.2 to §1.4", "installer.md §1.2-1.4",
        "(§1.3)", "rule 12", "rules 1, 12 and 12", "§1.2 rule 12", "§7, row 18b", "§7 step 18b", "§10 no. 1",
        "design.md, decision 1", 'design.md, "The house"', "cluster.md §2, installer.md §1",
        "RFC 9110 §14.2, §15", "ECMA-119 §8.4 (descriptors)", "docs/design.md", "no citation",
    ],
)  # fmt: skip
def test_citations_that_resolve(checker, text):
    assert checker.file("installer/x.py", f'"""{text}."""\n') == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("installer.md §1.9", "installer.md has no §1.9"),
        ("installer.md §1.2 to §1.6", "installer.md has no §1.5, §1.6"),
        ("installer.md §1.4 to §1.2", "§1.4 to §1.2 is no range"),
        ("cluster.md §3", "cluster.md has no §3"),
        ("cluster.md §2, §7", "cluster.md has no §7"),
        ("gone.md §3", "gone.md: no such page"),
        ("docs/gone.md", "docs/gone.md: no such page"),
        ("§8", "installer.md has no §8"),
        ("rule 13", "rule 13: not in installer.md §1.2"),
        ("Rules 11 to 12", "rule 11: not in installer.md §1.2"),
        ("§7, row 9", "installer.md §7 has no row 9"),
        ("row 9", "row 9: of which section?"),
        ("design.md, decision 2", "decision 2: not in design.md"),
        ('design.md, "The lab"', 'design.md: no heading "The lab"'),
        ("RFC 9110 §14.2 and installer.md §9", "installer.md has no §9"),
        ("As cluster.md §2 has it.\n\nSee §1", "§1: of installer.md or of cluster.md, named before?"),
    ],
)
def test_citations_that_do_not_resolve_are_reported(checker, text, why):
    line = 1 + text.count("\n")
    assert checker.file("installer/x.py", f'"""{text}."""\n') == [f"installer/x.py:{line}: {why}"]


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("installer/x.py", "a = 1\nb = 2  # §9\n", 2),
        ("installer/x.py", "# one\n# §9\na = 1\n", 2),
        ("installer/x.py", 'def f():\n    """One.\n\n    Two (§9).\n    """\n', 4),
        ("installer/x.py", 'print(f"see §9 of {a}")\n', 1),
        ("installer/data/x.sh", "#!/bin/sh\necho hi\n# §9\n", 3),
        ("installer/data/x.service", "[Unit]\nDescription=x §9\n", 2),
        ("docs/x.md", "# X\n\ninstaller.md §9\n", 3),
        ("docs/reference/installer.md", "# X\n\n| a | see §9 |\n", 3),
        ("drivers/x.c", "/* installer.md §9 */\n", 1),
    ],
)
def test_every_kind_of_file_is_searched(checker, path, text, line):
    assert [problem.rpartition(":")[0] for problem in checker.file(path, text)] == [f"{path}:{line}"]


def test_code_and_plain_strings_cite_nothing(checker):
    text = 'rules = "rule 99"\nshell = """\n# row 99\n"""\n'
    assert checker.file("installer/x.py", text) == []
    assert checker.checked == 0


@pytest.mark.parametrize("module", ["ci/citations.py", "ci/tests/house/test_citations.py"])
def test_comments_are_those_that_python_sees(module):
    hard = 'a = "#" # "b"\nb = r"\\" # c\nc = """#\n\'#"""  # d\nd = \'\\\'#\' # e\ne = "" # f\nf = f"{a!r}#"\n'
    for source in (hard, (ROOT / module).read_text()):
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        seen = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        assert seen
        assert list(comments(source)) == seen


def test_links_lead_to_files_and_headings(checker):
    good = "[a](design.md) [b](design.md#the-house) [c](#here) [d](https://a.example/x#y)\n# Here\n"
    (checker.library.root / "docs/x.md").write_text(good)
    assert Checker(Library(checker.library.root)).file("docs/x.md", good) == []
    bad = "[a](gone.md)\n\n[b](design.md#gone)\n\n```\n[c](gone.md)\n```\n"
    assert checker.file("docs/x.md", bad) == [
        "docs/x.md:1: link to gone.md: no such file",
        "docs/x.md:3: link to design.md#gone: no such heading",
    ]


def test_anchors_are_those_of_github():
    assert slug("2.2 `create` of a/b: it's [x](y.md)") == "22-create-of-ab-its-x"


def test_contributing_has_the_pages_of_the_rooms():
    documented = re.findall(r"^\| `([\w/]+)` \| ([\w-]+\.md) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert dict(documented) == ROOM_PAGES


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference").glob("[a-z]*.md")), ids=lambda page: page.name)
def test_a_reference_page_says_where_its_facts_are_from(page):
    """In its first paragraphs, which also have the key of each repository that is cited as `KEY:path`."""
    text = page.read_text()
    top = text[: text.index("\n## ", text.index("\n## ") + 1)] if text.count("\n## ") > 1 else text
    assert re.search(r"(?i)sources|commits|run and measured|generator|documentation|where from", top)
    used = set(re.findall(r"`([A-Z][A-Z0-9]{1,4}):[a-z][\w-]*/", text))
    assert used <= set(re.findall(r"[`\"]([A-Z0-9]+)(?::`|\")", top))


@functools.cache
def existing_paths() -> set[str]:
    """Paths of all tracked files and their folders, whole and their ends."""
    argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = {place for name in names if name for place in (Path(name), *Path(name).parents)}
    return {"/".join(path.parts[start:]) for path in paths for start in range(len(path.parts))}


def paths_in(text: str) -> set[str]:
    """Paths in a page's code spans: of Python modules, and of anything else in a room."""
    paths = set()
    for token in _CODE.findall(text):
        before, options, after = re.fullmatch(r"(.*?)(?:\{(.*)\})?([^{}]*)", token).groups()
        for path in (before + option + after for option in (options or "").split(",")):
            if "*" not in path and (path.endswith(".py") or (path.split("/")[0] in ROOMS and "/" in path)):
                paths.add(path.rstrip("/"))
    return paths


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_paths_in_a_page_exist(page):
    assert paths_in(page.read_text()) - existing_paths() == set()


def test_pages_name_paths():
    assert len({path for page in DOCS for path in paths_in(page.read_text())}) > 100


def test_which_words_are_paths():
    text = "`lab/x/`, `a/{b,c}.py`, `lab`, `auth/token`, `x.py`, `lab/*.py` and `installer/errors.py`"
    assert paths_in(text) == {"lab/x", "a/b.py", "a/c.py", "x.py", "installer/errors.py"}


def modules_in_comments(path: str, source: str) -> set[str]:
    """Modules that a Python file's comments and docstrings name."""
    if ".py" not in source:
        return set()
    return {name for block in python_blocks(path, source) for name in _MODULE.findall(block.text)}


def missing_modules(path: str, source: str, places: set[str], of_room: dict[str, set[str]]) -> set[str]:
    """The modules that a file names and that do not exist."""
    near = of_room.get(Path(path).parts[0], set())
    return {name for name in modules_in_comments(path, source) if name not in near and name not in places}


def test_modules_in_comments_exist():
    tracked = {str(path.relative_to(ROOT)) for path in modules(ROOT, ROOMS[:-1]).values()}
    of_room: dict[str, set[str]] = {}
    for name in tracked:
        parts = Path(name).parts
        of_room.setdefault(parts[0], set()).update("/".join(parts[start:]) for start in range(len(parts)))
    wrong = {name: missing_modules(name, (ROOT / name).read_text(), tracked, of_room) for name in tracked - {MADE_UP}}
    assert {name: names for name, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("# as in x.py", set()),
        ('"""As room/x.py and lab/y.py have it."""', set()),
        ("# gone.py, and (lab/x.py)", {"gone.py", "lab/x.py"}),
        ("# y.py is another top folder's", {"y.py"}),
        ("# program:resources/z.py", set()),
        ("open('gone.py')", set()),
    ],
)
def test_which_words_are_modules(source, wrong):
    places = {"installer/room/x.py", "lab/y.py"}
    of_room = {"installer": {"installer/room/x.py", "room/x.py", "x.py"}, "lab": {"lab/y.py", "y.py"}}
    assert missing_modules("installer/a.py", source, places, of_room) == wrong


def uneven(text: str) -> list[str]:
    """The rows of a page's tables that have more or fewer cells than their heads; code blocks apart."""
    lines: list[str] = []
    cells = 0
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            cells = 0
            continue
        count = len(_BAR.findall(line))
        cells = cells or count
        if count != cells or line.startswith("||"):
            lines.append(line)
    return lines


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_rows_of_tables_are_as_wide_as_their_heads(page: Path) -> None:
    assert uneven(page.read_text()) == []


@pytest.mark.parametrize(
    ("row", "is_wrong"),
    [
        ("| a | b |", False),
        ("|| a | b |", True),
        ("|| a |", True),
        ("| a |", True),
        ("| `a\\|b` | c |", False),
        ("| | b |", False),
    ],
)
def test_an_uneven_row_is_found(row: str, is_wrong: bool) -> None:
    assert uneven(f"| x | y |\n| --- | --- |\n{row}\n\n```\n|| x\n```\n") == [row] * is_wrong
