"""Kubernetes' Secrets: whose data are secrets whatever they are called."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .forms import BS, NEWLINE, QUOTE, closing
from .hint import MARK
from .names import harmless, sensitive

_TAGS = r"(?>(?:[&!][^\s{]*+[ \t]*+){0,3})"
_REMARK = r"(?:(?<=[\s{:])#[^\n]*+)?"
OBJECT = re.compile(
    rf"(?m:^(?:[^\n]{{0,120}}[:FP] )?[ \t]*(?:-[ \t]+)?[\"']?kind[\"']?:[ \t]*{_TAGS}[\"']?Secret[\"']?[ \t\r]*,?"
    r"(?:[ \t]+#[^\n]*)?[ \t\r]*$)"
)
KIND = re.compile(r"(?m)^[ \t]*(?:-[ \t]+)?[\"']?kind[\"']?:[^\n]*\n")
DATA = re.compile(r"(?m)^[ \t]*(?:-[ \t]+)?[\"']?data[\"']?:")
VALUE = re.compile(r"(?m)^[ \t]*(?:- )?[\"']?(?i:value)[\"']?[ \t]*[:=][ \t]*")
_NAME = re.compile(r"[\"']?(?i:name)[\"']?[ \t]*[:=][ \t]*[\"']?([\w.\-]{1,253})")
DATA_LINE = re.compile(rf"([ \t]*)(?:-[ \t]+)?[\"']?(stringData|data)[\"']?:[ \t]*{_TAGS}\{{?[ \t\r]*{_REMARK}[ \t\r]*")
_FLOW_LINE = re.compile(rf"[ \t]*(?:-[ \t]+)?[\"']?(stringData|data)[\"']?:[ \t]*{_TAGS}\{{(?=[^\n]*[^\s])")
_INLINE = re.compile(
    rf"(?<![\w.-])kind(?>(?:{QUOTE})?)[ \t]*+:[ \t]*+(?>(?:{QUOTE})?)Secret(?>(?:{QUOTE})?)(?=[ \t]*+(?:[,}}\]]|$))"
)
_DATA_INLINE = re.compile(rf"(?<![\w.-])(?:data|stringData)(?>(?:{QUOTE})?)[ \t]*+:[ \t]*+{_TAGS}\{{")
_ITEM = re.compile(
    rf"(?>(?:[\s,]|{NEWLINE})*)(?:{BS}[\"'][\w.\-/]{{1,253}}+{BS}[\"']|[\w.\-/]{{1,253}}+)[ \t]*+:[ \t]*+{_TAGS}"
)
_OPEN = re.compile(rf"({BS})([\"'])")
_NOTHING = re.compile(rf"(?>(?:[\s,]|{NEWLINE})*)")
_REST = re.compile(r"[^{}\n]*+")
_PLAIN = re.compile(r"[^,{}\n]*+")


def line(text: str, of_secret: bool) -> tuple[str, bool]:
    """The line without the data in braces after `data:`, and whether these may go on in the next line: the braces are
    not closed."""
    match = _FLOW_LINE.match(text)
    if match is None or not (of_secret or match[1] == "stringData"):
        return text, False
    clean, end, ended = _data(text, match.end())
    return text[: match.end()] + clean + text[end:], not ended


def inline(text: str) -> str:
    """The line without the data of Secrets that stand in it."""
    if "Secret" not in text or not _INLINE.search(text):
        return text
    out: list[str] = []
    done = 0
    for match in _DATA_INLINE.finditer(text):
        if match.start() >= done:
            clean, end, _ = _data(text, match.end())
            out += (text[done : match.end()], clean)
            done = end
    return "".join((*out, text[done:])) if out else text


def named_behind(value: re.Match[str], lines: Iterable[str | None]) -> bool:
    """Whether the object that `value` is a field of has the name of a secret, in one of the lines that follow."""
    key = value[0].lstrip(" \t-")
    column = value[0].index(key)
    for body in lines:
        if body is None:
            continue
        bare = body.lstrip(" \t")
        indent = len(body) - len(bare)
        if indent > column or not bare:
            continue
        if indent < column or bare.startswith("- "):
            return False
        if name := _NAME.match(bare):
            return bool(sensitive(name[1]))
    return False


def _data(text: str, at: int) -> tuple[str, int, bool]:
    """What is in the braces opened before ``at``, without values; where that ends; whether the braces do."""
    out: list[str] = []
    while (item := _ITEM.match(text, at)) is not None:
        first = last = item.end()
        opened = _OPEN.match(text, first)
        if opened is not None:
            first = opened.end()
            last = closing(text, first, opened[2], len(opened[1]))
            if last < 0:
                return "".join((*out, text[at:first], MARK)), len(text), False
            end = last + len(opened[0])
        elif text.startswith(MARK, first):
            last = end = first + len(MARK)
        elif text[first : first + 1] in ("{", "["):
            return "".join(out), at, True  # no Secret has that
        else:
            plain = _PLAIN.match(text, first)
            end = plain.end() if plain else first
            last = first + len(text[first:end].rstrip())
        value = text[first:last]
        out += (text[at:first], value if harmless(value) else MARK, text[last:end])
        at = end
    rest = _REST.match(text, at)
    end = rest.end() if rest else at
    if _NOTHING.fullmatch(text, at, end):
        return "".join(out), at, text[end : end + 1] == "}"
    # Whatever is written so, it is data of a Secret.
    return "".join((*out, MARK)), end, text[end : end + 1] == "}"
