"""Up to four positional parameters, of functions and of constructors; what comes after them is given by its name
(CONTRIBUTING.md, "Style").
"""

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from ci.imports import sources
from ci.syntax import nodes

MOST = 4
#: Classes that take more: rows of tables, which are read by column, and those of lab/release, where each change of the
#: code is a new build. The list only shrinks.
BY_POSITION = {
    "ci/bench/oracle/service/requests.py Request",
    "installer/rendezvous/states/cluster.py Row",
    "installer/rendezvous/states/host.py Row",
    "lab/release/build.py Release",
    "lab/release/cluster/controller/command.py Request",
    "lab/release/cluster/controller/servicereport.py Target",
    "lab/release/cluster/fencing/agent.py Plan",
    "lab/release/cluster/fencing/host.py Etcd",
    "lab/release/cluster/installconfig.py FencingCredential",
    "lab/release/cluster/installconfig.py InstallConfig",
    "lab/release/cluster/kube/conditions.py Work",
    "lab/release/cluster/nodes/probes.py View",
    "lab/release/cluster/openshift_install/bootstrap.py Inputs",
    "lab/release/cluster/openshift_install/command.py Assets",
    "lab/release/cluster/pki/tls.py Leaf",
    "lab/release/cluster/pods/assets.py Host",
    "lab/release/cluster/pods/pod.py StaticPod",
    "lab/release/components.py Component",
    "lab/release/image/layer.py Layer",
    "lab/release/image/oci.py Image",
    "lab/release/images.py Layers",
    "lab/release/kubernetes.py Inputs",
    "lab/release/os/build.py Inputs",
    "lab/release/os/build.py MachineOS",
    "lab/release/os/media/disk.py Partition",
    "lab/release/os/rootfs.py Inputs",
    "lab/release/registry.py RegistryConfig",
    "lab/release/variants.py Variant",
}


def called_by_pytest(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a test or a fixture: pytest gives parameters by name."""
    return function.name.startswith("test_") or any("fixture" in ast.unparse(one) for one in function.decorator_list)


def too_many(source: str) -> Iterator[str]:
    """Functions with more than MOST positional parameters (`self` and `cls` not counted), as `name (count)`."""
    for node in (*nodes(source, ast.FunctionDef), *nodes(source, ast.AsyncFunctionDef)):
        if not called_by_pytest(node):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > MOST:
                yield f"{node.name} ({count})"


def test_no_function_has_more_than_four_positional_parameters():
    assert [f"{path}: {name}" for path, source in sources().items() for name in too_many(source)] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(a, b, c, d, e): ...", ["f (5)"]),
        ("def f(a, b, c, d, *, e): ...", []),
        ("def f(a, /, b, c, d, e): ...", ["f (5)"]),
        ("class A:\n    def f(self, a, b, c, d): ...\n    async def g(self, a, b, c, d, e): ...", ["g (5)"]),
        ("def outer():\n    def f(a, b, c, d, e, f): ...", ["f (6)"]),
        ("def test_f(a, b, c, d, e): ...", []),
        ("@pytest.fixture(scope='module')\ndef f(a, b, c, d, e): ...", []),
    ],
)
def test_functions_with_too_many_parameters_are_found(source, names):
    assert list(too_many(source)) == names


def aliases(source: str) -> dict[str, str]:
    """The names of dataclass, Struct, NamedTuple and KW_ONLY in a module, which may import them under aliases."""
    names = {name: name for name in ("dataclass", "Struct", "NamedTuple", "KW_ONLY")}
    for node in nodes(source, ast.ImportFrom):
        names |= {one.asname: one.name for one in node.names if one.asname and one.name in names}
    return names


def decorators_and_bases(kind: ast.ClassDef, names: dict[str, str]) -> set[str]:
    """Decorators and bases of a class, by the last part of their names, aliases resolved."""
    last_words = (ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in (*kind.decorator_list, *kind.bases))
    return {names.get(word, word) for word in last_words}


def structs(texts: Iterable[str]) -> set[str]:
    """Names of all classes that are derived from Struct, directly or not."""
    struct_names = {"Struct"}
    classes: list[tuple[str, set[str]]] = []
    for source in texts:
        names = aliases(source)
        classes += [(node.name, decorators_and_bases(node, names)) for node in nodes(source, ast.ClassDef)]
    while True:
        more = {name for name, bases in classes if bases & struct_names} - struct_names
        if not more:
            return struct_names
        struct_names |= more


def positional_fields(kind: ast.ClassDef, names: dict[str, str], ours: set[str]) -> int | None:
    """How many values a dataclass, Struct or NamedTuple takes by position, without those that it inherits; None where
    the class is none of these."""
    if not decorators_and_bases(kind, names) & ({"dataclass", "NamedTuple"} | ours):
        return None
    parameters = [
        *kind.keywords,
        *(word for one in kind.decorator_list if isinstance(one, ast.Call) for word in one.keywords),
    ]
    if any(one.arg == "kw_only" and ast.unparse(one.value) == "True" for one in parameters):
        return 0
    count = 0
    for field in kind.body:
        if isinstance(field, ast.AnnAssign):
            declaration = ast.unparse(field)
            if any(names.get(word) == "KW_ONLY" for word in re.findall(r"\w+", ast.unparse(field.annotation))):
                break
            count += "ClassVar" not in declaration and "init=False" not in declaration
    return count


def large(source: str, ours: set[str]) -> Iterator[str]:
    """Classes whose constructors take more than MOST values by position."""
    names = aliases(source)
    for node in nodes(source, ast.ClassDef):
        if (positional_fields(node, names, ours) or 0) > MOST:
            yield node.name


def test_no_constructor_takes_more_than_four_values_by_position():
    texts = sources()
    ours = structs(texts.values())
    assert {"Body", "Private"} <= ours
    assert {f"{path} {name}" for path, source in texts.items() for name in large(source, ours)} == BY_POSITION


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("@dataclass\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int = 0", ["A"]),
        ("@dataclass(kw_only=True)\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", []),
        ("@dataclass\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    _: KW_ONLY\n    e: int", []),
        ("@dataclass\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: ClassVar[int] = 0", []),
        ("@dataclass\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int = field(init=False)", []),
        ("class A(msgspec.Struct, frozen=True):\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", ["A"]),
        ("class A(msgspec.Struct, kw_only=True):\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", []),
        ("class A(NamedTuple):\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", ["A"]),
        ("@dataclass(kw_only=False)\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", ["A"]),
        (
            "from dataclasses import KW_ONLY as rest, dataclass as record\n"
            "@record\nclass A:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int\n"
            "@record\nclass B:\n    a: int\n    b: int\n    _: rest\n    c: int\n    d: int\n    e: int",
            ["A"],
        ),
        (
            "class Own(msgspec.Struct, kw_only=True):\n    x: int\nclass Further(Own): ...\n"
            "class A(Further):\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int",
            ["A"],
        ),
        ("class A(Protocol):\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int", []),
    ],
)
def test_constructors_with_too_many_parameters_are_found(source, names):
    assert list(large(source, structs([source]))) == names
