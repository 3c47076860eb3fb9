"""The redactor takes secrets out of texts, JSON values and streams: line by line, knowing what the last one began."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any

from . import looks, objects, phrases, streams
from .forms import SHORTEST, budget, closing, decoded, encodings, readable
from .hint import MARK, hinted
from .names import distinctive, harmless, sensitive
from .pairs import Pairs

PIECE = 1 << 20  # bytes that are read at once
LONGEST = 4 << 20  # characters of a line that is looked at as a whole
NEAR = 32 << 10  # characters around the place where a longer line is cut
DEEPEST = 4  # encodings inside of each other
ROUNDS = 4  # looks at a line: a secret that is replaced may make another one stand out

#: A line's head in a journal or a container's log, or one in the other: each line of a longer text has one.
_HEAD = re.compile(
    r"(?>(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:.]++|\d{4}-\d\d-\d\d[T ][\d:.,]++(?>(?:Z|[+-]\d\d:?\d\d)?)) "
    r"(?>(?:std(?:out|err) [FP] |[^\s:]++ [^\s:\[]++(?>(?:\[\d++\])?): )?)){0,3})"
)
_ENCODED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-="
_DIGITS = re.compile(r"\d+")
_KEY_LINE = re.compile(r"(?=.*[A-Z0-9+/=])[A-Za-z0-9+/]{1,128}={0,2}|(?:Proc-Type|DEK-Info|Comment|Version): .*")
_ENTRY = re.compile(r"([ \t]*)([\"']?[\w.\-/]+[\"']?:)(?=[ \t]|$)")
_PUTTY = re.compile(r"Private-Lines: ?(\d{1,3})[ \t\r]*")
_KEY_FILE = re.compile(r"[\"']?(?i:key_?file)[\"']?:[ \t]*\{?[ \t\r]*$")
_SOURCE = re.compile(r"[ \t]*[\"']?(?:source|inline)[\"']?:[ \t]*[\"']?([^\s\"']+)")
_QUOTED = re.compile(r"([\"'])(?:(?!\1).)+\1")


class Redactor:
    """Takes out what looks like a secret, and the values given as ``known`` in every encoding.

    Not for several threads at once.
    """

    def __init__(self, known: Iterable[str] = (), *, depth: int = 0) -> None:
        self.known: list[str] = []
        self.secrets: set[str] = set()
        self._depth = depth
        self._left: list[int] | None = None  # how many bytes may be unpacked, where another one's text is looked into
        self._rest = streams.Rest()
        self._pairs = Pairs(lambda mode, column, quote: self._begun.append((mode, column, quote)), self.secrets.add)
        self._begun: list[tuple[streams.Mode, int, str]] = []
        self._learn(known)

    def _learn(self, values: Iterable[str]) -> None:
        forms = set(self.known)
        for value in values:
            # Each line of a longer secret is looked for: texts are read line by line.
            for part in (value.strip(), *(line.strip() for line in value.splitlines() if len(line.strip()) >= 16)):
                if len(part) >= SHORTEST and part not in MARK:
                    forms |= encodings(part)
        # The longest first: one may be a part of another.
        self.known = sorted(forms, key=lambda form: (-len(form), form))

    def learn(self, document: str) -> None:
        """Learn every secret of a document (a pull secret, a config, an environment), to find it by its value."""
        secrets: set[str] = set()
        texts = [document]
        while texts:
            reader = Redactor()
            reader.text(texts.pop())
            # A pull secret is one, and holds others.
            texts += reader.secrets - secrets
            secrets |= reader.secrets
        values = set(filter(distinctive, secrets))
        for value in list(values):
            login = readable(decoded(value)) or ""
            if login.isprintable() and ":" in login:
                values |= {part for part in (login, login.partition(":")[2]) if distinctive(part)}
        self._learn(values)

    def text(self, text: str) -> str:
        """A whole document, or one line of it, without secrets."""
        self._rest = streams.Rest()
        if len(text) <= LONGEST:
            return self._lines(text)
        return "".join(self._pieces(text[at : at + PIECE] for at in range(0, len(text), PIECE)))

    def value(self, value: Any) -> Any:
        """A copy of a JSON value without secrets; JSON inside of its texts stays JSON."""
        try:
            return self._value(value)
        except RecursionError:
            return MARK  # nested too deeply to be looked into: it may hold anything

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        return self._string(value) if isinstance(value, str) else value

    def stream(self, source: IO[bytes]) -> Iterator[bytes]:
        """What is read from ``source`` without secrets, piece by piece."""
        self._rest = streams.Rest()
        for piece in self._pieces(streams.texts(source, PIECE)):
            yield piece.encode("utf-8", "surrogateescape")

    def _pieces(self, texts: Iterable[str]) -> Iterator[str]:
        held = ""
        endless = False
        for text in texts:
            held += text
            if endless:
                held = held.lstrip(_ENCODED)
                endless = not held
            if len(held) < PIECE:
                continue
            cut = streams.whole_lines(held, 4 * PIECE)
            if not cut and len(held) > LONGEST:
                cut = self._cut(held)
                if not cut:
                    # One word of base64, too long to be looked into: it may hold anything.
                    start = len(held.rstrip(_ENCODED))
                    endless = len(held) - start > NEAR
                    held, cut = (held[:start] + MARK, start + len(MARK)) if endless else (held, len(held))
            if cut:
                yield self._lines(held[:cut])
                held = held[cut:]
        if held:
            yield self._lines(held)

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copy a stream without its secrets."""
        for piece in self.stream(source):
            target.write(piece)

    # ---- JSON values

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        of_secret = value.get("kind") == "Secret"
        named = isinstance(value.get("name"), str) and sensitive(value["name"])
        clean: dict[Any, Any] = {}
        for key, item in value.items():
            kind = sensitive(str(key)) or ("secret" if named and str(key).lower() == "value" else "")
            kind = "" if kind == "signed?" else kind
            if of_secret and key in ("data", "stringData") and isinstance(item, dict):
                item = {name: MARK if part else part for name, part in item.items()}
            elif kind and isinstance(item, str | int | float) and not isinstance(item, bool):
                text = str(item)
                if not harmless(text, kind) and (isinstance(item, str) or len(text) > 3):
                    self.secrets.add(text)
                    item = MARK
            elif isinstance(item, dict) and looks.secret_file(str(key), value):
                hidden = ("source", "inline")
                item = {name: MARK if name in hidden else self._value(part) for name, part in item.items()}
            elif kind and isinstance(item, list) and not any(isinstance(part, dict | list) for part in item):
                item = [MARK if part not in (None, "", True, False) else part for part in item]
            else:
                item = self._value(item)
            clean[self._string(key) if isinstance(key, str) else key] = item
        return clean

    def _list(self, value: list[Any] | tuple[Any, ...]) -> list[Any]:
        items = [self._value(item) for item in value]
        for at, (name, item) in enumerate(itertools.pairwise(value), 1):
            if not isinstance(name, str) or not isinstance(item, str) or harmless(item):
                continue
            option = name.startswith("-") and not item.startswith("-")
            if sensitive(name) if option else (at == 1 and sensitive(name) == "header"):
                items[at] = MARK
        if any(isinstance(item, str) and item[:1] == "-" for item in items):
            line = json.dumps([item if isinstance(item, str) else None for item in items])
            try:
                scanned = json.loads(self._scan(line))
            except ValueError:
                return [item if item is None else MARK for item in items]  # it is no list any more: a quote is gone
            items = [new if isinstance(new, str) else old for new, old in zip(scanned, items, strict=False)]
        return items

    def _string(self, text: str) -> str:
        if text[:1] in "{[" and text[-1:] in "}]" and len(text) > 1:
            try:
                inner = json.loads(text)
                cleaned = self._value(inner)
                return text if cleaned == inner else json.dumps(cleaned)
            except (ValueError, RecursionError):
                pass  # it is looked at as any text
        return self.text(text)

    # ---- lines

    def _lines(self, text: str) -> str:
        for form in self.known:
            if form in text:
                text = text.replace(form, MARK)
        rest = self._rest
        if not rest.mode and not rest.of_secret and not hinted(text):
            return text
        documents = [objects.OBJECT.search(part) is not None for part in re.split(r"(?m)^---", text)]
        documents[0] |= rest.of_secret
        rest.of_secret = documents[-1]
        number = 0
        ended = text.endswith("\n")
        out: list[str] = []
        lines = (text[:-1] if ended else text).split("\n")
        for at, line in enumerate(lines):
            number += line.startswith("---")
            clean = self._line(line, documents[number], lines, at)
            if clean is not None:
                out.append(clean)
        return "\n".join(out) + ("\n" if ended and out else "")

    def _body(self, line: str, source: str) -> str | None:
        """A line without its head; None if another program wrote it."""
        head = _HEAD.match(line)[0]  # type: ignore[index]
        return line[len(head) :] if _DIGITS.sub("0", head) == source else None

    def _line(self, line: str, of_secret: bool, lines: list[str], number: int) -> str | None:
        """One line of `lines`, without secrets; None if nothing is left of it."""
        rest = self._rest
        head = _HEAD.match(line)[0]  # type: ignore[index]
        at = len(head)
        source = _DIGITS.sub("0", head)
        if rest.mode and (not head or source == rest.source):
            if not head and rest.width and line[: rest.width].isspace():
                at = rest.width
            rest.left -= 1
            continued, clean = self._continued(line[at:]) if rest.left > 0 else (False, None)
            if continued:
                return line[:at] + (clean if clean is not None else MARK) if head or clean is not None else None
            rest.mode = ""
        body = line[at:]
        rest.begun = False
        if (match := objects.VALUE.match(body)) and objects.named_behind(
            match, (self._body(other, source) for other in lines[number + 1 : number + 65])
        ):
            clean = self._valued(body, match.end())
            return line[:at] + self._owned(clean, source, len(head))
        if not hinted(body) and not (of_secret or "tringData" in body):
            return line
        self._begun.clear()
        body, goes_on = objects.line(body, of_secret)
        clean = self._scan(body)
        if goes_on:
            rest.begin("data", len(body) - len(body.lstrip()))
        elif self._begun:
            rest.begin(*self._begun[-1])
        elif (looks.KEY_BEGIN.search(body) and "-----END" not in body[body.rfind("-----BEGIN") :]) or (
            clean.strip() == MARK and len(body.strip()) >= 60 and _KEY_LINE.fullmatch(body.strip())
        ):
            rest.begin("key", 0)
        elif match := _PUTTY.fullmatch(body):
            rest.begin("lines", 0)
            rest.left = int(match[1]) + 1
        elif (match := objects.DATA_LINE.fullmatch(body)) and (of_secret or match[2] == "stringData"):
            rest.begin("data", len(match[1]))
        elif match := _KEY_FILE.search(body):
            rest.begin("file", len(body) - len(body.lstrip()))
            rest.left = 6
        elif (match := phrases.OPTION_LINE.fullmatch(body)) and (match[1] == "-P" or sensitive(match[1])):
            rest.begin("argument", 0)
        return line[:at] + self._owned(clean, source, len(head))

    def _owned(self, clean: str, source: str, width: int) -> str:
        """The line, noting its head: what has begun in it goes on in lines with the same one only."""
        if self._rest.begun:
            self._rest.source, self._rest.width = source, width
        return clean

    def _scan(self, text: str) -> str:
        for _ in range(ROUNDS):
            before = text
            text = objects.inline(text)
            # Private keys go before names are looked at: their lines are no values.
            text = looks.keys(text) if "-----BEGIN" in text else text
            left = budget(text) if self._left is None else self._left
            inner = looks.Inner(partial(self._inner, left=left), left)
            text = looks.clean(self._pairs.clean(text), inner if self._depth < DEEPEST else None)
            if text == before:
                break
        return text

    def _inner(self, text: str, left: list[int]) -> str:
        """What is encoded in a text; more may be encoded in that."""
        inside = Redactor(depth=self._depth + 1)
        inside._left = left
        inside.known = self.known
        clean = inside.text(text)
        self.secrets |= inside.secrets
        return clean

    def _continued(self, body: str) -> tuple[bool, str | None]:
        """A further line of what has begun: whether it is one, and what is left of it."""
        rest = self._rest
        bare = body.strip()
        indent = len(body) - len(body.lstrip(" \t"))
        if rest.mode == "key":
            return self._key_line(body, bare)
        if rest.mode == "lines":
            return True, MARK
        if rest.mode == "argument":
            rest.mode, clean = "", phrases.argument(body)
            return clean is not None, clean
        if rest.mode == "named":
            match = objects.VALUE.match(body)
            return (True, self._valued(body, match.end())) if match and bare[0] != "-" else (False, None)
        if rest.mode == "file":
            match = _SOURCE.match(body)
            if match:
                rest.mode = ""
                return True, body[: match.start(1)] + MARK + body[match.end(1) :]
            return "}" not in body, body
        if not bare:
            return True, body
        if rest.mode == "list":
            return ("]" not in bare, _QUOTED.sub(rf"\1{MARK}\1", body))
        if rest.mode == "more" and _ENTRY.match(body):
            return False, None
        item = bare.startswith("- ") and rest.mode == "next"
        if indent < rest.indent or (indent == rest.indent and not item and (rest.mode != "quote" or not indent)):
            return False, None
        if rest.mode in ("block", "more"):
            first, rest.shown = not rest.shown, True
            return True, body[:indent] + MARK if first else None
        if rest.mode == "quote":
            end = closing(body, 0, rest.quote, 0)
            if end >= 0:
                rest.mode = ""
                # Three of them stay, as the opening ones do.
                after = body[end + (len(rest.quote) == 1) :]
                return True, self._scan(after) if after.strip() else None
            first, rest.shown = not rest.shown, True
            return True, MARK if first and len(rest.quote) == 3 else None
        if rest.mode == "data":
            return self._data_line(body, indent)
        return self._next_line(body, bare, indent, item)

    def _key_line(self, body: str, bare: str) -> tuple[bool, str | None]:
        end = body.find("-----END")
        if end >= 0:
            self._rest.mode = ""
            after = body[body.find("-----", end + 8) + 5 :]
            return True, self._scan(after) if after.strip() else None
        plain = bare.strip("\"',+\\#|> ")
        return (not plain or _KEY_LINE.fullmatch(plain) is not None), None

    def _data_line(self, body: str, indent: int) -> tuple[bool, str | None]:
        rest = self._rest
        match = _ENTRY.match(body)
        if match is None or (rest.child >= 0 and indent > rest.child):
            first, rest.shown = not rest.shown, True
            return True, body[:indent] + MARK if first and rest.child >= 0 else None
        rest.child, rest.shown = indent, True
        value = body[match.end() :].strip()
        comma = "," if value.endswith(",") else ""
        value = value.rstrip(",")
        if harmless(value.strip("\"'")):
            return True, body
        if value[:1] in "|>":
            rest.shown = False
            return True, body
        quote = value[0] if value[0] in "\"'" else ""
        self.secrets.add(value.strip("\"'"))
        return True, f"{match[0]} {quote}{MARK}{quote}{comma}"

    def _next_line(self, body: str, bare: str, indent: int, item: bool) -> tuple[bool, str | None]:
        rest = self._rest
        if bare in ("[", "- ["):
            rest.mode = "list"
            return True, body
        value = bare[2:].strip() if item else bare
        if bare[:1] in "{[" or _ENTRY.match(value) or value.startswith("{"):
            return False, None
        if not item:
            rest.begin("block", rest.indent)
            rest.shown = True
        start = indent + (len(bare) - len(value) if item else 0)
        if harmless(value.strip("\"'")):
            return True, body
        self.secrets.add(value.strip("\"'"))
        return True, body[:start] + MARK

    def _valued(self, body: str, at: int) -> str:
        """A line `value: ...` without its value, which begins at ``at``."""
        self._rest.mode = ""
        self._begun.clear()
        span = self._pairs.value(body, at, "password", len(body) - len(body.lstrip(" \t-")))
        if self._begun:
            self._rest.begin(*self._begun[-1])
        return body[: span[0]] + span[2] + body[span[1] :] if span else self._scan(body)

    def _cut(self, text: str) -> int:
        """Where a line that does not end can be cut without cutting a secret: both halves read as the whole; or 0."""
        other = Redactor(depth=self._depth)
        other.known = self.known
        at = len(text) - NEAR
        for _ in range(64):
            at = max(text.rfind(mark, 0, at) for mark in (",", " ", ";", "}"))
            if at < NEAR:
                break
            near, far = text[at + 1 - NEAR : at + 1], text[at + 1 : at + 1 + NEAR]
            if other.text(near + far) == other.text(near) + other.text(far):
                return at + 1
        return 0
