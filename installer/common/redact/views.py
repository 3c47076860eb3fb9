"""Texts within a text, each of which knows its place there: the lines of one program, escapes undone, base64
unpacked."""

from __future__ import annotations

import base64
import binascii
import html
import itertools
import json
import re
import urllib.parse
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from .hint import MARK

UNPACKED = 32  # bytes that gzip may unpack to, for each character; a data URL is looked at twice
LEAST = 8 << 10  # and for any text
TOO_LARGE = b"\0too large"  # in the place of what unpacks to more: it may hold anything
LONGEST = 1024  # characters of the longest secret that is looked for in every form
SHORTEST = 6  # characters of a secret that is looked for by its value

#: A line's head in a journal or a container's log, or one in the other: each line of a longer text has one.
_HEAD = re.compile(
    r"(?>(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:.]++|\d{4}-\d\d-\d\d[T ][\d:.,]++(?>(?:Z|[+-]\d\d:?\d\d)?)) "
    r"(?>(?:std(?:out|err) [FP] |[^\s:]++ [^\s:\[]++(?>(?:\[\d++\])?): )?)){0,3})"
)
_HEADS = re.compile(r"\n(?:[A-Z][a-z]{2} [ \d]\d \d|\d{4}-\d\d-\d\d[T ]\d)")
_DIGITS = re.compile(r"\d+")
# Colours, and what separates arguments in /proc: these come first.
_CONTROL = re.compile(r"\x1b\[[\d;]{0,16}m|\0")
# A quote that is not escaped ends the text that has the escapes, as a line's end does.
_ESCAPE = re.compile(
    r"\\\\\"|\\(?:u00[0-9a-fA-F]{2}|x[0-9a-fA-F]{2}|[nrt\"'`\\/])|%[0-9A-Fa-f]{2}|&(?:quot|apos|lt|gt|amp|#3[49]);|\""
)
_ESCAPED = re.compile(r"[\\%&\x1b\0]")
_CHARACTERS = {"\0": "\n", '"': "\n", '\\\\"': '\\"', "\\n": "\n", "\\r": "\r", "\\t": "\t"}

#: A part of a text (begin, end), and what to write instead.
Span = tuple[int, int, str]


