"""MAC addresses that differ by a slip of the hand, and the file that lists those of expected hosts on a live host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_LENGTH = len("52:54:00:00:00:01")
# How many digits a slip of the hand changes, in words.
_WORDS = {1: "one digit differs", 2: "two digits differ"}


@dataclass(frozen=True)
class ExpectedHost:
    """A host that the configuration lists: its name or an empty text, its MAC addresses in lower case."""

    name: str
    macs: tuple[str, ...]


@dataclass(frozen=True)
class Slip:
    """A stranger, by its place among the strangers, whose MAC address is nearly a missing host's; `words` say how."""

    stranger: int
    mac: str
    words: str


def _digits(mac: str, other: str) -> int:
    """Return the number of digits in which they differ, 0 where it is no slip of the hand."""
    same_form = len(mac) == len(other) == _LENGTH
    count = sum(a != b for a, b in zip(mac, other, strict=True)) if same_form else 0
    return count if count in _WORDS else 0


def difference(mac: str, other: str) -> str:
    """Return in words how much a mistyped MAC address differs from the right one ("one digit differs").

    Empty where they are equal or differ in more than a slip. Both in lower case with colons.
    """
    return _WORDS.get(_digits(mac, other), "")


def mistyped(missing: Sequence[Collection[str]], strangers: Sequence[Collection[str]]) -> dict[int, Slip]:
    """Return, by its place, each missing host that a stranger may be: the nearest pairs first, each stranger once."""
    near = sorted(
        (count, index, number, mac)
        for index, macs in enumerate(missing)
        for number, own in enumerate(strangers)
        for mac in own
        for other in macs
        if (count := _digits(mac, other))
    )
    found: dict[int, Slip] = {}
    taken: set[int] = set()
    for count, index, number, mac in near:
        if index not in found and number not in taken:
            found[index] = Slip(number, mac, _WORDS[count])
            taken.add(number)
    return found


def listed(hosts: Iterable[ExpectedHost]) -> str:
    """Return the file of expected hosts: a line each, in the configuration's order: MAC[,MAC...] [NAME]."""
    return "".join(f"{','.join(host.macs)} {host.name}".rstrip() + "\n" for host in hosts if host.macs)


def read_listed(text: str) -> tuple[ExpectedHost, ...]:
    """Read what `listed` wrote."""
    lines = (line.partition(" ") for line in text.splitlines() if line)
    return tuple(ExpectedHost(name, tuple(macs.split(","))) for macs, _, name in lines)
