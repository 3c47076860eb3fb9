"""The text templates of data/, as package data (they are in the zipapp too)."""

from __future__ import annotations

from importlib import resources
from string import Template


def text(name: str) -> str:
    """Return a data file as it is."""
    return (resources.files("lab.release.cluster") / "data" / name).read_text()


def fill(name: str, **values: str) -> str:
    """Fill a data file's ``$name``s in; ``$$`` stands for a dollar sign. Raises KeyError for a missing value."""
    return Template(text(name)).substitute(values)
