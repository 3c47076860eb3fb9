"""Names with an underscore are used in their own module only. What others need has another name or, for tests, a kit.

The list of exceptions only shrinks: it has the exact number of each module.
"""

import ast

import pytest

from ci.imports import sources
from ci.syntax import nodes

#: How often a module names private attributes of others.
ALLOWED: dict[str, int] = {
    # Of libraries that have no public way:
    "drivers/redfish/fujitsu.py": 3,  # sushy: a request to a resource that it has no class for
    "drivers/redfish/service.py": 2,  # sushy: the same, and whether the environment's proxies count
    "installer/release/download.py": 1,  # hashlib: the type of what it makes, as typeshed calls it
    "lab/commands/completion.py": 1,  # argparse: a parser's own arguments
    # Of our own modules:
    "installer/tests/assisted/test_restclient.py": 1,  # headers: the token among them is nobody's to read
    # Steps of builds of minutes, which another name would make anew:
    "lab/tests/release/cluster/fencing/test_setup.py": 1,
    "lab/tests/release/os/test_clock.py": 1,
    "lab/tests/release/test_keys.py": 2,
}
#: Public in spite of the underscore: functions of `os` and `sys`, and what every NamedTuple has.
PUBLIC = {"_exit", "_getframe", "_replace", "_asdict", "_fields"}


#: Functions and methods that take an attribute's name as a string.
BY_NAME = ("getattr", "setattr", "delattr", "hasattr", "patch", "object")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def named_in_string(call: ast.Call) -> str:
    """The attribute that a call names in a string (`getattr(a, "_b")`, `patch("a._b")`); empty if it names none."""
    if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) not in BY_NAME:
        return ""
    texts = [one.value for one in call.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return texts[0].rpartition(".")[2] if texts else ""


def private_uses(source: str) -> int:
    """How often private names of other modules occur: `other._x`, `from other import _x`, `setattr(other, "_x", y)`."""
    attributes = [node for node in nodes(source, ast.Attribute) if is_private(node.attr)]
    own = {
        *PUBLIC,
        *(node.name for node in nodes(source, ast.FunctionDef)),
        *(node.name for node in nodes(source, ast.AsyncFunctionDef)),
        *(node.name for node in nodes(source, ast.ClassDef)),
        *(node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")),
        *(node.target.id for node in nodes(source, ast.AnnAssign) if isinstance(node.target, ast.Name)),
    }
    named = [node.attr for node in attributes]
    named += [name for name in map(named_in_string, nodes(source, ast.Call)) if is_private(name)]
    imported = [alias.name for node in nodes(source, ast.ImportFrom) for alias in node.names]
    return sum(name not in own for name in named) + sum(map(is_private, imported))


def test_nobody_uses_private_names_of_others() -> None:
    uses = {path: private_uses(source) for path, source in sources().items()}
    assert {path: count for path, count in uses.items() if count} == ALLOWED


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import a\na._b(a.c, a.__d__)\nfrom a import _e, f\n", 2),
        ("class A:\n    def _b(self): self._c = 1\n\ndef test(a): a._b(); a._c", 0),
        ('getattr(a, "_b")\nmonkeypatch.setattr(a, "_c", 1)\nmock.patch("a._d")\npatch.object(a, "_e")', 4),
        ('getattr(a, "b")\nfind(a, "_c")\nmonkeypatch.setattr("a.b", _c)\ndel a["_d"]', 0),
        ("class A:\n    _b: int\n\ndef f(a): a._b; a._replace(c=1)", 0),
    ],
)
def test_which_uses_are_counted(source: str, count: int) -> None:
    assert private_uses(source) == count
