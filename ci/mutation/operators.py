"""Which changes are made to a module: every mutant is its source, parsed, with one place of the tree changed.

Not changed: docstrings, annotations, imports, decorators, a class's keywords, ``TYPE_CHECKING`` and ``__main__``
blocks, ``__repr__``, ``__all__``, what is logged and at which level, and the wording of errors (strings within a
``raise`` or in a call of an exception).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LOGGERS = {"log", "logger", "logging", "LOG", "_log"}
ERRORS = ("Error", "Exception", "Refused", "Invalid")
Change = tuple[str, Callable[[ast.AST], ast.AST]]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: where it is (lines of the source) and what it is in words; ``number`` counts them in a module."""

    path: str
    number: int
    line: int
    end_line: int
    what: str
    #: Names that this binds when the module is imported, by which its users are found; none for code that runs later.
    bound: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class _Site:
    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    bound: tuple[str, ...]
    wording: bool
    #: Statements may be removed here; expressions of an f-string have no lines of their own.
    line: int
    end_line: int


def _is_log(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in LOGGERS
    )


def _is_logger(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("getLogger")


def _is_error(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1].endswith(ERRORS)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal) or _is_docstring(node):
        return True
    if _is_log(node) or _is_logger(node):
        return True
    if isinstance(node, ast.If) and ("TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test)):
        return True
    if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
        return True
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _bound_by(node: ast.AST, outer: tuple[str, ...]) -> tuple[str, ...]:
    """Names by which others use what this statement defines; a field counts with its class."""
    if isinstance(node, ast.Assign):
        return tuple(n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)) + outer
    if isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name):
        return (node.target.id, *outer)
    if isinstance(node, ast.ClassDef):
        return (node.name, *outer)
    return outer


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """Every node that may be changed, in the source's order."""

    def visit(
        node: ast.AST, bound: tuple[str, ...], runs: bool, wording: bool, *, line: int, end: int
    ) -> Iterator[_Site]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "ctx", "type_comment"):
                continue
            if isinstance(node, ast.ClassDef) and field in ("bases", "keywords"):
                continue
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if not isinstance(child, ast.AST) or _skipped(child):
                    continue
                at = getattr(child, "lineno", line) if not isinstance(node, ast.JoinedStr) else line
                until = getattr(child, "end_lineno", end) or end if not isinstance(node, ast.JoinedStr) else end
                function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                defaults = function and field == "args"
                later = runs or (function and field == "body") or isinstance(node, ast.Lambda)
                names = (
                    () if later else (node.name, *bound) if defaults else _bound_by(child, bound)  # type: ignore[attr-defined]
                )
                words = wording or _is_error(child)
                yield _Site(
                    node=child,
                    parent=node,
                    field=field,
                    index=index if isinstance(value, list) else None,
                    bound=names,
                    wording=words,
                    line=at,
                    end_line=until,
                )
                yield from visit(child, names, later, words, line=at, end=until)

    yield from visit(tree, (), False, False, line=1, end=1)


def _constant(node: ast.Constant, site: _Site) -> Iterator[Change]:
    value = node.value
    replacements: list[object] = []
    if isinstance(value, bool):
        replacements = [not value]
    elif isinstance(value, int | float):
        replacements = [value + 1, value - 1]
    elif isinstance(value, str | bytes) and not site.wording:
        mark = "XX" if isinstance(value, str) else b"XX"
        replacements = [mark + value + mark if value else mark]  # type: ignore[operator]
    elif value is None and not isinstance(site.parent, ast.Compare):
        replacements = [1]
    for new in replacements:
        yield f"{value!r} -> {new!r}", lambda _, new=new: ast.Constant(new)  # type: ignore[misc]


def _plain_test(node: ast.expr) -> bool:
    """Is negating this condition among what is done to the condition itself?"""
    return isinstance(node, ast.Compare | ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _negated(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), node)


def _replace_field(name: str, make: Callable[[ast.AST], object]) -> Callable[[ast.AST], ast.AST]:
    def change(node: ast.AST) -> ast.AST:
        setattr(node, name, make(node))
        return node

    return change


def _without(name: str, index: int) -> Callable[[ast.AST], ast.AST]:
    return _replace_field(name, lambda node: [item for at, item in enumerate(getattr(node, name)) if at != index])


