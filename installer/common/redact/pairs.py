"""Secrets that follow a name (`password: ...`, `--token ...`, `{"name": ..., "value": ...}`), in any syntax.

`Pairs.clean` is the way in. For each word that may name a secret (_KEY), `_name` finds all of the name, `sensitive` the
kind of it, `_after` where its value begins, `value` where that ends, by how it is written (`_quoted`, `_list`, a block
of YAML, or `_plain`, which tells a value from prose), and `_hide` the span, unless the value is harmless (`true`). A
span is (begin, end, replacement). A value that goes on in the next lines is passed on to the redactor by `begin`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from . import phrases
from .forms import BLANK, BS, NEWLINE, QUOTE, closing, instead
from .hint import MARK, WORDS, AnyCase
from .names import Promise, harmless, sensitive
from .prose import CITED, MOST, Place, everyday, is_prose
from .streams import Mode

_KEY = AnyCase(rf"(?:{WORDS})[\w.\-]*+")
_COLOUR = r"(?>(?:\x1b\[[\d;]{0,16}m)*)"
_SEPARATOR = re.compile(
    rf"{_COLOUR}(?>(?:{QUOTE}|%2[27])?)\]?+[ \t]*+(?::=|=>|[:=]|%3[AaDd]|\\{{1,16}}u003[dDaA]){_COLOUR}[ \t]*+{_COLOUR}"
)
_LIST = re.compile(rf"{QUOTE}[ \t]*+,[ \t]*+(?={QUOTE})")
_OPTION = re.compile(rf"(?>(?:{QUOTE})?)(?:[ \t]*+,[ \t]*+(?={QUOTE})|(?>(?:{BLANK})+))(?=[^\s-])")
_CITED_QUOTE = re.compile(rf"[ \t]++(?={QUOTE}\w)")
_ELEMENT = re.compile(r"(?:[ \t]++[^<>]{0,400}?)?(?:(?<!/)>|\\{1,16}u003[eE])")
_PREFIX = re.compile(
    r"(?:[bBuUrRfF]{1,2}(?=[\"'])|![\w!]*+[ \t]++|&\w++[ \t]++|(?:\w{1,20}\.)?Secret(?:Str|Bytes)?\((?=[\"']))?"
)
_OPEN = re.compile(r"(\\{0,16})([\"'`])|%2[27]|\\{1,16}u002[27]|&(?:quot|apos|#3[49]);")
_GO_QUOTE = re.compile(r"(\\++)u002[27]")
_STOP = (
    rf"{NEWLINE}(?=[ \t\\\"'-]|[\w.\"-]{{1,64}}{BS}[\"']?[ \t]{{0,4}}[:=]|$)"
    rf"|{QUOTE}(?=$|[\s,;:}}\])>\\])|</|%(?:2[26C]|0[AaDd]|7D)|\0|\\{{1,16}}(?:u0000|x00|u003[cC]/)"
)
_WORD = re.compile(
    rf"(?>(?:(?!{_STOP}|[,;&](?=\s|$|{BS}[\"'][\w.\-]{{1,64}}{BS}[\"'][=:])"
    rf"|[)}}\]>](?=[)}}\]>,;.]{{0,8}}(?:\s|$|{QUOTE})))\S)+)"
)
_QUERY = re.compile(r"[^\s&\"'`<>#\\]++")
_WHOLE = re.compile(rf"(?>(?:(?!{_STOP}|[ \t]#|[ \t\r]{{0,16}}$)[^\n])+)")
_AT_START = re.compile(
    rf"(?:^|\\n|%0[Aa]|[\r\0])[ \t>]*(?:-[ \t]+)*(?:export[ \t]+|declare -x[ \t]+)?(?:{QUOTE}|%22)?$"
)
_BLOCK = re.compile(rf"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?(?:\r?$|(?={NEWLINE}))")
_ESCAPED_LINE = re.compile(rf"{NEWLINE}( *+)((?>(?:(?!{NEWLINE}|{QUOTE}(?=[\s,}}\])]|$)).)*))")
_SCHEME = re.compile(r"(?i:basic|bearer|negotiate|digest|token)[ \t]++(?=[^\s=]++=*+(?:[\s\"'\\,\]})]|$))")
_BLANK = re.compile(r"\s*+\Z")
_ITEMS = re.compile(r"[^\]{]*+")
_FURTHER = re.compile(r"[ \t](?:[\w.-]{1,64}=|--?\w|[|;&>])")
_BASE64 = re.compile(r"(?=.*(?:[A-Z0-9]|=))[\w+/%-]{6,}={0,2}")
_FLOW = re.compile(rf"(?>(?:(?!{_STOP}|[,}}]|[ \t]#)[^\n])+)")
_IN_FLOW = re.compile(r"[{,][ \t]*(?:[\"'])?$")
_IN_QUERY = re.compile(r"(?:[?&;]|\\{1,16}u0026|&amp;|%26|%3[fF])$")
_ASIDE = re.compile(rf"{QUOTE}[ \t]+[^\s,;}}\])\"'#|&]")
_NUMBER = re.compile(r"[\d.]++(?=[ \t]*+[,}\]])")
_IN_TAG = re.compile(r"(?:<|\\{1,16}u003[cC])(?:\w{1,32}:)?$")
_TAG = re.compile(r"<|\\{1,16}u003[cC]")
_QUOTED = re.compile(rf"{QUOTE}$")
_ASSIGNED = re.compile(r"(?:=|u003[dD])[ \t]*$")
_LINE_BEGINS = re.compile(r"(?:\\n|%0[Aa]|[\r\0])?")
_GOES_ON = re.compile(r"[A-Za-z]{1,20}[,:;]?[ \t]")
_AFTER_NUL = re.compile(r"\\(?:u0000|x00)$")
_INDENT = 200
_FAR = 4096  # characters of a value that are looked at for its end, or for a name after it
_ESCAPES = re.compile(r"(?i:22|27|7B|2C|0A|26|20|3F)")
_NAMED = re.compile(
    rf"(?i:\bname){QUOTE}?[ \t]*+[:=][ \t]*+(?>(?:{QUOTE})?)([\w.\-]++)(?>(?:{QUOTE})?)[ ,\t]*+"
    rf"(?>(?:{NEWLINE}[ \t]*+)?)(?:(?>(?:{QUOTE})?)(?i:value)(?>(?:{QUOTE})?)[ \t]*+[:=][ \t]*+|(\s*+$))"
)
_GO_ESCAPE = re.compile(r"u00[0-9a-f]{2}")
_VALUE_FIRST = re.compile(rf"(?<![\w.-])(?i:value)(?>(?:{QUOTE})?)[ \t]*+[:=][ \t]*+(?=\S)")
_NAME_NEXT = re.compile(
    rf"(?>(?:{QUOTE})?)(?>(?:[\s,]|{NEWLINE})*)(?>(?:{QUOTE})?)(?i:name)(?>(?:{QUOTE})?)[ \t]*+[:=][ \t]*+"
    rf"(?>(?:{QUOTE})?)([\w.\-]++)"
)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_LONGEST_NAME = 64

#: The kind of secret that an everyday word (pass, pwd) or a signature (sig) names, once it is seen to be a name.
_MEANT: dict[Promise, Promise] = {"word?": "password", "signed?": "secret"}
#: Called when a value goes on in the next lines, with the way it ends (streams.Mode), the name's column, and its quote.
Begin = Callable[[Mode, int, str], None]
#: Called with each secret.
TakeSecret = Callable[[str], None]


class Pairs:
    """Finds the values of sensitive names in a line. ``begin`` is called where one goes on in the next line, ``found``
    with each secret."""

    def __init__(self, begin: Begin, take_secret: TakeSecret) -> None:
        self._begin = begin
        self._take_secret = take_secret

    def clean(self, text: str) -> str:
        """The line without values of sensitive names."""
        out: list[str] = []
        done = 0
        for match in _KEY.finditer(text):
            if match.start() < done:
                continue
            start, end = _name(text, match.start(), match.end(), done)
            kind = sensitive(text[start:end])
            if not kind or (kind in ("word?", "signed?") and not _meant(text, start, end, kind)):
                continue
            kind = _MEANT.get(kind, kind)
            span = self._after(text, start, end, kind)
            if span is not None and span[0] >= done:
                first, last, instead = span
                out += (text[done:first], instead)
                done = last
        text = "".join((*out, text[done:])) if out else text
        if any(mark in text for mark in ("ass", "ASS", "pw", "-p", "-P", "-w", "crypt")):
            text = self._phrases(text)
        if "ame" in text or "AME" in text:
            text = self._named(text)
            if "alue" in text or "ALUE" in text:
                text = self._valued(text)
        return text

    def _phrases(self, text: str) -> str:
        """Hide passwords that no separator leads to."""
        spans = [self.value(text, at, "password", at, option=True) for at in phrases.arguments(text)]
        spans += [self._hide(text, first, last, "password") for first, last in phrases.words(text)]
        return instead(text, [span for span in spans if span is not None])

    def _valued(self, text: str) -> str:
        """Hide values that come before their names: {"value": ..., "name": "PASSWORD"}."""
        spans = []
        for match in _VALUE_FIRST.finditer(text):
            near = text[match.end() : match.end() + _FAR]
            opened = _OPEN.match(near)
            if opened is None:
                word = _WORD.match(near)
                first, last = 0, len(word[0].rstrip(",")) if word else 0
            elif opened[2] is None:
                first, last = opened.end(), near.find(opened[0], opened.end())
            else:
                first, last = opened.end(), closing(near, opened.end(), opened[2], len(opened[1]))
            name = _NAME_NEXT.match(near, last) if last > first else None
            if name is not None and sensitive(name[1]):
                span = self._hide(text, match.end() + first, match.end() + last, "password")
                spans += [span] if span is not None else []
        return instead(text, spans)

    def _named(self, text: str) -> str:
        """Hide values of fields called value, after their names: {"name": "PASSWORD", "value": ...}."""
        spans = []
        for match in _NAMED.finditer(text):
            if not sensitive(match[1]):
                continue
            if match[2] is not None:
                self._begin("named", 0, "")
                continue
            span = self.value(text, match.end(), "password", match.start())
            spans += [span] if span is not None else []
        return instead(text, spans)

    def _after(self, text: str, start: int, end: int, kind: Promise) -> tuple[int, int, str] | None:
        """The span of the value that follows the name at start:end; None where there is no secret."""
        option = text[start] == "-" and (
            start == 0
            or text[start - 1] in " \t\"'`,[(=\0"
            or _AFTER_NUL.search(text, max(0, start - 24), start) is not None
        )
        match = _SEPARATOR.match(text, end)
        if match is None:
            if _IN_TAG.search(text, max(0, start - 40), start) and (element := _ELEMENT.match(text, end)):
                stop = _TAG.search(text, element.end())
                return self._hide(text, element.end(), stop.start() if stop else len(text), kind)
            if kind == "password" and not option and (cited := _CITED_QUOTE.match(text, end)):
                return self._cited(text, cited.end())
            named = kind == "header" or (kind == "password" and text[start - 2 : start - 1] == "(")
            match = (_OPTION if option else _LIST).match(text, end) if option or named else None
            if match is None:
                return None
            return self.value(text, match.end(), kind, start, option=True)
        if (match[0] == "=" or match[0][-5:].lower() == "u003d") and _IN_QUERY.search(text, max(0, start - 24), start):
            query = _QUERY.match(text, match.end())
            return self._hide(text, match.end(), query.end(), kind) if query else None
        if text[match.end() : match.end() + 1] in (":", "=") or text.startswith("//", match.end()):
            return None  # a comparison, a scope, a URL
        # An assignment before others, or before a command, ends with its word.
        option = option or (
            match[0].endswith("=") and _FURTHER.search(text, match.end(), match.end() + 2000) is not None
        )
        return self.value(text, match.end(), kind, start, option=option)

    def _cited(self, text: str, at: int) -> tuple[int, int, str] | None:
        """The span of a password that is quoted in a sentence."""
        opened = _OPEN.match(text, at)
        if opened is None or opened[2] is None:
            return None
        near = text[opened.end() : opened.end() + MOST]
        length = closing(near, 0, opened[2], len(opened[1]))
        if length <= 0 or everyday(near[:length]):
            return None
        return self._hide(text, opened.end(), opened.end() + length, "password")

    def value(
        self, text: str, at: int, kind: Promise, name: int, *, option: bool = False
    ) -> tuple[int, int, str] | None:
        """The value at ``at`` of the name at ``name``: (begin, end, what to write instead), None where it is no secret.

        ``option``: the value ends with its word, as an argument on a command line does.
        """
        floor = max(0, name - _INDENT)
        before = text[floor:name]
        start = None if option else _AT_START.search(before)
        if floor and start is not None and not start.start():
            start = None
        leading = start is not None
        assigned = _ASSIGNED.search(text, max(0, at - 8), at) is not None
        place = _place(before, start, assigned=assigned)
        prefix = _PREFIX.match(text, at)
        at = prefix.end() if prefix else at
        column = name - (max(before.rfind("\\n"), before.rfind("\n")) + 1 + floor)
        opened = _OPEN.match(text, at)
        if opened is not None:
            return self._quoted(text, opened, kind, column=column, leading=leading)
        if leading and (block := _BLOCK.match(text, at)):
            if not _BLANK.match(text, block.end()):
                return self._escaped_block(text, block.end(), name)
            self._begin("block", column, "")
            return None
        first = text[at : at + 1]
        if first == "[" and not text.startswith(MARK, at):
            return self._list(text, at, column, kind)
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
        # A plain scalar of YAML goes on in deeper lines.
        scalar = start is not None and not start[0].strip(" \t>-\"'") and not assigned and kind != "header"
        if cited := CITED.match(text, at):
            opened = _OPEN.match(text, cited.end())
            return self._quoted(text, opened, kind, column=column, leading=False) if opened else None
        end = self._plain(text, at, kind, place, leading=leading, option=option, assigned=assigned)
        if kind == "auth" and not _BASE64.fullmatch(text, at, end):
            return None
        if end > at and start is not None and _QUOTED.search(start[0]) and (number := _NUMBER.match(text, at)):
            end = number.end()
        if scalar and (end > at or kind == "password"):
            clause = _WHOLE.match(text, at) if end == at else None
            if _BLANK.match(text, clause.end() if clause else end):
                self._begin("more", column, "")
        return self._hide(text, at, end, kind) if end > at else None

    def _plain(
        self, text: str, at: int, kind: Promise, place: Place, *, leading: bool, option: bool, assigned: bool
    ) -> int:
        """Where a value without quotes ends, or ``at`` if what stands there is none."""
        match = _WORD.match(text, at, at + _FAR)
        if match is None:
            return at
        if match.end() == at + _FAR:  # nothing harmless is as long
            match = _WORD.match(text, at) or match
        elif harmless(match[0], kind) and text[match.end() : match.end() + 1] in ("", ",", "}", "]"):
            return at
        clause = _WHOLE.match(text, at, at + MOST)
        if option and not assigned:
            words = text[at : at + 80].split()[:2]
            return at if len(words) == 2 and everyday(" ".join(words)) else match.end()
        if assigned and not leading:
            return at if kind != "password" and everyday(match[0]) else match.end()
        if clause is None or is_prose(clause[0], kind, place):
            return at
        if leading:
            match = _WHOLE.match(text, at) or match
            if _ASIDE.match(text, match.end()) and place is not Place.INSIDE:
                return len(text.rstrip())
        elif place is Place.DOCUMENT:
            match = _FLOW.match(text, at) or match
        elif kind == "password" and _GOES_ON.match(text, at):
            match = _WHOLE.match(text, at) or match
        return match.end()

    def _hide(self, text: str, first: int, last: int, kind: Promise) -> tuple[int, int, str] | None:
        """The span first:last with its replacement; None where what stands there is harmless."""
        value = text[first:last]
        if (len(value) < _FAR and harmless(value.strip(), kind)) or (value.isdigit() and len(value) < 4):
            return None
        self._take_secret(value)
        return first, last, MARK

    def _quoted(
        self, text: str, opened: re.Match[str], kind: Promise, *, column: int, leading: bool
    ) -> tuple[int, int, str] | None:
        first = opened.end()
        if opened[2] is None:  # of a URL
            depth = len(opened[0]) - 5
            if opened[0][0] == "\\":
                ends = (match.start() for match in _GO_QUOTE.finditer(text, first) if len(match[1]) <= depth)
                last = next(ends, -1)
            else:
                last = text.find(opened[0], first)
            return self._hide(text, first, last if last >= 0 else len(text), kind)
        if not opened[1] and text.startswith(opened[2] * 2, first):
            return self._tripled(text, first + 2, opened[2] * 3, kind)
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

    def _tripled(self, text: str, first: int, quotes: str, kind: Promise) -> tuple[int, int, str] | None:
        """A text in three quotes, as TOML and Python have; it may go on in the next lines."""
        last = text.find(quotes, first)
        if last < 0:
            self._begin("quote", -1, quotes)
        return self._hide(text, first, last if last >= 0 else len(text), kind)

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

    def _list(self, text: str, at: int, column: int, kind: Promise) -> tuple[int, int, str] | None:
        inner = _ITEMS.match(text, at + 1)
        if inner is None or text[inner.end() : inner.end() + 1] == "{" or text.startswith(MARK, at + 1):
            return None
        if not inner[0].strip():
            if inner.end() == len(text):
                self._begin("list", column, "")
            return None
        return self._hide(text, at + 1, inner.end(), kind)


def _place(before: str, start: re.Match[str] | None, *, assigned: bool) -> Place:
    """Where a name stands, from what is before it."""
    if start is not None:
        return Place.START if _LINE_BEGINS.fullmatch(start[0]) and not assigned else Place.DOCUMENT
    return Place.DOCUMENT if "{" in before and _IN_FLOW.search(before) else Place.INSIDE


def _meant(text: str, start: int, end: int, kind: Promise) -> bool:
    """Whether an everyday word is the name of a password, and "sig" that of a URL's signature."""
    before = text[max(0, start - 80) : start]
    if kind == "signed?":
        return text[end : end + 1] == "=" and _IN_QUERY.search(before) is not None
    if text[start] == "-" or _QUOTED.search(before):
        return True
    separator = _SEPARATOR.match(text, end)
    word = text[start:end]
    if separator is None:
        return before.endswith("<")
    if word.lower() == "pwd" and text[separator.end() : separator.end() + 1] in ("/", "~", ""):
        return False
    if ":" not in separator[0]:
        return word != "PWD"
    if word == "PASS":
        return False  # how tests say that they pass
    if separator[0] == ":":
        return text[separator.end() : separator.end() + 1].isalnum()
    return _AT_START.search(before) is not None or ("{" in before and _IN_FLOW.search(before) is not None)


def _name(text: str, start: int, end: int, floor: int) -> tuple[int, int]:
    """A name's bounds, given a part of it; escapes before it are no part of it."""
    floor = max(floor, start - _LONGEST_NAME)
    while start > floor and text[start - 1] in _NAME:
        start -= 1
    before = text[start - 1 : start]
    if before == "\\" and text[start] in "nrt":
        start += 1
    elif before == "%" and _ESCAPES.match(text, start):
        start += 2
    elif before == "\\" and _GO_ESCAPE.match(text, start):
        start += 5
    while end > start and text[end - 1] in ".-":
        end -= 1
    return start, end
