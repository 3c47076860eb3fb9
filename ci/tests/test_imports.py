"""Who imports whom, read from the syntax: what the test of arrows rests on."""

import pytest

from ci.imports import imports, loops, named

MODULES = {"a", "a.b", "a.b.c", "a.d", "installer", "installer.x", "lab.y"}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import a.b.c", [("a.b.c", "now")]),
        ("from a import d, nothing", [("a", "now"), ("a.d", "now")]),
        ("from a.b import thing", [("a.b", "now")]),
        ("from . import d", [("a.d", "now")]),
        ("from .b.c import thing as t", [("a.b.c", "now")]),
        ("def f():\n    import a.d", [("a.d", "late")]),
        ("class C:\n    import a.d", [("a.d", "now")]),
        ("try:\n    import a.d\nexcept ImportError:\n    pass", [("a.d", "now")]),
        ("try:\n    pass\nfinally:\n    with x:\n        import a.d", [("a.d", "now")]),
        ("try:\n    pass\nexcept E:\n    for x in y:\n        import a.d", [("a.d", "now")]),
        ("for x in y:\n    pass\nelse:\n    match z:\n        case 1:\n            import a.d", [("a.d", "now")]),
        ("if TYPE_CHECKING:\n    import a.d\nelse:\n    import a.b", [("a.d", "typing"), ("a.b", "now")]),
        ("if typing.TYPE_CHECKING:\n    from a import d", [("a.d", "typing")]),
        ("import json", []),
    ],
)
def test_an_import_is_seen(source, wanted):
    assert [(edge.imported, edge.kind) for edge in imports("a.x", source, MODULES)] == wanted


def test_a_package_imports_relative_to_itself():
    assert [edge.imported for edge in imports("a.b", "from . import c\nfrom .. import d", MODULES, package=True)] == [
        "a.b.c",
        "a.d",
    ]


def test_circles_are_found():
    assert loops([("a", "b"), ("b", "c")]) == []
    assert loops([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f"), ("f", "e")]) == [
        {"a", "b", "c"},
        {"e", "f"},
    ]


@pytest.mark.parametrize(
    ("source", "python", "wanted"),
    [
        ('run([sys.executable, "-m", "installer.x"])', True, [(1, "installer.x")]),
        ('run("python3 -u -m installer.x serve", shell=True)', True, [(1, "installer.x")]),
        ('importlib.import_module("installer.x")', True, [(1, "installer.x")]),
        ('TARGET = "installer.x.function"', True, [(1, "installer.x")]),
        ('"""`python -m installer.x` is a command."""', True, []),
        ('x = "installer"', True, []),
        ('import_module(f"installer.{name}.y")', True, [(1, "installer")]),
        ('importlib.import_module("installer." + name)', True, [(1, "installer")]),
        ('__import__("installer")', True, [(1, "installer")]),
        ('import_module("installer.nothing." + name)', True, []),
        ('print(f"installer. {name}")', True, []),
        ("#!/bin/sh\nexec python3 -m installer.x\n", False, [(2, "installer.x")]),
        ('podman run --entrypoint python3 "$IMAGE" -u \\\n    -m installer.x\n', False, [(2, "installer.x")]),
        ("# python3 -m installer.x\n", False, []),
    ],
)
def test_a_module_started_by_name_is_seen(source, python, wanted):
    assert list(named(source, MODULES, python=python)) == wanted
