"""Passwords that no separator leads to: arguments of commands, netrc, kickstart, and what people say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .forms import BLANK, NEWLINE, QUOTE
from .hint import MARK
from .names import harmless, sensitive
from .prose import everyday, plain

_ANY = rf"(?>(?:{QUOTE})?)"
_GAP = rf"(?>(?:{BLANK}|\s|{NEWLINE})+)"
_BEFORE_OPTION = r"(?:(?<=[\s,\"'`=\[\0])|(?<=u0000)|(?<=x00)|(?<=u002[27]))"
_OPTIONS = tuple(
    re.compile(
        rf"\b(?:{programs})\b(?>[^|;\n]{{0,300}}?{_BEFORE_OPTION}{option}){_ANY}(?>(?:{BLANK}|,|=)*)(?=[^\s,;|&])"
    )
    for programs, option in (
        (r"sshpass|login|mysql\w*|htpasswd|racadm|ldap\w+|smbclient", "-[pPw]"),
        (r"ipmitool", "-P"),
        (r"fence_\w+|user(?:add|mod)", "-p"),
        (r"rootpw", r"(?:--(?:plaintext|iscrypted)[ \t]++)?(?=\S)"),
    )
)
_NETRC = re.compile(
    rf"\b(?:machine{BLANK}[^\s\\\0]++|default|login{BLANK}[^\s\\\0]++){_GAP}"
    rf"(?>(?:(?:login|account){BLANK}[^\s\\\0]++{_GAP}){{0,2}})password[ \t]++(?=\S)"
)
_VALUE = re.compile(rf"(?>(?:(?!{NEWLINE}|{QUOTE}(?=$|[\s,;}}\])]))\S)+)")
_ODD = re.compile(r"(?=[^\W_]*[^A-Za-z]*\d|\D*\d)(?=.*[A-Za-z])")
# A line of a netrc, or of a table with blanks or a tabulator between names and values.
_LINE = re.compile(
    rf"(?:^|{NEWLINE})[ \t]*+(?:password|passphrase|bindpw)[ \t]++([^\s\"'`\\=:]++)(?=[ \t\r]*+(?:$|{NEWLINE}))"
)
_ECHO = re.compile(
    rf"\becho[ \t]++(?:-\w++[ \t]++)?{_ANY}(?:\w++:)?([^\s\"'|:]{{1,128}}+)"
    rf"(?={_ANY}[ \t]*+\|[ \t]*+(?:sudo[ \t]++)?(?:chpasswd|passwd|cryptsetup)\b)"
)
_TAG = re.compile(r"(?i:name|key)=[\"']([\w.-]{1,64})[\"'][^<>\n]{0,200}?(?<!/)>([^<>\n]++)(?=</)")
# One of several arguments that have a line each.
OPTION_LINE = re.compile(r"[ \t]*(?:-[ \t]+)?[\"']?(--?[A-Za-z][\w-]*)[\"']?,?[ \t\r]*")
_ARGUMENT_LINE = re.compile(r"([ \t]*(?:-[ \t]+)?([\"']?))([^-\s\"'][^\n]*?)(?=\2,?[ \t\r]*$)")
_PASSWORD_IN_PROSE = re.compile(
    r"(?i:\bpass(?:word|phrase|code)s?)(?>(?:[ \t]++(?:is|was|to|:=|(?:changed|set|reset|updated)[ \t]++to)(?=[ \t]))?)"
    r"[ \t]++(?>(?:for [\w.@-]{1,64}:?[ \t]++)?)"
    r"([^\s\"'`\\=:,;(){}<>\[\]|&/]{6,128}+)(?=[\s\"'`\\,;.)]|$)"
)


def arguments(text: str) -> Iterator[int]:
    """Where passwords begin in the arguments of commands."""
    for pattern in _OPTIONS:
        for match in pattern.finditer(text):
            yield match.end()


def argument(line: str) -> str | None:
    """The line, which follows that of an option, without its argument; None if it has none."""
    match = _ARGUMENT_LINE.match(line)
    return line[: match.start(3)] + MARK + line[match.end() :] if match and not harmless(match[3]) else None


def words(text: str) -> Iterator[tuple[int, int]]:
    """Bounds of passwords in lines of netrc or kickstart, and in sentences."""
    for match in _LINE.finditer(text):
        if not everyday(match[1]):
            yield match.span(1)
    for match in _NETRC.finditer(text):
        value = _VALUE.match(text, match.end())
        if value is not None and not everyday(value[0]):
            yield value.span()
    for match in _ECHO.finditer(text):
        yield match.span(1)
    for match in _TAG.finditer(text):
        if sensitive(match[1]) and match[2].strip():
            yield match.span(2)
    for match in _PASSWORD_IN_PROSE.finditer(text):
        if _ODD.match(match[1]) and not plain(match[1]):
            yield match.span(1)
