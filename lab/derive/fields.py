"""Values of the user's files with the places where they stand, and all that is wrong with them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lab.errors import ConfigsError

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAC = re.compile(r"[0-9a-f]{12}")
#: How many interfaces, ports or hosts are looked at: more than anybody has, and few enough to be planned at once.
MOST = 256
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
#: How else nmstate reads a truth (nmstate.md §3).
_TRUTHS = {"1": True, "true": True, "yes": True, "on": True, "y": True} | {
    "0": False, "false": False, "no": False, "off": False, "n": False,
}  # fmt: skip


@dataclass
class Problems:
    """What is wrong, in the order in which it was noted: `lines` has a file and a line for each."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def add(self, source: str, where: str, rule: str) -> None:
        """Note one, unless it is noted already."""
        problem = (source, f"{where}: {rule}" if where else rule)
        if problem not in self.lines:
            self.lines.append(problem)

    def raise_if_any(self) -> None:
        """Raise ConfigsError with all of them, if there are any."""
        if self.lines:
            raise ConfigsError(self.lines)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A value and its place: the file and the path in it. Methods ask for it as a type; where it is of another, a
    problem is noted.

    With `nmstate`, numbers and truths may stand in quotes, as in a network document.
    """

    value: Any = field(repr=False)
    source: str
    path: str
    problems: Problems
    nmstate: bool = False

    def as_nmstate(self) -> Field:
        """The same as a part of a network document."""
        return replace(self, nmstate=True)

    def wrong(self, rule: str) -> None:
        """Note that it breaks a rule."""
        self.problems.add(self.source, self.path, rule)

    @property
    def noted(self) -> bool:
        """Whether a problem of it, or of anything in it, is noted already."""
        return any(source == self.source and line.startswith(self.path) for source, line in self.problems.lines)

    def __bool__(self) -> bool:
        """Whether anything stands there."""
        return self.value not in (None, "", [], {})

    def map(self) -> Mapping[str, Any]:
        """The mapping that it is; empty when it is missing or none."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            self.wrong(f"must be a mapping, is {type(self.value).__name__}")
            return {}
        return self.value

    def has(self, name: str) -> bool:
        """Whether it has a field of this name, even an empty one."""
        return isinstance(self.value, Mapping) and name in self.value

    def get(self, *names: str) -> Field:
        """The field of a field and so on; one that is missing has the value None.

        As Go reads JSON, a name in other letters' case counts where the right one is missing; not so in NMState.
        """
        reached = self
        for name in names:
            fields, path = reached.map(), f"{reached.path}.{name}" if reached.path else name
            if not reached.nmstate:
                name = spelled(fields, name)
            reached = Field(
                value=fields.get(name),
                source=reached.source,
                path=path,
                problems=reached.problems,
                nmstate=reached.nmstate,
            )
        return reached

    def items(self) -> list[Field]:
        """The fields of the list that it is; empty when it is missing or none."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.wrong(f"must be a list, is {type(self.value).__name__}")
            return []
        return [
            Field(value=one, source=self.source, path=f"{self.path}[{i}]", problems=self.problems, nmstate=self.nmstate)
            for i, one in enumerate(self.value)
        ]

    def maps(self) -> list[Field]:
        """The same of a list of mappings, nothing included; what is none of them is noted, and left out."""
        return [one for one in self.few() if one.value is None or (isinstance(one.value, Mapping) or one.map())]

    def few(self) -> list[Field]:
        """The same of a list that nobody makes long; what is beyond MOST is noted, and left out."""
        items = self.items()
        if len(items) > MOST:
            self.wrong(f"{len(items)} are listed, labs have at most {MOST}")
        return items[:MOST]

    def text(self) -> str:
        """Its text; empty when it is missing."""
        if isinstance(self.value, Mapping | list):
            self.wrong(f"must be text, is {type(self.value).__name__}")
            return ""
        return "" if self.value is None else str(self.value)

    def texts(self) -> tuple[str, ...]:
        """The texts of the list that it is, without empty ones."""
        return tuple(text for one in self.items() if (text := one.text()))

    def flag(self) -> bool | None:
        """Whether it is true; None when it is missing or neither."""
        if self.value is None or isinstance(self.value, bool):
            return self.value
        if self.nmstate and (truth := _TRUTHS.get(str(self.value).lower())) is not None:
            return truth
        self.wrong(f"must be true or false, is {self.value!r}")
        return None

    def number(self, default: int, least: int = 0) -> int:
        """Its whole number, or the default."""
        value = self.value
        if value is None:
            return default
        if self.nmstate and isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.wrong(f"must be a number of at least {least}, is {self.value!r}")
            return default
        return value

    def mac(self) -> str:
        """Its MAC address as six lower-case pairs joined by colons; empty when it is missing or none.

        Dashes and dots are other ways to write one (Go: net.ParseMAC).
        """
        text = self.text()
        if not text:
            return ""
        digits = re.sub(r"[:.-]", "", text.lower())
        if not _MAC.fullmatch(digits):
            number = "a number to YAML: put it in quotes" if isinstance(self.value, int) else "not a MAC address"
            self.wrong(f"{text!r} is {number}, six hex pairs joined by colons")
            return ""
        if not int(digits, 16):
            self.wrong(f"{text!r} is no network card's")
            return ""
        if int(digits[:2], 16) & 1:
            self.wrong(f"{text!r} is a multicast address; a network card has one with an even first pair")
            return ""
        return ":".join(digits[i : i + 2] for i in range(0, 12, 2))

    def address(self) -> str:
        """Its IP address as it is usually written; empty when it is missing or none."""
        # The zone of a link-local address is the host's own name for a card.
        text = self.text().partition("%")[0]
        if not text:
            return ""
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            self.wrong(f"{text!r} is not an IP address")
            return ""


def spelled(fields: Mapping[str, Any], name: str) -> str:
    """The key by which a mapping has the field of this name: as Go reads JSON, the same in other letters' case counts
    where the right one is missing."""
    return name if name in fields else next((key for key in fields if str(key).lower() == name.lower()), name)


def label(name: str) -> str:
    """A host's name in the lab: the first label of its hostname, in lower case as kubelet has it; empty without."""
    return name.split(".")[0].lower()


def addresses(values: list[Field]) -> tuple[str, ...]:
    """The addresses of several fields, without empty ones."""
    return tuple(text for one in values if (text := one.address()))
