"""What a module calls `_x` is its own. What others need of it has a name without an underscore; or, for tests, a kit.

The list only shrinks: a file that reaches further, or one that is not in it, fails, and so does one that reaches less.
"""

import ast

from ci.imports import sources
from ci.syntax import nodes

#: Module -> how often it names a private part of another.
ALLOWED: dict[str, int] = {
    # Libraries, which have no other way to it:
    "ci/mutation/measure.py": 1,  # pytest: the test for which a fixture of its module is made
    "drivers/redfish/fujitsu.py": 3,  # sushy: a request to a resource that it has no class for
    "drivers/redfish/service.py": 2,  # sushy: the same, and whether the environment's proxies count
    "installer/release/download.py": 1,  # hashlib: the type of what it makes, as typeshed calls it
    "lab/commands/completion.py": 1,  # argparse: a parser's own arguments
    # Our own modules:
    "installer/tests/assisted/test_restclient.py": 1,  # headers: the token among them is nobody's to read
    # Steps of builds of minutes, which another name would make anew:
    "lab/tests/release/cluster/fencing/test_setup.py": 1,
    "lab/tests/release/os/test_clock.py": 1,
    "lab/tests/release/test_keys.py": 2,
}
#: What is called so, and meant for all: of `os`, `sys`, and every NamedTuple.
FOR_ALL = {"_exit", "_getframe", "_replace", "_asdict", "_fields"}


#: Functions and methods that take a part by its name, in a string.
BY_NAME = ("getattr", "setattr", "delattr", "hasattr", "patch", "object")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def in_words(call: ast.Call) -> str:
    """The part that a call names in a string (`getattr(a, "_b")`, `patch("a._b")`), an empty text without any."""
    if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) not in BY_NAME:
        return ""
    texts = [one.value for one in call.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return texts[0].rpartition(".")[2] if texts else ""


def reaches(source: str) -> int:
    """How often private parts of others are named: `other._x`, `from other import _x`, `setattr(other, "_x", y)`; not
    what is defined here."""
    attributes = [node for node in nodes(source, ast.Attribute) if is_private(node.attr)]
    own = {
        *FOR_ALL,
        *(node.name for node in nodes(source, ast.FunctionDef)),
        *(node.name for node in nodes(source, ast.AsyncFunctionDef)),
        *(node.name for node in nodes(source, ast.ClassDef)),
        *(node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")),
        *(node.target.id for node in nodes(source, ast.AnnAssign) if isinstance(node.target, ast.Name)),
    }
    named = [node.attr for node in attributes]
    named += [name for name in map(in_words, nodes(source, ast.Call)) if is_private(name)]
    imported = [alias.name for node in nodes(source, ast.ImportFrom) for alias in node.names]
    return sum(name not in own for name in named) + sum(map(is_private, imported))


def test_nobody_reaches_into_private_parts() -> None:
    uses = {path: reaches(source) for path, source in sources().items()}
    assert {path: count for path, count in uses.items() if count} == ALLOWED


def test_what_counts_as_a_reach() -> None:
    assert reaches("import a\na._b(a.c, a.__d__)\nfrom a import _e, f\n") == 2
    assert reaches("class A:\n    def _b(self): self._c = 1\n\ndef test(a): a._b(); a._c") == 0
    assert reaches('getattr(a, "_b")\nmonkeypatch.setattr(a, "_c", 1)\nmock.patch("a._d")\npatch.object(a, "_e")') == 4
    assert reaches('getattr(a, "b")\nfind(a, "_c")\nmonkeypatch.setattr("a.b", _c)\ndel a["_d"]') == 0
    assert reaches("class A:\n    _b: int\n\ndef f(a): a._b; a._replace(c=1)") == 0
