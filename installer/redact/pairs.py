"""Secrets behind a name: in whatever syntax names and values are written."""

from __future__ import annotations

import re
from collections.abc import Callable

from .forms import BS, NEWLINE, QUOTE, closing
from .hint import MARK, WORDS
from .names import harmless, prose, sensitive

_KEY = re.compile(rf"(?i:{WORDS})[\w.\-]*+")
_SEPARATOR = re.compile(rf"(?>(?:{QUOTE}|%2[27])?)\]?+[ \t]*+(?::=|=>|[:=]|%3[AaDd])[ \t]*+")
_LIST = re.compile(rf"{QUOTE}[ \t]*+,[ \t]*+(?={QUOTE})")
_OPTION = re.compile(rf"(?>(?:{QUOTE})?)(?:[ \t]*+,[ \t]*+(?={QUOTE})|[ \t]++)(?=[^\s-])")
_PREFIX = re.compile(
    r"(?:[bBuUrRfF]{1,2}(?=[\"'])|![\w!]*+[ \t]++|&\w++[ \t]++|(?:\w{1,20}\.)?Secret(?:Str|Bytes)?\((?=[\"']))?"
)
_OPEN = re.compile(r"(\\{0,16})([\"'`])|%2[27]")
_STOP = (
    rf"{NEWLINE}(?=[ \t\\\"'-]|[\w.\"-]{{1,64}}{BS}[\"']?[ \t]{{0,4}}[:=]|$)"
    rf"|{QUOTE}(?=$|[\s,;:}}\])>\\])|</|%(?:2[26C]|0[AaDd]|7D)"
)
_WORD = re.compile(
    rf"(?>(?:(?!{_STOP}|[,;&](?=\s|$|{BS}[\"'][\w.\-]{{1,64}}{BS}[\"'][=:])"
    rf"|[)}}\]>](?=[)}}\]>,;.]{{0,8}}(?:\s|$|{QUOTE})))\S)+)"
)
_QUERY = re.compile(r"[^\s&\"'`<>#\\]++")
_WHOLE = re.compile(rf"(?>(?:(?!{_STOP}|[ \t]#|[ \t\r]{{0,16}}$)[^\n])+)")
_AT_START = re.compile(rf"(?:^|\\n|%0[Aa])[ \t>]*(?:-[ \t]+)*(?:export[ \t]+|declare -x[ \t]+)?(?:{QUOTE}|%22)?$")
_BLOCK = re.compile(rf"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?(?:\r?$|(?={NEWLINE}))")
_ESCAPED_LINE = re.compile(rf"{NEWLINE}( *+)((?>(?:(?!{NEWLINE}|{QUOTE}(?=[\s,}}\])]|$)).)*))")
_SCHEME = re.compile(r"(?i:basic|bearer|negotiate|digest|token)[ \t]++(?=[^\s=]++=*+(?:[\s\"'\\,\]})]|$))")
_SENTENCE = re.compile(r"[A-Z]?[a-z]{1,20},? [a-z]{1,20}(?![\w=:])")
_BLANK = re.compile(r"\s*+$")
_ITEMS = re.compile(r"[^\]{]*+")
_FURTHER = re.compile(r"[ \t](?:[\w.-]{1,64}=|--?\w|[|;&>])")
_BASE64 = re.compile(r"(?=.*(?:[A-Z0-9]|=))[\w+/%-]{6,}={0,2}")
_ESCAPES = re.compile(r"(?i:22|27|7B|2C|0A|26|20|3F)")
_NAMED = re.compile(
    rf"(?i:\bname){QUOTE}?[ \t]*+[:=][ \t]*+(?>(?:{QUOTE})?)([\w.\-]++)(?>(?:{QUOTE})?)[ ,\t]*+"
    rf"(?>(?:{NEWLINE}[ \t]*+)?)(?:(?>(?:{QUOTE})?)(?i:value)(?>(?:{QUOTE})?)[ \t]*+[:=][ \t]*+|(\s*+$))"
)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_LONGEST_NAME = 64

# Told when a value goes on in the following lines: how (block, quote, next, list, named), the name's column, the quote.
Begin = Callable[[str, int, str], None]
Found = Callable[[str], None]


