"""containers-registries.conf(5), version 2, as far as it says where images are pulled from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from installer.common.formats import tomltext


@dataclass(frozen=True)
class Registry:
    """One [[registry]]; texts are empty where they are not given. `mirrors`: the location of each."""

    location: str = ""
    prefix: str = ""
    mirrors: tuple[str, ...] = ()
    blocked: bool = False

    @property
    def source(self) -> str:
        """Return the prefix of its images' names, a wildcard for the host if that is `*.<domain>`."""
        return self.prefix or self.location

    @property
    def rewrites(self) -> bool:
        """Return whether images come from another place than their names say, mirrors apart."""
        return self.location not in ("", self.source)

    @property
    def places(self) -> tuple[str, ...]:
        """List the places that images come from instead of where their names say, in this order."""
        return (*self.mirrors, self.location) if self.rewrites and not self.blocked else self.mirrors


def registries(data: bytes | str) -> tuple[Registry, ...]:
    """All [[registry]] of a file, in order. Raises ValueError, one line, for what is no such file."""
    return tuple(
        Registry(
            _text(entry, "location", f"registry {index}"),
            _text(entry, "prefix", f"registry {index}"),
            tuple(_text(mirror, "location", f"a mirror of registry {index}") for mirror in _tables(entry, "mirror")),
            entry.get("blocked") is True,
        )
        for index, entry in enumerate(_tables(tomltext.loads(data), "registry"))
    )


def _tables(table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    tables = table.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(entry, dict) for entry in tables):
        raise ValueError(f"{key} is not a list of tables")
    return tables


def _text(table: dict[str, Any], key: str, what: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} of {what} is not a text")
    return value