def _expression(site: _Site) -> Iterator[Change]:
    node = site.node
    if isinstance(node, ast.Constant):
        yield from _constant(node, site)
    elif isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for new in COMPARE[type(op)]:
                yield (
                    f"{type(op).__name__} -> {new.__name__}",
                    _replace_field(
                        "ops",
                        lambda n, at=at, new=new: [new() if i == at else o for i, o in enumerate(n.ops)],  # type: ignore[misc]
                    ),
                )
    elif isinstance(node, ast.BoolOp):
        new_op = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} -> {new_op.__name__}", _replace_field("op", lambda _: new_op())
        for at, value in enumerate(node.values):
            yield (
                f"dropped `{ast.unparse(value)}`",
                lambda n, at=at: (
                    n.values[1 - at] if len(n.values) == 2 else ast.BoolOp(n.op, n.values[:at] + n.values[at + 1 :])
                ),  # type: ignore[misc]
            )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "dropped not", lambda n: n.operand  # type: ignore[attr-defined]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "dropped minus", lambda n: n.operand  # type: ignore[attr-defined]
    elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        other = BINARY[type(node.op)]
        yield f"{type(node.op).__name__} -> {other.__name__}", _replace_field("op", lambda _: other())
    elif isinstance(node, ast.IfExp) and not _plain_test(node.test):
        yield "negated the condition", _replace_field("test", lambda n: _negated(n.test))  # type: ignore[attr-defined]
    elif isinstance(node, ast.comprehension):
        for at, test in enumerate(node.ifs):
            yield f"dropped `if {ast.unparse(test)}`", _without("ifs", at)
    elif isinstance(node, ast.Call):
        for at, keyword in enumerate(node.keywords):
            if keyword.arg and not (site.wording and isinstance(keyword.value, ast.JoinedStr)):
                yield f"dropped keyword {keyword.arg}", _without("keywords", at)
        if ast.unparse(node.func).split(".")[-1] == "suppress":
            for at, arg in enumerate(node.args):
                yield f"no longer suppresses {ast.unparse(arg)}", _without("args", at)


def _statement(site: _Site) -> Iterator[Change]:
    node = site.node

    def gone(_: ast.AST) -> ast.AST:
        return ast.Pass()

    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await | ast.Yield):
        yield f"removed `{_short(node)}`", gone
    elif isinstance(node, ast.Raise | ast.Delete | ast.Assert | ast.AugAssign):
        yield f"removed `{_short(node)}`", gone
        if isinstance(node, ast.AugAssign) and type(node.op) in BINARY:
            other = BINARY[type(node.op)]
            yield f"{type(node.op).__name__}= -> {other.__name__}=", _replace_field("op", lambda _: other())
    elif isinstance(node, ast.Assign) and not any(isinstance(t, ast.Name) for t in node.targets):
        if not any(isinstance(target, ast.Tuple) for target in node.targets):
            yield f"removed `{_short(node)}`", gone
    elif isinstance(node, ast.Return):
        if node.value is None:
            yield "removed return", gone
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield f"`{_short(node)}` -> return None", lambda _: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Continue):
        yield "continue -> break", lambda _: ast.Break()
    elif isinstance(node, ast.Break):
        yield "break -> continue", lambda _: ast.Continue()
    elif isinstance(node, ast.If | ast.While):
        if not _plain_test(node.test):
            yield f"negated `{ast.unparse(node.test)}`", _replace_field("test", lambda n: _negated(n.test))  # type: ignore[attr-defined]
    elif isinstance(node, ast.ExceptHandler) and node.type is not None:
        if isinstance(node.type, ast.Tuple):
            for at, kind in enumerate(node.type.elts):
                yield (
                    f"except without {ast.unparse(kind)}",
                    _replace_field(
                        "type",
                        lambda n, at=at: ast.Tuple(  # type: ignore[misc]
                            [e for i, e in enumerate(n.type.elts) if i != at], ast.Load()
                        ),
                    ),
                )
        else:
            yield (
                f"except without {ast.unparse(node.type)}",
                _replace_field("type", lambda _: ast.Tuple([], ast.Load())),
            )


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) < 70 else text[:67] + "..."


def _changes(tree: ast.Module) -> Iterator[tuple[_Site, Change]]:
    for site in _sites(tree):
        for change in (*_statement(site), *_expression(site)):
            yield site, change


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the source's order."""
    return [
        Mutant(path=path, number=number, line=site.line, end_line=site.end_line, what=what, bound=site.bound)
        for number, (site, (what, _)) in enumerate(_changes(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> str:
    """The module's source with its mutant ``number`` in it; comments and layout are lost."""
    tree = ast.parse(source)
    site, (_, change) = next(itertools.islice(_changes(tree), number, None))
    new = change(site.node)
    if site.index is None:
        setattr(site.parent, site.field, new)
    else:
        getattr(site.parent, site.field)[site.index] = new
    return ast.unparse(ast.fix_missing_locations(tree))
