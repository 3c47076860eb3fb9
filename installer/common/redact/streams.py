"""Streams in pieces: how bytes become text, where to cut so that the lines of a piece can be judged, and what a line
leaves open for the next ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Literal

from .objects import DATA, KIND, VALUE

_NEAR = 8 << 10  # characters from a value to a name that follows it


def texts(source: IO[bytes], size: int) -> Iterator[str]:
    """What is read, as texts; bytes that are not UTF-8 come out again as they went in."""
    held = b""
    while chunk := source.read(size):
        held += chunk
        # A character that is cut in two has its first byte among the last three.
        cut = len(held)
        for back in range(1, min(4, len(held)) + 1):
            byte = held[-back]
            if byte >= 0xC0:
                cut = len(held) - back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else cut
                break
            if byte < 0x80:
                break
        yield held[:cut].decode("utf-8", "surrogateescape")
        held = held[cut:]
    if held:
        yield held.decode("utf-8", "surrogateescape")


def whole_lines(held: str, most: int) -> int:
    """Where the lines end that can be looked at without the next piece; 0 for none. Up to ``most`` characters are held
    back: that data are a Secret's, or what a value's name is, may only follow."""
    cut = held.rfind("\n") + 1
    if len(held) >= most:
        return cut
    begin = max((match.start() for match in DATA.finditer(held, 0, cut)), default=-1)
    if begin >= 0 and not KIND.search(held, begin, cut):
        cut = begin
    values = [match.start() for match in VALUE.finditer(held, max(0, cut - _NEAR), cut)]
    return values[-1] if values and values[-1] else cut


#: How the end of a value is found that goes on in the next lines; see Redactor._continued.
Mode = Literal["", "key", "lines", "argument", "block", "quote", "list", "next", "more", "data", "named", "file"]


class Rest:
    """What the next lines still belong to; with an empty mode, nothing."""

    def __init__(self) -> None:
        self.mode: Mode = ""
        self.source = self.quote = ""
        self.indent = self.width = self.left = 0
        self.child = -1
        self.shown = self.of_secret = self.begun = False

    def begin(self, mode: Mode, indent: int, quote: str = "") -> None:
        """Take up a value at this indentation that goes on in lines to come; `mode` says how its end is found."""
        self.mode, self.indent, self.quote = mode, indent, quote
        self.child, self.shown, self.begun, self.left = -1, False, True, 3 if mode == "named" else 5000
