"""Kubernetes' Secrets: whose data are secrets whatever they are called."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from .pairs import Pairs, closing, deeper, line_end
from .views import Span

_TAGS = r"(?>(?:[&!][^\s{]*+[ \t]*+){0,3})"
_KIND = re.compile(
    rf"kind(?<![\w.-]kind)[\"']?[ \t]*+:[ \t]*+{_TAGS}[\"']?Secret[\"']?(?=[ \t\r]*+(?:[,}}\]#]|$))", re.MULTILINE
)
_DATA = re.compile(
    rf"([ds](?<![\w.-].)(?:ata|tringData))[\"']?[ \t]*+:[ \t]*+{_TAGS}(?:(\{{)|(?:(?<=[\s:])#[^\n]*+)?[ \t\r]*$)",
    re.MULTILINE,
)
_FLOW_ITEM = re.compile(rf"[\s,]*+(?:[\"'][\w.\-/]{{1,253}}+[\"']|[\w.\-/]{{1,253}}+)[ \t]*+:[ \t]*+{_TAGS}")
_FLOW_VALUE = re.compile(r"[^,{}\n]*+(?>(?:\n[ \t]++[^,:{}\n]++)*)")
_LINE_ITEM = re.compile(
    rf"\n([ \t]*+)(?:[\"'][\w.\-/]+[\"']|[\w.\-/]+):(?=\s|$)[ \t]*+{_TAGS}(?:[|>][+-]?\d?[ \t\r]*+(?=\n))?"
)
_KIND_LINE = re.compile(r"(?m)^[ \t]*(?:- )?[\"']?kind[\"']?:")
_DATA_LINE = re.compile(r"(?m)^[ \t]*(?:- )?[\"']?(?:stringD|d)ata[\"']?:")


def data(text: str, pairs: Pairs) -> Iterator[Span]:
    """Hide the data of Secrets; in a document with one, those of other objects too."""
    if "Secret" not in text and "stringData" not in text:
        return
    borders = [0, *(match.start() for match in re.finditer(r"\n---", text)), len(text)]
    for begin, end in itertools.pairwise(borders):
        of_secret = _KIND.search(text, begin, end)
        if not of_secret and text.find("stringData", begin, end) < 0:
            continue
        at = begin
        while match := _DATA.search(text, at, end):
            at = match.end()
            if of_secret or match[1] == "stringData":
                for span in _flow(text, at, pairs) if match[2] else _block(text, match, pairs):
                    yield span
                    at = max(at, span[1])


def begin(text: str, at: int) -> int:
    """Find the begin of the object that ``at`` may be in the data of: its kind or its data, whichever is first."""
    found = [[match.start() for match in pattern.finditer(text, 0, at)][-1:] for pattern in (_KIND_LINE, _DATA_LINE)]
    return min((*found[0], *found[1]), default=at)


def open_data(text: str, at: int, end: int) -> bool:
    """Tell whether data before ``at`` may be those of an object whose kind comes only after ``end``."""
    last = max((match.start() for match in _DATA_LINE.finditer(text, 0, at)), default=-1)
    return last >= 0 and not _KIND_LINE.search(text, last, end)


def _flow(text: str, at: int, pairs: Pairs) -> Iterator[Span]:
    """Yield the values in braces."""
    while (item := _FLOW_ITEM.match(text, at)) is not None:
        first = item.end()
        quote = text[first : first + 1]
        if quote in ("{", "["):
            return  # no Secret has that
        if quote in ("'", '"'):
            first += 1
            last = closing(text, first, quote, len(text))
            last = last if last >= 0 else line_end(text, first)
            at = last + 1
        else:
            value = _FLOW_VALUE.match(text, first)
            at = value.end() if value else first
            last = first + len(text[first:at].rstrip())
        yield from pairs.hide(first, last, "secret")
    rest = re.compile(r"[^{}\n]*+").match(text, at)
    if rest and rest[0].strip(" \t\r,"):
        yield from pairs.hide(at, rest.end(), "secret")  # whatever is written so, it is data of a Secret


def _block(text: str, match: re.Match[str], pairs: Pairs) -> Iterator[Span]:
    """Yield the values in the lines that are indented deeper."""
    start = line_end(text, match.end())
    before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    end = deeper(text, start, len(before.rstrip("\"'")))
    items: list[re.Match[str]] = []
    for item in _LINE_ITEM.finditer(text, start, end):
        if not items or len(item[1]) <= len(items[0][1]):
            items.append(item)
    for item, last in zip(items, [*(item.start() for item in items), end][1:], strict=True):
        value = text[item.end() : last]
        first = item.end() + len(value) - len(value.lstrip())
        last = first + len(value.strip().rstrip(","))
        if first < last and text[first] in "\"'" and text[first] == text[last - 1] and last - first > 1:
            first, last = first + 1, last - 1
        yield from pairs.hide(first, last, "secret")
