"""YAML is read in one room: everywhere else PyYAML may write, but not read."""

import ast

import pytest

from ci.syntax import nodes, sources

READERS = {
    "installer/common/formats/composer.py",
    "installer/common/formats/yamltext.py",
}
# PyYAML's functions and classes that read, by name.
READS = ("load", "safe_load", "full_load", "unsafe_load", "parse", "compose", "scan", "Loader", "Parser", "Composer")
# Modules that read only YAML of their own or of the installers that they compare.
OWN = {
    "scenarios/testing/cluster.py",
    "ci/bench/oracle/compare.py",
    "ci/bench/oracle/inputs/cases.py",
}


def readers(source: str) -> set[str]:
    """Return the lines of a module that read YAML, each with its name."""
    found = set()
    for attribute in nodes(source, ast.Attribute):
        match attribute:
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name):
                if name.endswith("Loader") or name.removesuffix("_all") in READS:
                    found.add(f"{attribute.lineno}: yaml.{name}")
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="msgspec"), attr="yaml"), attr="decode"):
                found.add(f"{attribute.lineno}: msgspec.yaml.decode")
    for plain in nodes(source, ast.Import):
        for alias in plain.names:
            if (alias.name == "yaml" and alias.asname) or alias.name.startswith(("ruamel", "oyaml")):
                found.add(f"{plain.lineno}: import {alias.name}")
    for node in nodes(source, ast.ImportFrom):
        for name in (f"{node.module}.{alias.name}" for alias in node.names):
            if name.split(".")[0] in ("yaml", "ruamel") or name in ("msgspec.yaml", "msgspec.yaml.decode"):
                found.add(f"{node.lineno}: from {node.module} import {name.rpartition('.')[2]}")
    return found


def test_no_other_module_reads_yaml():
    others = {path: source for path, source in sources(tests=False).items() if path not in READERS | OWN}
    assert [f"{path}:{line}" for path, source in others.items() for line in readers(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import yaml\nyaml.safe_load(x)",
        "import yaml\nlist(yaml.load_all(x, Loader=L))",
        "import yaml\nyaml.compose(x)",
        "import yaml\nyaml.parse(x)",
        "import yaml\nclass L(yaml.CSafeLoader): ...",
        "from yaml import safe_load",
        "import yaml as y",
        "import ruamel.yaml",
        "import msgspec\nmsgspec.yaml.decode(x)",
        "from msgspec import yaml\nyaml.decode(x)",
        "from msgspec.yaml import decode",
    ],
)
def test_reading_is_found(source):
    assert readers(source)


def test_writing_is_allowed():
    assert not readers("import yaml\nyaml.safe_dump(x)\nyaml.YAMLError\nyaml.ScalarNode")
