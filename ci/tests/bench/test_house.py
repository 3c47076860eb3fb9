"""`ci/bench/run house`: what is counted of a commit, and two side by side."""

import subprocess
from pathlib import Path

import pytest

from ci.bench import house

FILES = {
    "installer/__init__.py": "",
    "installer/a.py": '"""Reads (docs/page.md)."""\nimport installer.b\n',
    "installer/b.py": "import installer.a\n\n\n",
    "installer/late.py": "def f():\n    import installer.a\n",
    "installer/tests/__init__.py": "",
    "installer/tests/test_a.py": "one\ntwo = 2\n",
    "installer/testing/kit.py": "three = 3\n",
    "lab/c.py": '"""As in docs/absent.md."""\n',
    "ci/tests/test_citations.py": '"""As in docs/made_up.md."""\n',
    "docs/page.md": "# Page\n",
}


@pytest.fixture
def tree(tmp_path):
    """A checkout with a commit."""
    for name, text in FILES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(tmp_path / "checkout"), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "first"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    return tmp_path / "checkout"


def test_a_tree_is_weighed(tree):
    weighed = house.weigh(tree)
    assert (weighed.code, weighed.tests) == (2 + 3 + 2 + 1, 2 + 1 + 1)
    assert weighed.folders == {"installer": 3, "installer/tests": 1, "installer/testing": 1, "lab": 1, "ci/tests": 1}
    assert weighed.cycles == 1
    assert weighed.unresolved == 1, "what is wrong on purpose counts for none"
    rows = dict(weighed.rows())
    assert rows["modules in the fullest folder"] == "3 (installer)"
    assert rows["folders with more than 12 modules"] == "0"


def test_a_commit_is_looked_at_as_it_was(tree, tmp_path):
    (tree / "lab/c.py").write_text("another = 1\n")
    before = house.unpack("first", tmp_path / "before", tree)
    assert (before / "lab/c.py").read_text() == FILES["lab/c.py"]
    assert not (before / ".git").exists()
    with pytest.raises(SystemExit, match="--before nothing: "):
        house.unpack("nothing", tmp_path / "nothing", tree)


def test_columns_stand_side_by_side():
    one, two = [("", "abc"), ("lines", "12345")], [("", "HEAD"), ("lines", "7")]
    assert house.beside([one, two]) == [("", "abc    HEAD"), ("lines", "12345  7")]
    assert house.beside([two]) == [("", "HEAD"), ("lines", "7")]


def test_node0_starts_from_the_checkout_that_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(house, "START_ROUNDS", 1)
    (tmp_path / "installer").mkdir()
    (tmp_path / "installer/cli.py").write_text("import pathlib\n\ndef main(): pathlib.Path('here').touch()\n")
    house.starts([tmp_path])
    assert (Path(tmp_path) / "here").exists()
