"""The reader of TOML that somebody else has written, whose faults are ValueErrors of one line.

tomllib takes what is nested as a call each, dotted keys in a time that grows with the square of their parts, and all
digits of a number; so the text is measured before it gets there.
"""

from __future__ import annotations

import re
from typing import Any

from installer.common.redact import shortened

LARGEST = 1 << 20
DEEPEST = 16
MOST_PARTS = 16
MOST_DIGITS = 64
_SHOWN = 200

# The parts of TOML outside of strings and comments that are measured.
_TOKEN = re.compile(r"""\"{3}|'{3}|["'\[\]{}.=,\n]|#[^\n]*|[0-9][0-9A-Za-z_]+""")
# What ends a string, or escapes its end.
_ENDS = {
    '"""': re.compile(r'\\.|"""(?P<end>"{0,2})', re.DOTALL),
    "'''": re.compile(r"'''(?P<end>'{0,2})"),
    '"': re.compile(r'\\.|\n|(?P<end>")'),
    "'": re.compile(r"\n|(?P<end>')"),
}


def loads(data: bytes | str) -> dict[str, Any]:
    """Parse as tomllib.loads does. Raises ValueError, also beyond the limits above."""
    import tomllib

    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text at byte {error.start}") from None
    text = text.replace("\r\n", "\n")
    _measure(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The message may quote a key of the file.
        raise ValueError(shortened(str(error), _SHOWN)) from None


def _measure(text: str) -> None:
    """Raise ValueError for a text that would cost tomllib too much time or stack."""
    depth = dots = place = 0

    def refuse(problem: str) -> ValueError:
        return ValueError(f"line {text.count(chr(10), 0, place) + 1}: {problem}")

    while (match := _TOKEN.search(text, place)) is not None:
        token, place = match[0], match.start()
        if token in _ENDS:
            place = match.end()
            end = _end(_ENDS[token], text, place)
            if end < 0:
                raise refuse(f"the text that begins with {token} has no end")
            place = end
            continue
        if token in ("[", "{"):
            depth += 1
        elif token in ("]", "}"):
            depth = max(depth - 1, 0)
        dots = dots + 1 if token == "." else dots if token[0].isdigit() else 0
        if depth > DEEPEST:
            raise refuse(f"nested more than {DEEPEST} levels deep")
        if dots >= MOST_PARTS:
            raise refuse(f"a key of more than {MOST_PARTS} parts")
        if token[0].isdigit() and len(token) > MOST_DIGITS + len("0x"):
            raise refuse(f"a number of more than {MOST_DIGITS} digits")
        place = match.end()


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the end of the text that begins at `place`; -1 where it does not end."""
    for match in pattern.finditer(text, place):
        if match["end"] is not None:
            return match.end()
        if match[0] == "\n":
            return -1
    return -1
