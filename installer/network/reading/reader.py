"""Reading a document field by field: every value is checked where it is taken, and what nobody took is refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from installer.common.formats.composer import shown_name
from installer.network.errors import Problem
from installer.network.reading import values

log = logging.getLogger(__name__)

T = TypeVar("T")

_U32 = (1 << 32) - 1
# Other field names are quoted in a path: they are the user's, and may hold anything.
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]{0,60}")
_BOOLEAN_RULE = "must be true or false"


def _plain_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


class Problems:
    """Collects what is wrong, so that the user sees all of it at once."""

    def __init__(self) -> None:
        self.all: list[Problem] = []
        self._unreadable: set[str] = set()

    def add(self, path: str, value: Any, rule: str, *, unreadable: bool = False) -> None:
        """Note a problem; `value` is shortened for display, and not shown if it is None or may be secret.

        Further problems of what is `unreadable`, and of what would be in it, follow from this one and are not noted.
        """
        if self.covers(path):
            return
        shown = "" if values.may_be_secret(path, value) else values.describe(value)
        self.all.append(Problem(path, shown, rule))
        if unreadable:
            self._unreadable.add(path)

    def covers(self, path: str) -> bool:
        """Return whether the value at this path, or one that it is in, cannot be read."""
        return any(path == top or path.startswith((f"{top}.", f"{top}[")) for top in self._unreadable if top)


class Fields:
    """One mapping of the document. Call `close` when all are taken.

    As in nmstate, null counts as absent, but for switches and numbers that are not plain, and what `refuse_null` names.
    """

    def __init__(self, source: Any, path: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self._source: dict[str, Any] = {}
        self._seen: set[str] = set()
        if not isinstance(source, Mapping):
            problems.add(path, source, "must be a mapping of fields", unreadable=True)
            return
        for key, value in source.items():
            if isinstance(key, str):
                self._source[key] = value
            else:
                problems.add(path, key, "field names must be text")

    def at(self, name: str) -> str:
        """Return the path of a field of this mapping."""
        shown = name if _PLAIN.fullmatch(name) else values.describe(shown_name(name))
        return f"{self.path}.{shown}" if self.path and name else self.path or shown

    def problem(self, name: str, value: Any, rule: str, *, unreadable: bool = False) -> None:
        """Note a problem with a field of this mapping (see `Problems.add`)."""
        self.problems.add(self.at(name), value, rule, unreadable=unreadable)

    def raw(self, name: str, *aliases: str) -> Any:
        """Return the value unchecked, or None; `aliases` are other names of the field, of which only one may be
        given."""
        self._seen.update((name, *aliases))
        names = [key for key in (name, *aliases) if self._source.get(key) is not None]
        if len(names) > 1:
            self.problem(names[1], self._source[names[1]], f"is another name for {names[0]}, which is given too")
        return self._source[names[0]] if names else None

    def has(self, name: str) -> bool:
        """Return whether the field is there and not null."""
        return self._source.get(name) is not None

    def refuse_null(self, *names: str) -> None:
        """Note a problem with each of the fields that is there and null."""
        for name in names:
            if name in self._source and self._source[name] is None:
                self.problem(name, None, "must not be null", unreadable=True)

    def names(self) -> list[str]:
        """Return the names of the fields given, for mappings whose keys are free; counts them all as taken."""
        self._seen.update(self._source)
        return list(self._source)

    def _take(self, name: str, aliases: tuple[str, ...], read: Callable[[Any], T | None], rule: str) -> T | None:
        value = self.raw(name, *aliases)
        if value is None:
            return None
        result = read(value)
        if result is None:
            self.problem(name, value, rule, unreadable=True)
        return result

    def required(self, name: str) -> bool:
        """Note a problem when the field is missing; returns whether it is there."""
        if not self.has(name):
            self._seen.add(name)
            self.problem(name, None, "is required", unreadable=True)
            return False
        return True

    def boolean(self, name: str, *aliases: str, plain: bool = False) -> bool | None:
        """true/false in any of nmstate's spellings. `plain`: as nothing but these, and null counts as absent."""
        if not plain:
            self.refuse_null(name, *aliases)
        read = _plain_boolean if plain else values.boolean
        return self._take(name, aliases, read, f"{_BOOLEAN_RULE}{', in no other spelling' if plain else ''}")

    def integer(self, name: str, *aliases: str, low: int = 0, high: int = _U32, plain: bool = False) -> int | None:
        """Return a whole number between `low` and `high`, inclusive, or its text. `plain`: no text, null counts as
        absent."""
        if not plain:
            self.refuse_null(name, *aliases)
        rule = f"must be a whole number between {low} and {high}{', without quotes' if plain else ''}"

        def read(value: Any) -> int | None:
            return None if plain and isinstance(value, str) else values.integer(value, low, high)

        return self._take(name, aliases, read, rule)

    def text(
        self, name: str, *aliases: str, rule: str = "", check: Callable[[str], bool] | None = None, shown: bool = True
    ) -> str | None:
        """Text on one line without blanks at its ends; `check` may narrow it, `rule` says how. Empty text is None.

        `shown`: whether a problem shows the value.
        """
        value = self.raw(name, *aliases)
        if value is None or value == "":
            return None
        result = values.clean_text(value)
        if result is None:
            rule = "must be text (quoted) on one line, without blanks at its ends"
            rule = rule if shown else f"{rule} (value not shown)"
            self.problem(name, value if shown else None, rule, unreadable=True)
        elif check is not None and not check(result):
            self.problem(name, value, rule, unreadable=True)
            return None
        return result

    def remark(self, name: str) -> str | None:
        """Text for people only: what a profile cannot hold is left out, with a warning."""
        value = self.raw(name)
        if value is None or value == "":
            return None
        result = values.clean_text(value)
        if result is None and not isinstance(value, str):
            self.problem(name, value, "must be text (quoted)")
        elif result is None:
            log.warning("%s is left out: a profile has room for text on one line only", self.at(name))
        return result

    def secret(self, name: str) -> str | None:
        """As `text`, but a problem never shows the value."""
        return self.text(name, shown=False)

    def choice(self, name: str, options: Mapping[Any, str] | tuple[str, ...], *aliases: str) -> str | None:
        """One of `options`; a mapping gives for each accepted spelling (text or number) what it stands for."""
        table = options if isinstance(options, Mapping) else {option: option for option in options}
        rule = "must be one of " + ", ".join(dict.fromkeys(table.values()))

        def read(value: Any) -> str | None:
            if not isinstance(value, str | int) or isinstance(value, bool):
                return None
            return next((meant for key, meant in table.items() if value in (key, str(key))), None)

        return self._take(name, aliases, read, rule)

    def interface(self, name: str) -> str | None:
        """Return the name of an interface."""
        return self._take(name, (), values.interface_name, values.interface_rule(self.raw(name)))

    def mac(self, name: str, *, infiniband: bool = False) -> str | None:
        """Return a MAC address, in upper case."""
        return self._take(name, (), lambda value: values.mac(value, infiniband=infiniband), values.MAC_RULE)

    def address(self, name: str) -> values.Address | None:
        """Return an IP address of either family."""
        # Not through _take: its type variable would lose the union of the two families.
        value = self.raw(name)
        result = None if value is None else values.address(value)
        if value is not None and result is None:
            self.problem(name, value, "must be an IP address", unreadable=True)
        return result

    def table(self, name: str, *aliases: str) -> Fields | None:
        """Return a mapping inside this one."""
        value = self.raw(name, *aliases)
        return None if value is None else Fields(value, self.at(name), self.problems)

    def items(self, name: str, *aliases: str) -> Iterator[tuple[str, Any]]:
        """(path, value) of each member of a list."""
        value = self.raw(name, *aliases)
        if value is None:
            return
        if not isinstance(value, list | tuple):
            self.problem(name, value, "must be a list", unreadable=True)
            return
        for index, member in enumerate(value):
            yield f"{self.at(name)}[{index}]", member

    def tables(self, name: str, *aliases: str) -> Iterator[Fields]:
        """Each member of a list of mappings."""
        for path, member in self.items(name, *aliases):
            yield Fields(member, path, self.problems)

    def interfaces(self, name: str, *aliases: str) -> Iterator[tuple[str, str]]:
        """(path, name) of each member of a list of interface names that is well-formed."""
        for path, member in self.items(name, *aliases):
            if (good := values.interface_name(member)) is not None:
                yield path, good
            else:
                self.problems.add(path, member, values.interface_rule(member))

    def ignore(self, *names: str) -> None:
        """Fields that nmstate knows and that say nothing about the profile (read-only facts of `nmstatectl show`)."""
        self._seen.update(names)

    def refuse(self, name: str, rule: str) -> None:
        """Refuse a field that nmstate knows and that is not supported here."""
        if self.raw(name) is not None:
            self.problem(name, self._source[name], rule)

    def without_effect(self, name: str, why: str) -> None:
        """Warn of a field that nmstate takes and that makes no part of a profile: the network comes up all the same."""
        if self.raw(name) is not None:
            log.warning("%s has no effect: %s", self.at(name), why)

    def close(self) -> None:
        """Refuses every field that was not taken."""
        for name, value in self._source.items():
            if name not in self._seen:
                self.problem(name, value, "unknown field")
