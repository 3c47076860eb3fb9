"""Secrets that follow a name (`password: ...`, `--token ...`, `{"name": ..., "value": ...}`), in any syntax.

For each word that may name a secret (_KEY), `sensitive` tells the kind of it, `_after` finds where its value begins,
and `_value` where that ends, by how it is written: quoted, a list, a block of YAML, or plain, in which case it may be
prose. Escapes are undone before (`views`), so that there are none here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .hint import MARK, WORDS, AnyCase
from .names import Promise, harmless, sensitive
from .prose import CITED, MOST, Place, everyday, is_prose, plain
from .views import Span

_KEY = AnyCase(rf"(?:{WORDS})[\w.\-]*+")
_SEPARATOR = re.compile(r"[\"'`]?\]?[ \t]*+(?::=|=>|[:=])[ \t]*+")
# An option's argument may stand in the next line, or be the next text of a list.
_ARGUMENT = re.compile(r"[\"']?(?:[ \t]*+,[ \t]*+(?=[\"'])|[ \t]++)(?=[^\s-])")
_NEXT_LINE = re.compile(r"[\"']?,?[ \t\r]*+\n[ \t]*+(?:-[ \t]++)?(?=[^\s,-])")
_AFTER_COMMA = re.compile(r"[\"'][ \t]*+,[ \t]*+(?=b?[\"'])")
_ELEMENT = re.compile(r"(?:[ \t]++[^<>]{0,400}?)?(?<!/)>([^<>]*+)")
_IN_TAG = re.compile(r"<(?:\w{1,32}:)?$")
_CITED_QUOTE = re.compile(r"[ \t]++(?=[\"'`]\w)")
_PREFIX = re.compile(
    r"(?:[bBuUrRfF]{1,2}(?=[\"'])|![\w!]*+[ \t]++|&\w++[ \t]++|(?:\w{1,20}\.)?(?:Some|Secret(?:Str|Bytes)?)\((?=[\"'])"
    r"|\[\]string(?=\{))?"
)
_STOP = r"[\"'`](?=$|[\s,;:}\])>\\])|</"
_WORD = re.compile(
    rf"(?>(?:(?!{_STOP}|[,;&](?=\s|$|[\"'][\w.\-]{{1,64}}[\"'][=:])"
    r"|[)}\]>](?=[)}\]>,;.]{0,8}(?:\s|$|[\"'`])))[^\s\0])+)"
)
_QUERY = re.compile(r"[^\s&\"'`<>#\\]++")
_WHOLE = re.compile(rf"(?>(?:(?!{_STOP}|[ \t]#|[ \t\r]{{0,16}}$)[^\n\0])+)", re.MULTILINE)
_FLOW = re.compile(rf"(?>(?:(?!{_STOP}|[,}}]|[ \t]#)[^\n])+)")
_AT_START = re.compile(r"[ \t>]*(?:-[ \t]+)*(?:export[ \t]+|declare -x[ \t]+)?[\"'`]?")
_IN_FLOW = re.compile(r"[{,][ \t]*[\"']?$")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?\r?(?=\n)")
_ENTRY = re.compile(r"\s*(?:#|\{|\[|(?:- )?[\"']?[\w.\-/]+[\"']?:(?:\s|$))")
_ITEM = re.compile(r"\n[ \t]*+(?:- *+)?[\"']?([^\s\"',][^\n\"',]*)")
_ITEMS = re.compile(r"(?>(?:[\s,]*+(?:\"[^\"\n]*+\"|'[^'\n]*+'|[^\s\"',\[\]{}]++))*)")
_NOTHING = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_QUOTED = re.compile(r"([\"'])((?:(?!\1)[^\n])+)\1")
_SCHEME = re.compile(r"(?i:basic|bearer|negotiate|digest|token)[ \t]++(?=[^\s=]++=*+(?:[\s\"',\]})]|$))")
_FURTHER = re.compile(r"[ \t](?:[\w.-]{1,64}=|--?\w|[|;&>])")
_BASE64 = re.compile(r"(?=.*(?:[A-Z0-9]|=))[\w+/%-]{6,}={0,2}")
_GOES_ON = re.compile(r"[A-Za-z]{1,20}[,:;]?[ \t]")
_NAMED = re.compile(
    r"[nN](?<!\w.)(?:ame|AME)[\"']?[ \t]*+[:=][ \t]*+[\"']?([\w.\-]++)[\"']?,?\s*+"
    r"[\"']?[vV](?:alue|ALUE)[\"']?[ \t]*+[:=][ \t]*+"
)
_VALUE = re.compile(r"[vV](?<![\w.-].)(?:alue|ALUE)[\"']?[ \t]*+[:=][ \t]*+(?=\S)")
_NAME_NEXT = re.compile(r"[\"']?[\s,]*+[\"']?[nN](?:ame|AME)[\"']?[ \t]*+[:=][ \t]*+[\"']?([\w.\-]++)")
_TAG = re.compile(r"(?i:name|key)=[\"']([\w.-]{1,64})[\"'][^<>\n]{0,200}?(?<!/)>([^<>\n]++)(?=</)")

_INDENT = 200  # characters before a name, at most, when it is still at its line's start
_FAR = 4096  # characters of a value that are looked at for its end, or for a name after it
_LONGEST_NAME = 64
_HASH_SCHEME = re.compile(r"\{[\w-]{1,32}\}(?=[\w./+$=-])")  # LDAP's, or a password that begins so

# Passwords that no separator leads to: arguments of commands, netrc, kickstart, and what people say.
_ARGUMENTS = tuple(
    re.compile(rf"\b(?:{programs})\b(?>[^|;\n]{{0,300}}?(?<=[\s,\"'`=\[]){option})[\"']?[\s,=]*+(?=[^\s,;|&])")
    for programs, option in (
        (r"sshpass|login|mysql\w*|htpasswd|racadm|ldap\w+|smbclient", "-[pPw]"),
        (r"ipmitool", "-P"),
        (r"fence_\w+|user(?:add|mod)", "-p"),
        (r"rootpw", r"(?:--(?:plaintext|iscrypted)[ \t]++)?(?=\S)"),
    )
)
_NETRC = re.compile(r"\b(?:machine|login|default)\b(?>(?:\s++(?!password\b)\S{1,128}+){0,5})\s++password[ \t]++(\S++)")
_LINE = re.compile(r"^[ \t]*+(?:password|passphrase|bindpw)[ \t]++([^\s\"'`\\=:]++)(?=[ \t\r]*+$)", re.MULTILINE)
_ECHO = re.compile(
    r"\becho[ \t]++(?:-\w++[ \t]++)?[\"']?(?:\w++:)?([^\s\"'|:]{1,128}+)"
    r"(?=[\"']?[ \t]*+\|[ \t]*+(?:sudo[ \t]++)?(?:chpasswd|passwd|cryptsetup)\b)"
)
_SAID = re.compile(
    r"(?i:\bpass(?:word|phrase|code)s?)(?>(?:[ \t]++(?:is|was|to|:=|(?:changed|set|reset|updated)[ \t]++to)(?=[ \t]))?)"
    r"[ \t]++(?>(?:for [\w.@-]{1,64}:?[ \t]++)?)"
    r"([^\s\"'`\\=:,;(){}<>\[\]|&/]{6,128}+)(?=[\s\"'`\\,;.)]|$)"
)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_ODD = re.compile(r"(?=\D*\d)(?=.*[A-Za-z])")


@lru_cache(256)
def _deeper(column: int) -> re.Pattern[str]:
    return re.compile(rf"(?>(?:\n(?:[ \t]{{{column + 1},}}\S[^\n]*+|[ \t\r]*+(?=\n)))*)")


def deeper(text: str, at: int, column: int) -> int:
    """Find the end of the lines that follow the one which ends at ``at`` and are indented deeper than ``column``."""
    match = _deeper(min(column, _INDENT)).match(text, at)
    return at + len(match[0].rstrip()) if match else at


def closing(text: str, start: int, quote: str, end: int) -> int:
    """Return the end of a text from ``start``, opened by ``quote``; -1 if there is none before ``end``."""
    at = start
    while (at := text.find(quote, at, end)) >= 0:
        first = at
        while first > start and text[first - 1] == "\\":
            first -= 1
        if quote == "'" and text[at + 1 : at + 2] == "'" and at > start:
            at += 2  # how YAML writes one
        elif (at - first) % 2 == 0:
            return at
        else:
            at += 1
    return -1


def line_end(text: str, at: int) -> int:
    """Return the end of the line that has ``at``."""
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _in_document(before: str) -> bool:
    """Tell whether a name after this is a key of YAML."""
    return _AT_START.fullmatch(before) is not None or ("{" in before and _IN_FLOW.search(before) is not None)


class Pairs:
    """The values of sensitive names in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = (0, -1)  # the bounds of the line that was looked at last

    def _end(self, at: int) -> int:
        """Return the end of the line that has ``at``; it may be long, and have many values."""
        if not self._line[0] <= at <= self._line[1]:
            self._line = (at, line_end(self._text, at))
        return self._line[1]

    def hide(self, first: int, last: int, kind: Promise = "password") -> Iterator[Span]:
        """Hide a part of the text, unless it is harmless."""
        value = self._text[first:last]
        if (len(value) < _FAR and harmless(value.strip(), kind)) or (value.isdigit() and len(value) < 4):
            return
        yield first, last, MARK

    def line(self, start: int, end: int) -> Iterator[Span]:
        """Hide values that begin in this line."""
        text = self._text
        done = start
        line = text[start:end]
        pattern, lower = _KEY.prepared(line)
        for match in pattern.finditer(lower):
            begin = start + match.start()
            if begin < done:
                continue
            least = max(done, begin - _LONGEST_NAME)
            while begin > least and text[begin - 1] in _NAME:
                begin -= 1
            name = text[begin : start + match.end()].rstrip(".-")
            kind = sensitive(name)
            if kind == "word?" and not self._meant(begin, begin + len(name)):
                continue
            if kind:
                for span in self._after(begin, begin + len(name), "password" if kind == "word?" else kind):
                    yield span
                    done = max(done, span[1])
        if any(mark in line for mark in ("ass", "ASS", "pw", "-p", "-P", "-w", "crypt", "login")):
            yield from self._phrases(start, end)
        if "ame=" in line or "key=" in line:
            for match in _TAG.finditer(text, start, end):
                if sensitive(match[1]):
                    yield from self.hide(*match.span(2))

    def named(self) -> Iterator[Span]:
        """Hide values of fields called value, before or after the name: {"name": "PASSWORD", "value": ...}."""
        text = self._text
        if "ame" not in text and "AME" not in text:
            return
        for match in _NAMED.finditer(text):
            if sensitive(match[1]):
                yield from self._value(match.end(), "password", match.start(), option=False)
        for match in _VALUE.finditer(text):
            at = match.end()
            least = max(0, match.start() - _INDENT)
            column = match.start() - max(least, text.rfind("\n", least, match.start()) + 1)
            if text[at] in "\"'`":
                first, last = at + 1, closing(text, at + 1, text[at], at + _FAR)
            elif _BLOCK.match(text, at):
                first, last = self._end(at), deeper(text, self._end(at), column)
                first += len(text[first:last]) - len(text[first:last].lstrip())
            else:
                pattern = _WORD if "{" in text[match.start() - column : at] else _WHOLE
                word = pattern.match(text, at, at + _FAR)
                first, last = at, word.end() if word else at
            name = _NAME_NEXT.match(text, last) if last > first else None
            if name is not None and sensitive(name[1]):
                yield from self.hide(first, last)

    def _phrases(self, start: int, end: int) -> Iterator[Span]:
        text = self._text
        for pattern in _ARGUMENTS:
            for match in pattern.finditer(text, start, min(end + 1, len(text))):
                yield from self._value(match.end(), "password", match.end(), option=True)
        if text[start:end].strip(" \t\r-\"',") == "P" and (argument := _NEXT_LINE.match(text, end)):
            yield from self._value(argument.end(), "password", argument.end(), option=True)  # ipmitool's, in lines
        for pattern in (_NETRC, _LINE, _ECHO):
            for match in pattern.finditer(text, start, end if pattern is not _NETRC else min(end + 400, len(text))):
                if not everyday(match[1]):
                    yield from self.hide(*match.span(1))
        for match in _SAID.finditer(text, start, end):
            if _ODD.match(match[1]) and not plain(match[1]):
                yield from self.hide(*match.span(1))

    def _meant(self, start: int, end: int) -> bool:
        """Tell whether an everyday word is the name of a password."""
        text = self._text
        before = text[max(0, start - 80) : start].rpartition("\n")[2]
        if text[start] == "-" or before[-1:] in ("'", '"', "`"):
            return True
        separator = _SEPARATOR.match(text, end)
        after = text[separator.end() : separator.end() + 1] if separator else ""
        # Shells have PWD, and tests say PASS.
        if separator is None or after in ("/", "~", "", "\n") or text[start:end] in ("PASS", "PWD"):
            return False
        return ":" not in separator[0] or (separator[0] == ":" and after.isalnum()) or _in_document(before)

    def _after(self, start: int, end: int, kind: Promise) -> Iterator[Span]:
        """Hide the value that follows the name at start:end."""
        text = self._text
        before = text[max(0, start - 24) : start]
        in_query = before[-1:] in ("?", "&", ";") and text[end + 1 : end + 2] not in ("'", '"', "`")
        option = text[start] == "-" and (not before or before[-1] in " \t\n\"'`,[(=\0")
        separator = _SEPARATOR.match(text, end)
        if kind == "signed?":
            if not (in_query and text[end : end + 1] == "="):
                return
            kind = "secret"
        if separator is None:
            listed = kind == "header" or before[-2:-1] == "(" or before[-3:-1] == "(b"
            argument = self._argument(start, end) if option else _AFTER_COMMA.match(text, end) if listed else None
            if argument is not None:
                yield from self._value(argument.end(), kind, start, option=True)
            elif (element := _ELEMENT.match(text, end)) and _IN_TAG.search(before):
                yield from self.hide(*element.span(1), kind)
            elif kind == "password" and not option and (cited := _CITED_QUOTE.match(text, end)):
                at = cited.end() + 1
                last = closing(text, at, text[at - 1], at + MOST)
                if last > at and not everyday(text[at:last]):
                    yield from self.hide(at, last)
            return
        at = separator.end()
        if separator[0] == "=" and in_query:
            query = _QUERY.match(text, at)
            yield from self.hide(at, query.end(), kind) if query else ()
        elif text[at : at + 1] not in (":", "=") and not text.startswith("//", at):  # a comparison, a scope, a URL
            # An assignment before others, or before a command, ends with its word.
            option = option or (
                separator[0][-1] == "=" and bool(_FURTHER.search(text, at, min(self._end(at), at + 2000)))
            )
            yield from self._value(at, kind, start, option=option)

    def _argument(self, start: int, end: int) -> re.Match[str] | None:
        before = self._text[max(0, start - _INDENT) : start].rpartition("\n")[2]
        alone = _NEXT_LINE.match(self._text, end) if _AT_START.fullmatch(before) else None
        return alone or _ARGUMENT.match(self._text, end)

    def _value(self, at: int, kind: Promise, name: int, *, option: bool) -> Iterator[Span]:
        """Hide the value at ``at`` of the name at ``name``; with ``option`` it ends with its word, as an argument
        does."""
        text = self._text
        begin = max(0, name - _INDENT, text.rfind("\n", max(0, name - _INDENT), name) + 1)
        before = text[begin:name]
        assigned = text[at - 1 : at] == "=" or text[max(0, at - 8) : at].rstrip().endswith("=")
        start = None if option or name - begin >= _INDENT else _AT_START.fullmatch(before)
        if start is not None:
            place = Place.DOCUMENT if before or assigned else Place.START
        else:
            place = Place.DOCUMENT if _in_document(before) else Place.INSIDE
        prefix = _PREFIX.match(text, at)
        at = prefix.end() if prefix else at
        scheme = _SCHEME.match(text, at) if kind == "header" else None
        at = scheme.end() if scheme else at
        end = self._end(at)
        column = name - begin
        if text[at : at + 1] in ("'", '"', "`"):
            yield from self._quoted(at, kind, end, column if start is not None else _INDENT)
        elif text.startswith(MARK, at):
            more = _WORD.match(text, at + len(MARK))
            yield from [(at, more.end(), MARK)] if more else []
        elif text[at : at + 1] in ("[", "{") and not _HASH_SCHEME.match(text, at):
            yield from self._list(at + 1, kind) if "[" in (text[at], text[at - 8 : at - 7]) else ()
        elif start is not None and _BLOCK.match(text, at):
            yield from self._below(end, column, "password")
        elif _NOTHING.match(text, at):
            if start is not None and kind != "header":
                yield from self._next(end, column, kind)
        elif cited := CITED.match(text, at):
            if text[cited.end()] in "\"'`":
                yield from self._quoted(cited.end(), kind, end, _INDENT)
        else:
            leading = start is not None or (kind == "header" and not scheme)
            last = self._plain_end(at, kind, place, leading=leading, option=option, assigned=assigned)
            scalar = start is not None and not start[0].strip(" \t>-\"'`") and not assigned and kind != "header"
            yield from self._plain(at, last, kind, column if scalar else -1)

    def _quoted(self, at: int, kind: Promise, end: int, column: int) -> Iterator[Span]:
        text, first = self._text, at + 1
        quote = text[at]
        if text.startswith(quote * 2, first):  # three of them, as TOML and Python have
            last = text.find(quote * 3, first + 2)
            last = last if last >= 0 else end
            yield from self.hide(first + 2, last, kind)
            return
        last = closing(text, first, quote, end)
        if last < 0 and column < _INDENT:
            below = max(end, deeper(text, end, column - (column > 0)))
            last = closing(text, first, quote, below)
            end = below if last < 0 and column else end
        yield from self.hide(first, last if last >= 0 else end, kind)

    def _list(self, first: int, kind: Promise) -> Iterator[Span]:
        """Hide the items after a bracket: as one in a line, each by itself in lines."""
        text = self._text
        last = _ITEMS.match(text, first).end()  # type: ignore[union-attr]
        if text.startswith(MARK, first) or text[last : last + 1] == "{":
            return
        if "\n" not in text[first:last]:
            yield from self.hide(first, last, kind)
            return
        for item in _QUOTED.finditer(text, first, last):
            yield from self.hide(*item.span(2), kind)

    def _below(self, end: int, column: int, kind: Promise) -> Iterator[Span]:
        """Hide the lines after ``end`` that are indented deeper than ``column``."""
        below = self._text[end : deeper(self._text, end, column)]
        yield from self.hide(end + len(below) - len(below.lstrip()), end + len(below), kind) if below.strip() else ()

    def _next(self, end: int, column: int, kind: Promise) -> Iterator[Span]:
        """Hide a value that begins in the next line: a scalar, or a list of such."""
        text = self._text
        items = re.compile(rf"(?>(?:\n[ \t]{{{column},}}- [^\n]*)+)").match(text, end)
        if items is not None:
            for item in _ITEM.finditer(items[0]):
                if not _ENTRY.match(item[1]):
                    yield from self.hide(end + item.start(1), end + item.end(1), kind)
        elif not _ENTRY.match(text, end):
            yield from self._below(end, column, kind)

    def _plain(self, at: int, last: int, kind: Promise, column: int) -> Iterator[Span]:
        """Hide a plain value; in a document (``column`` is not negative) it goes on in deeper lines, as YAML's do."""
        text = self._text
        if kind == "auth" and not _BASE64.fullmatch(text, at, last):
            return
        end = self._end(at)
        if column >= 0 and (last > at or kind == "password") and not _ENTRY.match(text, end):
            further = deeper(text, end, column)
            whole = _WHOLE.match(text, at)
            if further > end and (not whole or not text[whole.end() : end].strip()):
                last = further
        yield from self.hide(at, last, kind) if last > at else ()

    def _plain_end(self, at: int, kind: Promise, place: Place, *, leading: bool, option: bool, assigned: bool) -> int:
        """Find the end of a value without quotes; ``at`` if what stands there is none."""
        text = self._text
        word = _WORD.match(text, at)
        if word is None:
            return at
        if (
            word.end() - at < _FAR
            and harmless(word[0], kind)
            and text[word.end() : word.end() + 1] in ("", ",", "}", "]", "\n")
        ):
            return at
        clause = _WHOLE.match(text, at, at + MOST)
        if option and not assigned:
            words = text[at : at + 80].split()[:2]
            return at if len(words) == 2 and everyday(" ".join(words)) else word.end()
        if assigned and not leading:
            return at if kind != "password" and everyday(word[0]) else word.end()
        if clause is None or is_prose(clause[0], kind, place):
            return at
        if leading:
            return (_WHOLE.match(text, at) or word).end()
        if place is Place.DOCUMENT:
            return (_FLOW.match(text, at) or word).end()
        if kind == "password" and _GOES_ON.match(text, at):
            return (_WHOLE.match(text, at) or word).end()
        return word.end()
