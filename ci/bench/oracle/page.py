"""docs/differences.md: the classes of differences that it names, and how they compare with those found.

A class is a row of a table below a heading that begins with "Inputs": its name in bold, what openshift-install does,
what node0 does, why. classes.py has the patterns of the differences that belong to each class.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.bench.oracle.classes import CLASSES, class_of

PAGE = Path(__file__).parents[3] / "docs/differences.md"
_ROW = re.compile(r"^\| \*\*([a-z0-9-]+)\*\* \|(.*)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Sorted:
    """Inputs by class, and, of differences that are in no class, by shape."""

    classes: Mapping[str, Collection[str]]
    unknown: Mapping[str, Collection[str]]


def named(text: str) -> dict[str, list[str]]:
    """The classes that a page names, each with its other cells."""
    return {match[1]: [cell.strip() for cell in match[2].split("|")] for match in _ROW.finditer(text)}


def sort(differences: Mapping[str, Collection[str]]) -> Sorted:
    """Differences by class; `differences` are those of each input, by its name."""
    classes: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for name, shapes in differences.items():
        for shape in shapes:
            belongs = class_of(shape)
            place = unknown.setdefault(shape, []) if belongs is None else classes.setdefault(belongs, [])
            if name not in place:
                place.append(name)
    return Sorted(classes, unknown)


def problems(text: str, differences: Sorted, *, whole: bool = True) -> list[str]:
    """What the page and the comparison do not agree about, one line each.

    `whole`: whether all inputs were compared; of some only, it is no fault that a class does not occur.
    """
    page, classes = named(text), differences.classes
    lines = [f"{name}: named on the page without a reason" for name, cells in page.items() if not all(cells)]
    lines += [f"{name}: found in {len(classes[name])} inputs, not on the page" for name in classes.keys() - page]
    lines += [f"{name}: on the page, and nothing says what belongs to it" for name in page.keys() - CLASSES.keys()]
    if whole:
        lines += [f"{name}: on the page, and no longer found" for name in page.keys() & CLASSES.keys() - classes.keys()]
        lines += [f"{name}: no longer found, nor on the page" for name in CLASSES.keys() - page.keys() - classes.keys()]
    for shape, names in differences.unknown.items():
        lines.append(f"in no class, in {len(names)} inputs: {shape}\n    as in {next(iter(names))}")
    return sorted(lines)
