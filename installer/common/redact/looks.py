"""Secrets that are known by their own form, wherever they stand: keys, tokens, hashes, logins, and encodings of
these."""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .hint import MARK
from .names import harmless, sensitive
from .views import TOO_LARGE, Span, decoded, readable

_KEY_BEGIN = re.compile(r"-----BEGIN(?:[ +][A-Z0-9]++){0,4}?[ +]PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
_HEADER = r"(?:Proc-Type|DEK-Info|Comment|Version): ?[\w,. -]++"
# Further lines, each as a whole.
_BODY = r"(?>(?:\s{1,40}(?:Proc-Type:.*|DEK-Info:.*|[A-Za-z0-9+/]{1,128}={0,2}[ \t\r]*)$)*)"
_KEY = re.compile(
    rf"{_KEY_BEGIN.pattern}(?:(?>(?:{_HEADER}|[A-Za-z0-9+/=\s\"',])*)-----END[ +][A-Z0-9 +]{{1,60}}-----"
    rf"|(?>(?:{_HEADER}|[A-Za-z0-9+/=])*){_BODY})",
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"eyJ[\w-]*+(?:\.[\w-]*+\.[\w-]*+(?:\.[\w-]++\.[\w-]++)?)?"
    r"|sha256~[\w-]{20,}+|(?:gh[posr]|github_pat|glpat|dckr_pat)[-_][\w-]{16,}+|AGE-SECRET-KEY-1[A-Z0-9]{20,}+"
    r"|\b[a-z0-9]{6}\.(?=[a-z]*\d)[a-z0-9]{16}(?![\w.-])"
    r"|(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?:[A-Za-z0-9]{5}-){3}[A-Za-z0-9]{5}(?![\w-])"
    r"|\$(?:2[abxy]|[1567]|y|gy|sha1|apr1|argon2(?:id?|d))\$[\w./$=,+-]{8,}+"
)
_BASIC = re.compile(r"\b[Bb]asic[ ,]++[\"']?([A-Za-z0-9+/]{6,}+={0,2})")
_BEARER = re.compile(r"\b[Bb]earer[ ,]++[\"']?(?=[^\s\d]*\d)([\w.~+/-]{16,}+=*+)")
_URL = re.compile(r"://((?>(?:(?!://)[^\s\"'`<>\\])+))")
_LOGIN = re.compile(
    r"(?<![\w/@.:%+-])([A-Za-z_][\w.+-]{0,63}):([^\s:@/\"'`<>\\,;()\[\]]{1,128})@"
    r"(?=((?:[\w-]{1,63}\.)+[\w-]{1,63}(?![\w@])|[\w-]{1,63}:\d|\[[0-9a-fA-F:.]{2,64}\]))"
)
# dracut.cmdline(7): netroot=iscsi:[<user>:<password>[:<reverse user>:<reverse password>]]@<server>:...
_ISCSI = re.compile(r"\biscsi:[^\s:@]{1,128}:([^\s@]{1,300})(?=@)")
# Arguments in auditd's records: hex, with NUL between them.
_PROCTITLE = re.compile(r"\bproctitle=((?:[0-9A-Fa-f]{2}){8,})\b", re.IGNORECASE)
_LIBVIRT = re.compile(r"<secret\b[^<>]*>\s*<value>([^<>]+)(?=</value>)")
_PUTTY = re.compile(r"Private-Lines: ?\d++[ \t\r]*+((?>(?:\n[A-Za-z0-9+/]{1,128}={0,2}[ \t\r]*$)+))", re.MULTILINE)
_NO_LOGIN = re.compile(r"(?i:mailto|from|to|cc|e?mail|by|contact|maintainer|sips?|xmpp|acct)")
_UNIT = re.compile(r"[\w-]+\.(?:service|timer|socket|slice|scope|mount|target|device|path)\b|sha\d+:")
# After curl or wget the option may be one of a cluster, and its argument need no blank.
_OPTION = re.compile(
    r"(?:(?<![\w-])(?:-[uU]|--(?:proxy-)?user|--(?:src-|dest-)?creds|--basic-auth)[\"']?(?:[\s=]++|,[ \t]*+)"
    r"|\b(?:curl|wget)\b(?>[^|;\n]{0,300}?[\s,\"']-[a-zA-Z#]{0,8}u(?=[^\s=]{1,64}:|[\s\"']))[\"']?[ \t,]*+)"
    r"[\"']?([^\s\"'\\:]++):(?!//)([^\s\"'\\]++)"
)
_DATA = re.compile(r"data:([\w/+.-]{0,80}(?:;[\w=.\-]{1,80}){0,8}?)(;base64)?,([^\s\"'`<>\\)]++)")
_KEY_FILE = re.compile(r"(?i:key_?file)[^}]{0,160}$")
_PATH = re.compile(r"\bpath[\"']?[ \t]*:[ \t]*[\"']?([^\s\"'\\,]{1,200})")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_STARTS = ("LS0tLS1CRUdJTi", "eyJ", "H4sI")
_LINES = re.compile(_BODY, re.MULTILINE)


class Inner(NamedTuple):
    """The way to look at what is encoded in a text: what cleans it, and how many bytes may be unpacked for that."""

    clean: Callable[[str], str]
    left: list[int]


def keys(text: str) -> Iterator[Span]:
    """Private keys, most of which have several lines."""
    if "-----BEGIN" in text:
        yield from ((*match.span(), MARK) for match in _KEY.finditer(text))
    if "Private-Lines" in text:
        yield from ((match.start(1) + 1, match.end(1), MARK) for match in _PUTTY.finditer(text))


def found(text: str, start: int, end: int, inner: Inner | None) -> Iterator[Span]:
    """Find what looks like a secret in a line. ``inner`` cleans what is encoded in it; None: too deep to look."""
    line = text[start:end]
    for match in _TOKEN.finditer(text, start, end):
        if not match[0].startswith("eyJ") or "." in match[0]:
            yield *match.span(), MARK
    for pattern, needed in ((_ISCSI, "iscsi:"), (_LIBVIRT, "<secret"), (_BEARER, "earer")):
        if needed in line:
            yield from ((*match.span(1), MARK) for match in pattern.finditer(text, start, end))
    if "asic" in line:
        yield from ((*m.span(1), MARK) for m in _BASIC.finditer(text, start, end) if is_login(m[1]))
    if "-u" in line or "-U" in line or "--" in line or "curl" in line or "wget" in line:
        for match in _OPTION.finditer(text, start, end):
            if not harmless(match[2]) and not (match[1] + match[2]).isdigit():
                yield *match.span(2), MARK
    if "@" in line:
        for match in _LOGIN.finditer(text, start, end):
            if not (_NO_LOGIN.fullmatch(match[1]) or _UNIT.match(match[3]) or harmless(match[2])):
                yield *match.span(2), MARK
        for match in _URL.finditer(text, start, end):
            yield from _login_of_url(match)
    if inner is None:
        return
    if "data:" in line:
        for match in _DATA.finditer(text, start, end):
            yield from _data(match, inner)
    if "roctitle" in line.lower():
        for match in _PROCTITLE.finditer(text, start, end):
            words = bytes.fromhex(match[1]).decode(errors="replace").replace("\0", " ")
            if inner.clean(words) != words:
                yield *match.span(1), MARK
    for match in _RUN.finditer(text, start, end):
        yield from _run(match, inner)


def _login_of_url(match: re.Match[str]) -> Iterator[Span]:
    """Yield the login in a URL. Host and path stay, and the user's name. A port and a digest are no password."""
    token, start = match[1], match.start(1)
    host = token.split("/")[0]
    at = host.rfind("@")
    if at < 0 and ":" in host and not host.partition(":")[2].isdigit():
        at = token.rfind("@")  # a slash that nobody has escaped
    user, colon, password = token[: max(at, 0)].partition(":")
    if colon and not harmless(password):
        yield start + len(user) + 1, start + at, MARK
    elif not colon and len(user) >= 20 and not harmless(user):
        yield start, start + at, MARK


def _data(match: re.Match[str], inner: Inner) -> Iterator[Span]:
    """Yield a data URL, as Ignition has files in: without the secrets in it, or without content where that is one
    secret."""
    encoded, payload = match[2], match[3]
    if urllib.parse.unquote(payload) == MARK:
        return
    before = match.string[max(0, match.start() - 400) : match.start()]
    paths = _PATH.findall(before)
    raw = decoded(urllib.parse.unquote(payload), inner.left) if encoded else urllib.parse.unquote_to_bytes(payload)
    text = readable(raw)
    if _KEY_FILE.search(before) or (paths and _secret_path(paths[-1])) or (text is None and _opaque(raw)):
        yield match.end(1), match.end(), f",{MARK}"
    elif encoded and text is not None and (cleaned := inner.clean(text)) != text:
        yield *match.span(3), base64.b64encode(cleaned.encode()).decode()


def _run(match: re.Match[str], inner: Inner) -> Iterator[Span]:
    """Yield a run of base64, or what looks like one, if there is a secret in it; of a key's, also its further lines."""
    run, start = match[0], match.start()
    if _HEX.fullmatch(run) or match.string.endswith(";base64,", 0, start):
        return
    # A path or a name may lead into it.
    for at in sorted({0, *(at for begin in _STARTS if (at := run.find(begin)) > 0)}):
        raw = decoded(run[at:], inner.left)
        text = readable(raw)
        if (inner.clean(text) != text) if text is not None else _opaque(raw):
            whole = len(run) >= 60 and match.string[max(0, start - 400) : start].rpartition("\n")[2].strip() == ""
            further = _LINES.match(match.string, match.end()) if whole else None
            yield start + at, further.end() if further else match.end(), MARK
            return


def is_login(run: str) -> bool:
    """Tell whether base64 stands for user:password."""
    text = readable(decoded(run))
    return text is not None and text.isprintable() and 0 < text.find(":") < len(text) - 1


def _opaque(raw: bytes) -> bool:
    """Tell whether bytes that are no text hold a key or a token all the same."""
    if raw is TOO_LARGE or raw.startswith(b"openssh-key-v1\0"):
        return True
    # A key in DER begins with a version, where a certificate has a sequence.
    body = raw[2 + (raw[1] & 0x7F if raw[1] & 0x80 else 0) :] if raw[:1] == b"\x30" and len(raw) > 11 else b""
    if body.startswith((b"\x02\x01\x00\x02", b"\x02\x01\x00\x30", b"\x02\x01\x01\x04", b"\x02\x01\x01\x30")):
        return True
    text = raw.decode("latin-1")
    return (
        '"auth"' in text
        or next(keys(text), None) is not None
        or next(found(text, 0, len(text), None), None) is not None
    )


def _secret_path(path: str) -> bool:
    """Tell whether a file is named as if it were a secret."""
    return sensitive(path.rpartition("/")[2].partition(".")[0]) in ("password", "secret", "auth")


def secret_file(key: str, value: dict[Any, Any]) -> bool:
    """Tell whether an object at ``key`` is a file's content that is one secret: LUKS's key, or a file named so."""
    path = value.get("path")
    return key.lower().replace("_", "") == "keyfile" or (
        key == "contents" and isinstance(path, str) and _secret_path(path)
    )
