"""Exceptions lie in files of errors, `errors.py` of a room; one tree a package."""

import ast
import builtins
from pathlib import Path

import pytest

from ci.imports import modules

ROOT = Path(__file__).parents[3]
ROOMS = ("installer", "drivers", "lab", "scenarios", "ci")
#: Never told to anybody: they end a loop or a process, and are no errors. `_Private` ones stay in their module.
CONTROL = {
    "installer/agent/swarm/run.py:Stopped",
    "installer/signals.py:Ended",
}
#: Modules that lie alone where they run, and so have their own.
ALONE = {
    "lab/release/cluster/yamltext.py:Refused",
    "lab/release/os/coreos_installer.py:InstallError",
}


def exceptions(texts: dict[str, str]) -> dict[str, set[str]]:
    """`path:class` of every exception that is defined, and the exceptions that it is made from, by name."""
    bases = {
        f"{path}:{node.name}": {
            base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in node.bases
        }
        for path, source in texts.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }
    raised = {
        name for name, thing in vars(builtins).items() if isinstance(thing, type) and issubclass(thing, BaseException)
    }
    result: dict[str, set[str]] = {}
    while True:
        # Another library's are known by their names.
        more = {
            name: of
            for name, of in bases.items()
            if name not in result and any(one in raised or one.endswith(("Error", "Exception")) for one in of)
        }
        if not more:
            return result
        result |= more
        raised |= {name.rpartition(":")[2] for name in more}


def sources(*rooms: str) -> dict[str, str]:
    """Texts of all modules, tests and kits aside, by their paths."""
    paths = (path.relative_to(ROOT) for path in modules(ROOT, rooms).values())
    return {str(path): (ROOT / path).read_text() for path in paths if not {"tests", "testing"} & set(path.parts)}


def stray(classes: dict[str, set[str]]) -> set[str]:
    """Those outside of an errors.py that others may meet."""
    public = {name for name in classes if not name.rpartition(":")[2].startswith("_")}
    return {name for name in public if not name.partition(":")[0].endswith("/errors.py")} - CONTROL - ALONE


def test_exceptions_lie_in_files_of_errors():
    classes = exceptions(sources(*ROOMS))
    assert len(classes) > 120
    assert classes.keys() >= CONTROL | ALONE
    assert stray(classes) == set()


@pytest.mark.parametrize(
    ("room", "wanted"),
    [
        ("installer", {"installer/errors.py:InstallerError"}),
        ("drivers", {"drivers/errors.py:DriverError"}),
        ("scenarios", {"scenarios/catalogue/errors.py:ScenarioError"}),
        ("ci", {"ci/errors.py:CiError"}),
        # The release's builders and its cluster's programs run without the lab, and have trees of their own.
        (
            "lab",
            {
                "lab/errors.py:LabError",
                "lab/release/cluster/errors.py:ClusterError",
                "lab/release/stage/errors.py:ReleaseError",
            },
        ),
    ],
)
def test_a_rooms_are_one_tree(room, wanted):
    in_files = {
        name: of for name, of in exceptions(sources(room)).items() if name.partition(":")[0].endswith("/errors.py")
    }
    names = {name.rpartition(":")[2] for name in in_files}
    assert {name for name, of in in_files.items() if not of & names} == wanted


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("class Bad(InstallerError): ...", True),
        ("class Bad(errors.InstallerError): ...", True),
        ("class Bad(ValueError): ...", True),
        ("class Bad(yaml.YAMLError): ...", True),
        ("class Bad(Worse): ...\nclass Worse(OSError): ...", True),
        ("class _Bad(ValueError): ...", False),
        ("class Good: ...", False),
    ],
)
def test_what_counts_as_stray(source, wrong):
    texts = {"installer/errors.py": "class InstallerError(Exception): ...", "installer/x.py": source}
    assert bool(stray(exceptions(texts))) is wrong
