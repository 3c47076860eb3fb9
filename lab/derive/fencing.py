"""Two control plane nodes that fence each other: which of them each credential is for."""

from __future__ import annotations

from collections.abc import Sequence

from lab.derive.fields import Field, label

_TWO = 2


def names(masters: Sequence[str], credentials: Field) -> tuple[str, ...]:
    """The names of the masters; those without one have that of a credential that is left. How many credentials there
    have to be is for the installer to say."""
    entries = credentials.items()
    if len(masters) != _TWO or len(entries) != _TWO:
        return tuple(masters)
    places = [place for entry in entries if (place := entry.get("hostName"))]
    free = {name: place for place in places if (name := label(place.text())) not in masters}
    found = tuple(name or _taken(free) for name in masters)
    for place in free.values():
        place.wrong(f"{place.text()} is neither of the control plane nodes, {' and '.join(found)}")
    return found


def _taken(free: dict[str, Field]) -> str:
    """One of the names, which is free no more; empty where there is none."""
    name = next(iter(free), "")
    free.pop(name, None)
    return name
