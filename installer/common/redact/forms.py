"""The forms that one text can have: escaped, encoded, packed."""

from __future__ import annotations

import base64
import binascii
import json
import re
import urllib.parse
import zlib

UNPACKED = 32  # bytes that gzip may unpack to, for each character; a data URL is looked at twice
LEAST = 8 << 10  # and for any text
TOO_LARGE = b"\0too large"  # in the place of what unpacks to more: it may hold anything
LONGEST = 1024  # characters of the longest secret that is looked for in every form
SHORTEST = 6  # characters of a secret that is looked for by its value

BS = r"\\{0,16}"  # the backslashes of any depth of escaping
QUOTE = rf"(?:{BS}[\"'`]|\\{{1,16}}u002[27]|&(?:quot|apos|#3[49]);)"  # Go's JSON and HTML have others
BLANK = r"(?:[ \t\0]|\\{1,16}(?:u0000|x00))"  # between arguments; in /proc/PID/cmdline each is ended by NUL
NEWLINE = r"(?:\\{1,16}r)?\\{1,16}n"  # inside of a quoted text

HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")


def closing(text: str, start: int, quote: str, depth: int) -> int:
    """The end of a text from ``start``, opened by ``quote`` after ``depth`` backslashes: the place of those before its
    closing quote; -1 if there is none."""
    at = start
    while (at := text.find(quote, at)) >= 0:
        first = at
        while first > start and text[first - 1] == "\\":
            first -= 1
        if quote == "'" and not depth and text[at + 1 : at + 2] == "'" and at > start:
            at += 2  # how YAML writes one
        elif (at - first) % (2 * (depth + 1)) <= depth:
            return at - min(depth, at - first)
        else:
            at += 1
    return -1


def instead(text: str, spans: list[tuple[int, int, str]]) -> str:
    """The text with each span (begin, end, replacement) replaced; of overlapping ones the first only."""
    out: list[str] = []
    done = 0
    for first, last, other in sorted(spans):
        if first >= done:
            out += (text[done:first], other)
            done = last
    return "".join((*out, text[done:])) if out else text


def budget(text: str) -> list[int]:
    """How many bytes all that is in a text may unpack to together: one number, which `decoded` counts down."""
    return [LEAST + UNPACKED * len(text)]


def decoded(run: str, left: list[int] | None = None) -> bytes:
    """What base64 of either alphabet stands for, unpacked if it is gzip; nothing when it is no base64, TOO_LARGE when
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
    """Bytes as text, less a character that is cut at their end; None when they are not text."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if error.start < len(raw) - 3 or not error.start:
            return None
        text = raw[: error.start].decode()
    return None if "\0" in text else text


def is_login(run: str) -> bool:
    """Whether base64 stands for user:password."""
    text = readable(decoded(run))
    return text is not None and text.isprintable() and 0 < text.find(":") < len(text) - 1


def is_key(raw: bytes) -> bool:
    """Whether a private key begins here: in DER with a version (a certificate has a sequence), or in OpenSSH's form."""
    if raw.startswith(b"openssh-key-v1\0"):
        return True
    if raw[:1] != b"\x30" or len(raw) < 12:
        return False
    body = raw[2 + (raw[1] & 0x7F if raw[1] & 0x80 else 0) :]
    return body.startswith((b"\x02\x01\x00\x02", b"\x02\x01\x00\x30", b"\x02\x01\x01\x04", b"\x02\x01\x01\x30"))


def encodings(secret: str) -> set[str]:
    """A known secret in every form: plain, escaped once and twice, for URLs, in base64 of a text with it."""
    if len(secret) > LONGEST:
        return {secret, json.dumps(secret)[1:-1]}  # looking for all forms of a file takes longer than it is worth
    spellings = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], secret.replace("'", "''")}
    spellings |= {json.dumps(text)[1:-1] for text in list(spellings)}
    spellings |= {urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret), urllib.parse.quote_plus(secret)}
    raw = secret.encode(errors="surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        spellings.add(encode(raw).decode().rstrip("="))
        for shift in range(3) if len(raw) >= 12 else ():
            whole = encode(b"\0" * shift + raw).decode().rstrip("=")
            # Characters that the bytes before and behind have a part in are left off.
            spellings.add(whole[-(-shift * 8 // 6) : len(whole) - bool((shift + len(raw)) % 3)])
    return {text for text in spellings if len(text) >= SHORTEST}
