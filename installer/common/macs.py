"""MAC addresses that differ by a slip of the hand, and the file that lists those of expected hosts on a live host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_LENGTH = len("52:54:00:00:00:01")
# How many digits a slip of the hand changes, in words.
_WORDS = {1: "one digit differs", 2: "two digits differ"}


@dataclass(frozen=True)
class ExpectedHost:
    """A host that the configuration lists: its name or an empty text, its MAC addresses in lower case."""

    name: str
    macs: tuple[str, ...]


def difference(mac: str, other: str) -> str:
    """Say in how many digits the one may be the other mistyped ("one digit differs"); empty where it is no such slip.

    Both in lower case with colons.
    """
    if len(mac) != _LENGTH or len(other) != _LENGTH:
        return ""
    return _WORDS.get(sum(a != b for a, b in zip(mac, other, strict=True)), "")


def nearest(macs: Iterable[str], others: Iterable[str]) -> tuple[str, str, str] | None:
    """Return (mac, other, difference) of the first pair that differs by a slip; None without one."""
    candidates = sorted(others)
    pairs = ((mac, other) for mac in sorted(macs) for other in candidates)
    return next(((mac, other, text) for mac, other in pairs if (text := difference(mac, other))), None)


def listed(hosts: Iterable[ExpectedHost]) -> str:
    """Return the file of expected hosts: a line each, in the configuration's order: MAC[,MAC...] [NAME]."""
    return "".join(f"{','.join(host.macs)} {host.name}".rstrip() + "\n" for host in hosts if host.macs)


def read_listed(text: str) -> tuple[ExpectedHost, ...]:
    """Read what `listed` wrote."""
    lines = (line.partition(" ") for line in text.splitlines() if line)
    return tuple(ExpectedHost(name, tuple(macs.split(","))) for macs, _, name in lines)