class Pairs:
    """Finds values behind names in one line; ``begin`` is told of what goes on behind it, ``found`` of each secret."""

    def __init__(self, begin: Begin, found: Found) -> None:
        self._begin = begin
        self._found = found

    def clean(self, text: str) -> str:
        """The line without values of sensitive names."""
        out: list[str] = []
        done = 0
        for match in _KEY.finditer(text):
            if match.start() < done:
                continue
            start, end = _name(text, match.start(), match.end(), done)
            kind = sensitive(text[start:end])
            if not kind or (kind == "quoted?" and text[start - 1 : start] not in ("'", '"')):
                continue
            span = self._after(text, start, end, kind)
            if span is not None and span[0] >= done:
                first, last, instead = span
                out += (text[done:first], instead)
                done = last
        text = "".join((*out, text[done:])) if out else text
        return self._named(text) if "ame" in text or "AME" in text else text

    def _named(self, text: str) -> str:
        """Name and value as an object's fields: {"name": "PASSWORD", "value": ...}."""
        out: list[str] = []
        done = 0
        for match in _NAMED.finditer(text):
            if match.start() < done or not sensitive(match[1]):
                continue
            if match[2] is not None:
                self._begin("named", 0, "")
                continue
            span = self.value(text, match.end(), "secret", match.start())
            if span is not None:
                first, last, instead = span
                out += (text[done:first], instead)
                done = last
        return "".join((*out, text[done:])) if out else text

    def _after(self, text: str, start: int, end: int, kind: str) -> tuple[int, int, str] | None:
        """The value of the name at start:end, and what to write instead of it."""
        option = text[start] == "-" and (start == 0 or text[start - 1] in " \t\"'`,[(=")
        match = _SEPARATOR.match(text, end)
        if match is None:
            if text[end : end + 1] == ">" and text[start - 1 : start] == "<":
                stop = text.find("<", end)
                return self._hide(text, end + 1, stop if stop > 0 else len(text), kind)
            match = (_OPTION if option else _LIST).match(text, end) if option or kind == "header" else None
            if match is None:
                return None
            return self.value(text, match.end(), kind, start, option=True)
        if text[start - 1 : start] in ("?", "&") and match[0] == "=":
            query = _QUERY.match(text, match.end())
            return self._hide(text, match.end(), query.end(), kind) if query else None
        if text[match.end() : match.end() + 1] in (":", "=") or text.startswith("//", match.end()):
            return None  # a comparison, a scope, a URL
        # An assignment before others, or before a command, ends with its word.
        option = option or (
            match[0].endswith("=") and _FURTHER.search(text, match.end(), match.end() + 2000) is not None
        )
        return self.value(text, match.end(), kind, start, option=option)

    def value(self, text: str, at: int, kind: str, name: int, *, option: bool = False) -> tuple[int, int, str] | None:
        """The value that begins at ``at``, for a name at ``name``."""
        before = text[max(0, name - 80) : name]
        leading = not option and _AT_START.search(before) is not None
        prefix = _PREFIX.match(text, at)
        at = prefix.end() if prefix else at
        column = name - (max(before.rfind("\\n"), before.rfind("\n")) + 1 + max(0, name - 80))
        opened = _OPEN.match(text, at)
        if opened is not None:
            return self._quoted(text, opened, kind, column, leading)
        if leading and (block := _BLOCK.match(text, at)):
            if not _BLANK.match(text, block.end()):
                return self._escaped_block(text, block.end(), name)
            self._begin("block", column, "")
            return None
        first = text[at : at + 1]
        if first == "[" and not text.startswith(MARK, at):
            return self._list(text, at, column)
        if first == "{" or (first == "\\" and re.match(NEWLINE, text[at : at + 40])):
            return None
        if _BLANK.match(text, at):
            if leading and kind != "header":
                self._begin("next", column, "")
            return None
        if kind == "header":
            scheme = _SCHEME.match(text, at)
            at = scheme.end() if scheme else at
            leading = leading or not scheme
        if text.startswith(MARK, at):
            more = _WORD.match(text, at + len(MARK))
            return (at, more.end(), MARK) if more else None
        match = _WORD.match(text, at)
        if match is None or (harmless(match[0], kind) and text[match.end() : match.end() + 1] in ("", ",", "}", "]")):
            return None
        if prose(match[0]) or (not leading and text[at - 1 : at] == " " and _SENTENCE.match(text, at)):
            return None
        if leading:
            match = _WHOLE.match(text, at) or match
        if kind == "auth" and not _BASE64.fullmatch(match[0]):
            return None
        return self._hide(text, at, match.end(), kind)

    def _hide(self, text: str, first: int, last: int, kind: str) -> tuple[int, int, str] | None:
        value = text[first:last]
        if harmless(value.strip(), kind) or (value.isdigit() and len(value) < 4):
            return None
        self._found(value)
        return first, last, MARK

    def _quoted(
        self, text: str, opened: re.Match[str], kind: str, column: int, leading: bool
    ) -> tuple[int, int, str] | None:
        first = opened.end()
        if opened[2] is None:  # of a URL
            last = text.find(opened[0], first)
            return self._hide(text, first, last if last >= 0 else len(text), kind)
        last = closing(text, first, opened[2], len(opened[1]))
        if last >= 0:
            return self._hide(text, first, last, kind)
        rest = text[first:].rstrip()
        if not rest or harmless(rest, kind):
            return None
        if leading and not opened[1]:
            self._begin("quote", column, opened[2])
            return first, len(text), MARK + opened[2]
        return self._hide(text, first, len(text), kind)

    def _escaped_block(self, text: str, at: int, name: int) -> tuple[int, int, str] | None:
        """A block scalar of YAML that stands in a quoted text, where lines are ended by escapes."""
        line = text.rfind("\\n", 0, name)
        own = len(re.match(r" *", text[line + 2 : name])[0]) if line >= 0 else 0  # type: ignore[index]
        first = last = at
        while (match := _ESCAPED_LINE.match(text, last)) is not None:
            if match[2] and len(match[1]) <= own:
                break
            first = first if first > at else match.start(2)
            last = match.end()
        return self._hide(text, first, last, "secret") if first > at else None

    def _list(self, text: str, at: int, column: int) -> tuple[int, int, str] | None:
        inner = _ITEMS.match(text, at + 1)
        if inner is None or text[inner.end() : inner.end() + 1] == "{" or text.startswith(MARK, at + 1):
            return None
        if not inner[0].strip():
            if inner.end() == len(text):
                self._begin("list", column, "")
            return None
        return self._hide(text, at + 1, inner.end(), "secret")


def _name(text: str, start: int, end: int, floor: int) -> tuple[int, int]:
    """A name's bounds, from a part of it that was found; escapes before it are no part."""
    floor = max(floor, start - _LONGEST_NAME)
    while start > floor and text[start - 1] in _NAME:
        start -= 1
    before = text[start - 1 : start]
    if before == "\\" and text[start] in "nrt":
        start += 1
    elif before == "%" and _ESCAPES.match(text, start):
        start += 2
    while end > start and text[end - 1] in ".-":
        end -= 1
    return start, end
