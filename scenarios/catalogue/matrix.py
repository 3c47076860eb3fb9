"""The table of installations (matrix.yaml): what is installed, and how often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import pytest

from lab.release.cluster import yamltext
from lab.topology import BootWay
from scenarios.catalogue.errors import MatrixError
from scenarios.catalogue.ids import GRAMMAR, id_of, topology_of, words_of
from scenarios.catalogue.variants import FEATURES

TABLE = Path(__file__).with_name("matrix.yaml")
Runs = Literal["gate", "nightly", "weekly"]
#: The value of the dimension `variant` for a scenario that has none.
PLAIN = "none"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

#: What may vary, by name, and its values: the words of an id, and `variant`.
DIMENSIONS: dict[str, tuple[str, ...]] = {
    **GRAMMAR,
    "boot": get_args(BootWay),
    "variant": (PLAIN, *FEATURES),
}


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

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: want words of lower-case letters and digits joined by -")
        if self.minutes < 1:
            raise ValueError(f"minutes {self.minutes}: less than 1")
        if unknown := [word for word in self.variants if word not in FEATURES]:
            raise ValueError(f"variants: {unknown[0]!r} is not one of {', '.join(FEATURES)}")
        topology_of(self.id)

    @property
    def id(self) -> str:
        """The scenario's id."""
        return id_of(self.topology, self.boot, self.variants)

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """How often it runs, in what, and what the public client (discovery-iso) may warn of."""
        often = {"nightly": [pytest.mark.nightly], "weekly": [pytest.mark.weekly]}
        own = [pytest.mark.vm(self.vm)] if self.vm else []
        if self.boot == "discovery-iso":
            own.append(pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"))
        return [*often.get(self.runs, []), *own]

    def values(self) -> dict[str, tuple[str, ...]]:
        """Its values of each dimension; only of variants there may be several."""
        return values_of(self.id)


def values_of(scenario_id: str) -> dict[str, tuple[str, ...]]:
    """An id's values of each dimension."""
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
    """The table. Raises MatrixError with all that is wrong, each with its row."""
    document = yamltext.load(text) or {}
    problems, rows = [], []
    for number, entry in enumerate(document.pop("rows", None) or []):
        label = entry.get("name", number) if isinstance(entry, dict) else number
        try:
            rows.append(msgspec.convert(entry, Row))
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(f"{source}: {label}: {error}")
    for field in ("name", "id"):
        twice = [name for name, count in Counter(getattr(row, field) for row in rows).items() if count > 1]
        problems += [f"{source}: {field} {name}: is there twice" for name in twice]
    matrix = Matrix(())
    try:
        matrix = msgspec.convert({"rows": [], **document}, Matrix)
    except msgspec.ValidationError as error:
        problems.append(f"{source}: {error}")
    for name, values in matrix.waiting.items():
        problems += [
            f"{source}: waiting.{name}: {value!r} is not one of {', '.join(DIMENSIONS.get(name, ()))}"
            for value in values
            if value not in DIMENSIONS.get(name, ())
        ]
        problems += [
            f"{source}: waiting.{name}.{value}: {row.name} has it"
            for value in values
            for row in rows
            if value in row.values().get(name, ())
        ]
    if problems:
        raise MatrixError("\n".join(problems))
    return Matrix(tuple(rows), matrix.waiting)


MATRIX = load(TABLE.read_bytes())
_BY_ID = {row.id: row for row in MATRIX.rows}


def row_of(scenario_id: str) -> Row | None:
    """The row of an id; None for a scenario that is not in the table."""
    return _BY_ID.get(scenario_id)


def params(chosen: Callable[[Row], Any] = lambda _: True) -> list[Any]:
    """The ids of these rows, as parameters of tests, with their marks."""
    return [pytest.param(row.id, marks=row.marks) for row in MATRIX.rows if chosen(row)]
