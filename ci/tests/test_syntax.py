"""Syntax that is read once: what `ast` itself says, and nothing is kept for longer than it is wanted."""

import ast
import gc
from pathlib import Path

import pytest

from ci import syntax

SOURCES = ["", "a = [b for b, *c in d if e]\n", Path(__file__).read_text()]


@pytest.mark.parametrize("source", SOURCES, ids=["empty", "line", "module"])
def test_nodes_are_those_that_ast_walk_finds_in_its_order(source):
    with syntax.kept():
        tree = syntax.parse(source)
        assert ast.dump(tree) == ast.dump(ast.parse(source))
        assert syntax.walk(tree) == [*ast.walk(tree)]
        for kinds in ((ast.Name,), (ast.comprehension, ast.Assign), (ast.Yield,)):
            wanted = [node for kind in kinds for node in ast.walk(tree) if isinstance(node, kind)]
            assert syntax.nodes(source, *kinds) == wanted


def test_a_source_is_read_once_until_all_is_forgotten():
    with syntax.kept():
        tree = syntax.parse("a = 1")
        assert not gc.isenabled()
        assert syntax.parse("a = 1") is tree is syntax.nodes("a = 1", ast.Module)[0]
    assert gc.isenabled()
    assert syntax.parse("a = 1") is not tree
