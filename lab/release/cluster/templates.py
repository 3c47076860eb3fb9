"""The text templates under data/, read as package data (they travel inside the zipapp too)."""

from __future__ import annotations

from importlib import resources
from string import Template


def text(name: str) -> str:
    """Return a data file as it is."""
    return (resources.files("lab.release.cluster") / "data" / name).read_text()


def fill(name: str, **values: str) -> str:
    """Return a data file with every ``$name`` replaced; ``$$`` stands for a dollar sign. KeyError when a value is
    missing."""
    return Template(text(name)).substitute(values)