class View:
    """Parts of a text, joined: ``starts`` has where each begins, ``outer`` where it stands in the text around it."""

    def __init__(self, text: str, starts: list[int], outer: list[int], lines: list[int] | None = None) -> None:
        self.text = text
        self._starts = starts
        self._outer = outer
        self._lines = lines  # where each part's line begins in the text around, if the parts are lines

    def outside(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield the places of these spans in the text around."""
        for first, last, other in spans:
            part = bisect_right(self._starts, first) - 1
            begin = self._outer[part] + first - self._starts[part]
            if self._lines is not None:
                # Of a span of several lines, the heads of all but the first go too.
                while part + 1 < len(self._starts) and last > self._starts[part + 1]:
                    yield begin, self._outer[part] + self._starts[part + 1] - 1 - self._starts[part], other
                    part, other = part + 1, ""
                    begin = self._lines[part] - 1
            else:
                part = bisect_right(self._starts, last) - 1
            yield begin, self._outer[part] + last - self._starts[part], other


def sources(text: str) -> list[View]:
    """Split a journal into each program's lines, without their heads; lines without a head go with the last one's."""
    if not _HEAD.match(text)[0] and not _HEADS.search(text):  # type: ignore[index]
        return [View(text, [0], [0])]
    groups: dict[str, tuple[list[str], list[int], list[int], list[int]]] = {}
    source, width, at = "", 0, 0
    for line in text.split("\n"):
        head = len(_HEAD.match(line)[0])  # type: ignore[index]
        if head:
            source, width = _DIGITS.sub("0", line[:head]), head
        elif width and line[:width].isspace():
            head = min(width, len(line))
        bodies, starts, outer, lines = groups.setdefault(source, ([], [0], [], []))
        bodies.append(line[head:])
        starts.append(starts[-1] + len(line) - head + 1)
        outer.append(at + head)
        lines.append(at)
        at += len(line) + 1
    return [View("\n".join(bodies), starts[:-1], outer, lines) for bodies, starts, outer, lines in groups.values()]


def unescaped(text: str, start: int, end: int) -> View | None:
    """Undo one level of escapes in this part of a text; None if it has none."""
    if not _ESCAPED.search(text, start, end):
        return None
    pattern = _CONTROL if _CONTROL.search(text, start, end) else _ESCAPE
    parts: list[str] = []
    places: list[int] = []
    done = start
    escapes = 0
    for match in pattern.finditer(text, start, end):
        escape = match[0]
        escapes += escape != '"'
        parts += (text[done : match.start()], _character(escape))
        places += (done, match.start())
        done = match.end()
    if not escapes:
        return None
    parts.append(text[done:end])
    return View("".join(parts), [0, *itertools.accumulate(map(len, parts[:-1]))], [*places, done])


def _character(escape: str) -> str:
    if escape[0] == "%" or escape[1:2] in ("u", "x"):
        return chr(int(escape[-2:], 16)).replace("\0", "\n")
    if escape[0] == "&":
        return html.unescape(escape)
    return _CHARACTERS.get(escape, "" if escape[0] == "\x1b" else escape[-1])


def instead(text: str, spans: Iterable[Span]) -> str:
    """Replace each span of the text; those that overlap or touch are one."""
    whole: list[Span] = []
    for first, last, other in sorted(spans):
        if whole and first <= whole[-1][1]:
            begin, end, before = whole[-1]
            whole[-1] = (begin, max(end, last), MARK if before and other and before != other else before or other)
        else:
            whole.append((first, last, other))
    out: list[str] = []
    done = 0
    for first, last, other in whole:
        out += (text[done:first], other)
        done = last
    return "".join((*out, text[done:]))


def budget(text: str) -> list[int]:
    """Return how many bytes all that is in a text may unpack to together: a number that `decoded` counts down."""
    return [LEAST + UNPACKED * len(text)]


def decoded(run: str, left: list[int] | None = None) -> bytes:
    """Decode base64 of either alphabet, unpacked if it is gzip; nothing when it is no base64, TOO_LARGE when
    it unpacks to more than is ``left`` (the run's own budget by default)."""
    left = budget(run) if left is None else left
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    try:
        raw = base64.b64decode(plain + "=" * (-len(plain) % 4))
        if raw[:2] != b"\x1f\x8b":
            return raw
        unpacked = zlib.decompressobj(31).decompress(raw, left[0] + 1)
    except (binascii.Error, ValueError, zlib.error):
        return b""
    if len(unpacked) > left[0]:
        return TOO_LARGE
    left[0] -= len(unpacked)
    return unpacked


def readable(raw: bytes) -> str | None:
    """Decode bytes as text, less a character that is cut at their end; None when they are not text."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if error.start < len(raw) - 3 or not error.start:
            return None
        text = raw[: error.start].decode()
    return None if "\0" in text else text


def encodings(secret: str) -> set[str]:
    """Write a known secret in every form: plain, escaped once and twice, for URLs, in base64 of a text with it."""
    spellings = {secret, json.dumps(secret)[1:-1]}
    if len(secret) > LONGEST:
        return spellings  # looking for all forms of a file takes longer than it is worth
    spellings |= {repr(secret)[1:-1], secret.replace("'", "''")}
    spellings |= {json.dumps(text)[1:-1] for text in spellings}
    spellings |= {urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret), urllib.parse.quote_plus(secret)}
    raw = secret.encode(errors="surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        spellings.add(encode(raw).decode().rstrip("="))
        for shift in range(3) if len(raw) >= 12 else ():
            whole = encode(b"\0" * shift + raw).decode().rstrip("=")
            # Characters that the bytes before and after it have a part in are left off.
            spellings.add(whole[-(-shift * 8 // 6) : len(whole) - bool((shift + len(raw)) % 3)])
    return {text for text in spellings if len(text) >= SHORTEST}
