"""Exceptions lie in files of errors, `errors.py` of a room; one tree a package."""

import ast
import builtins
import pkgutil

import pytest

from ci.imports import ROOMS, sources
from ci.syntax import nodes

#: Exceptions that end a loop or a process and are no errors. (Names with `_` are private to their module.)
CONTROL = {"installer/agent/swarm/run.py:Stopped", "installer/signals.py:Ended"}
#: Of modules that run without the rest of our code.
STANDALONE = {"lab/release/cluster/yamltext.py:Refused", "lab/release/os/coreos_installer.py:InstallError"}


def origins(source: str) -> dict[str, str]:
    """Qualified names of what a module imports from outside of this repository, by their names in the module."""
    imported: dict[str, str] = {}
    for one in (one for node in nodes(source, ast.Import) for one in node.names):
        top = one.name.partition(".")[0]
        imported[one.asname or top] = one.name if one.asname else top
    for node in nodes(source, ast.ImportFrom):
        if node.module and not node.level:
            imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return {name: whole for name, whole in imported.items() if whole.partition(".")[0] not in ROOMS}


def of_library(base: ast.expr, imported: dict[str, str]) -> bool:
    """Whether a base class is an exception of a library, even if its name does not say so (TimeoutExpired)."""
    first, _, rest = ast.unparse(base).partition(".")
    if first not in imported:
        return False
    try:
        thing = pkgutil.resolve_name(f"{imported[first]}.{rest}".rstrip("."))
    except (ImportError, AttributeError, ValueError):
        return False  # a library that only some machines have
    return isinstance(thing, type) and issubclass(thing, BaseException)


def exceptions(texts: dict[str, str]) -> dict[str, set[str]]:
    """`path:class` of every exception that is defined, and the exceptions that it is made from, by name."""
    bases: dict[str, set[str]] = {}
    raised = {
        name for name, thing in vars(builtins).items() if isinstance(thing, type) and issubclass(thing, BaseException)
    }
    of_libraries: set[str] = set()
    for path, source in texts.items():
        imported = origins(source)
        for node in nodes(source, ast.ClassDef):
            own = f"{path}:{node.name}"
            bases[own] = {base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in node.bases}
            if any(of_library(base, imported) for base in node.bases):
                of_libraries.add(own)
    result: dict[str, set[str]] = {}
    while True:
        # Exceptions of libraries that are not installed here are recognised by their names.
        more = {
            name: of
            for name, of in bases.items()
            if name not in result
            and (name in of_libraries or any(one in raised or one.endswith(("Error", "Exception")) for one in of))
        }
        if not more:
            return result
        result |= more
        raised |= {name.rpartition(":")[2] for name in more}


def stray(classes: dict[str, set[str]]) -> set[str]:
    """Public exceptions that are not in an errors.py."""
    public = {name for name in classes if not name.rpartition(":")[2].startswith("_")}
    return {name for name in public if not name.partition(":")[0].endswith("/errors.py")} - CONTROL - STANDALONE


def test_exceptions_lie_in_files_of_errors():
    classes = exceptions(sources(tests=False))
    assert len(classes) > 120
    assert classes.keys() >= CONTROL | STANDALONE
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
    every = exceptions(sources(room, tests=False))
    in_files = {name: of for name, of in every.items() if name.partition(":")[0].endswith("/errors.py")}
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
        ("import subprocess\nclass Bad(subprocess.TimeoutExpired): ...", True),
        ("from queue import Empty as Nothing\nclass Bad(Nothing): ...", True),
        ("import threading\nclass Good(threading.Thread): ...", False),
        ("class _Bad(ValueError): ...", False),
        ("class Good: ...", False),
    ],
)
def test_which_exceptions_are_stray(source, wrong):
    texts = {"installer/errors.py": "class InstallerError(Exception): ...", "installer/x.py": source}
    assert bool(stray(exceptions(texts))) is wrong
