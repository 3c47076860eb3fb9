"""The table of installations (matrix.yaml): what is installed, and how often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from installer.common.formats import YamlError, yamltext
from lab.errors import TopologyError
from lab.topology import BootWay, FieldsError
from scenarios.catalogue.errors import MatrixError
from scenarios.catalogue.ids import GRAMMAR, id_of, topology_of, words_of
from scenarios.catalogue.variants import FEATURES

if TYPE_CHECKING:
    import pytest

TABLE = Path(__file__).with_name("matrix.yaml")
Runs = Literal["gate", "nightly", "weekly"]
#: The value of the dimension `variant` for a scenario that has none.
PLAIN = "none"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

#: What may vary, by name, and its values: the words of an id, and `variant`.
DIMENSIONS: dict[str, tuple[str, ...]] = {**GRAMMAR, "boot": get_args(BootWay), "variant": (PLAIN, *FEATURES)}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One installation: matrix.yaml says what the fields mean. `minutes` is for each command that waits."""

    name: str
    topology: str
    runs: Runs
    variants: tuple[str, ...] = ()
    boot: BootWay = "iso"
    minutes: int = 60
    vm: str = ""
    thorough: bool = False

    def problems(self) -> Iterator[str]:
        """List its problems, a line each."""
        if not _NAME.fullmatch(self.name):
            yield f"name {self.name!r}: want words of lower-case letters and digits joined by -"
        if self.minutes < 1:
            yield f"minutes {self.minutes}: less than 1"
        unknown = [word for word in self.variants if word not in FEATURES]
        for word in unknown:
            yield f"variants: {word!r} is not one of {', '.join(FEATURES)}"
        twice = [word for word, count in Counter(self.variants).items() if count > 1]
        yield from (f"variants: {word} is there twice" for word in twice)
        valid = tuple(word for word in dict.fromkeys(self.variants) if word not in unknown)
        try:
            topology_of(id_of(self.topology, self.boot, valid))
        except (FieldsError, TopologyError, ValueError) as error:
            yield from (f"topology {self.topology!r}: {line}" for line in str(error).splitlines())

    @property
    def id(self) -> str:
        """The scenario's id."""
        return id_of(self.topology, self.boot, self.variants)

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Return marks for how often it runs, in what, and what the public client (discovery-iso) may warn of."""
        import pytest  # a third of what node0-ci loads, which asks for no marks

        often = {"nightly": [pytest.mark.nightly], "weekly": [pytest.mark.weekly]}
        own = [pytest.mark.vm(self.vm)] if self.vm else []
        if self.boot == "discovery-iso":
            own.append(pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"))
        return [*often.get(self.runs, []), *own]

    def values(self) -> dict[str, tuple[str, ...]]:
        """Its values of each dimension; only of variants there may be several."""
        return values_of(self.id)


def values_of(scenario_id: str) -> dict[str, tuple[str, ...]]:
    """Return an id's values of each dimension."""
    words = words_of(scenario_id)
    values = {name: (str(getattr(words, name)),) for name in DIMENSIONS if name != "variant"}
    return values | {"variant": words.variants or (PLAIN,)}


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table: its rows, and for values of dimensions that none has yet, what is missing."""

    rows: tuple[Row, ...]
    waiting: dict[str, dict[str, str]] = {}

    def uncovered(self, runs: Iterable[Runs] = ("gate", "nightly")) -> Iterator[tuple[str, str]]:
        """(dimension, value) for each value that no row has that runs this often."""
        seen = {
            (name, value) for row in self.rows if row.runs in runs for name, of in row.values().items() for value in of
        }
        for name, values in DIMENSIONS.items():
            yield from ((name, value) for value in values if (name, value) not in seen)


def load(text: str | bytes, source: str = TABLE.name) -> Matrix:
    """Return the table. Raises MatrixError with all that is wrong, each with its row."""
    try:
        document = yamltext.load(text, alone=True)
    except YamlError as error:
        raise MatrixError(f"{source}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        raise MatrixError(f"{source}: want a mapping with a list of rows")
    problems: list[str] = []
    rows: list[Row] = []
    names: list[str] = []
    for number, entry in enumerate(document.pop("rows")):
        label = entry.get("name", number) if isinstance(entry, dict) else number
        names += [label] if isinstance(label, str) else []
        try:
            row = msgspec.convert(entry, Row)
        except msgspec.ValidationError as error:
            problems.append(f"{source}: {label}: {error}")
            continue
        row_problems = [f"{source}: {label}: {line}" for line in row.problems()]
        problems += row_problems
        rows += [] if row_problems else [row]
    for field, values in (("name", names), ("id", [row.id for row in rows])):
        twice = [name for name, count in Counter(values).items() if count > 1]
        problems += [f"{source}: {field} {name}: is there twice" for name in twice]
    matrix = Matrix(())
    try:
        matrix = msgspec.convert({"rows": [], **document}, Matrix)
    except msgspec.ValidationError as error:
        problems.append(f"{source}: {error}")
    for name, waiting in matrix.waiting.items():
        problems += (
            [f"{source}: waiting.{name} is not one of {', '.join(DIMENSIONS)}"] if name not in DIMENSIONS else []
        )
        problems += [
            f"{source}: waiting.{name}: {value!r} is not one of {', '.join(DIMENSIONS.get(name, ()))}"
            for value in waiting
            if name in DIMENSIONS and value not in DIMENSIONS[name]
        ]
        problems += [
            f"{source}: waiting.{name}.{value}: {row.name} has it"
            for value in waiting
            for row in rows
            if value in row.values().get(name, ())
        ]
    if problems:
        raise MatrixError("\n".join(problems))
    return Matrix(tuple(rows), matrix.waiting)


@cache
def table() -> Matrix:
    """Return the table of the repository, read once, when it is first asked for; the caller reports what is wrong with
    it."""
    return load(TABLE.read_bytes())


@cache
def _by_id() -> dict[str, Row]:
    return {row.id: row for row in table().rows}


def row_of(scenario_id: str) -> Row | None:
    """Return the row of an id; None for a scenario that is not in the table."""
    return _by_id().get(scenario_id)


def params(chosen: Callable[[Row], Any] = lambda _: True) -> list[Any]:
    """Return the ids of these rows, as parameters of tests, with their marks."""
    import pytest

    return [pytest.param(row.id, marks=row.marks) for row in table().rows if chosen(row)]
