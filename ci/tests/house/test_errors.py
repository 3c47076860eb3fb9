"""One tree of exceptions a package, in one file: the installer's is InstallerError's, in `errors.py` of its rooms."""

import ast
import builtins
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Never told to anybody: they end a loop or a process, and are no errors. `_Private` ones stay in their module.
CONTROL = {
    "installer/agent/swarm/run.py:Stopped",
    "installer/signals.py:Ended",
}


def exceptions(sources: dict[str, str]) -> dict[str, set[str]]:
    """`path:class` of every exception that is defined, and the exceptions that it is made from, by name."""
    bases = {
        f"{path}:{node.name}": {
            base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in node.bases
        }
        for path, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }
    raised = {
        name for name, thing in vars(builtins).items() if isinstance(thing, type) and issubclass(thing, BaseException)
    }
    result: dict[str, set[str]] = {}
    while True:
        more = {name: of for name, of in bases.items() if name not in result and of & raised}
        if not more:
            return result
        result |= more
        raised |= {name.rpartition(":")[2] for name in more}


def installer() -> dict[str, str]:
    paths = (path.relative_to(ROOT) for path in (ROOT / "installer").rglob("*.py"))
    return {str(path): (ROOT / path).read_text() for path in paths if not {"tests", "testing"} & set(path.parts)}


def stray(found: dict[str, set[str]]) -> set[str]:
    """Those outside of an errors.py that others may meet."""
    public = {name for name in found if not name.rpartition(":")[2].startswith("_")}
    return {name for name in public if not name.partition(":")[0].endswith("/errors.py")} - CONTROL


def test_the_installers_exceptions_lie_in_its_files_of_errors():
    found = exceptions(installer())
    assert len(found) > 50
    assert found.keys() >= CONTROL
    assert stray(found) == set()


def test_they_are_one_tree():
    in_files = {
        name: of for name, of in exceptions(installer()).items() if name.partition(":")[0].endswith("/errors.py")
    }
    names = {name.rpartition(":")[2] for name in in_files}
    roots = {name for name, of in in_files.items() if not of & names}
    assert roots == {"installer/errors.py:InstallerError"}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("class Bad(InstallerError): ...", True),
        ("class Bad(errors.InstallerError): ...", True),
        ("class Bad(ValueError): ...", True),
        ("class Bad(Worse): ...\nclass Worse(OSError): ...", True),
        ("class _Bad(ValueError): ...", False),
        ("class Good: ...", False),
    ],
)
def test_what_counts_as_stray(source, wrong):
    sources = {"installer/errors.py": "class InstallerError(Exception): ...", "installer/x.py": source}
    assert bool(stray(exceptions(sources))) is wrong
