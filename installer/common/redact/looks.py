"""Secrets that are known by their own form, wherever they stand: keys, tokens, hashes, logins, and encodings of
these."""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Callable
from typing import Any, NamedTuple

from .forms import BLANK, BS, HEX, NEWLINE, QUOTE, TOO_LARGE, decoded, is_key, is_login, readable
from .hint import MARK
from .names import harmless, sensitive

_GAP = r"(?:[ +_]|%20|\\u0020)"
KEY_BEGIN = re.compile(rf"-----BEGIN(?:{_GAP}[A-Z0-9]++){{0,4}}?{_GAP}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?-----")
_KEY_OTHER = (
    r"(?:Proc-Type|DEK-Info|Comment|Version): ?[\w,. -]++|\\{1,16}[nrt/]"
    r"|%[0-9A-Fa-f]{2}|\\{1,16}u00[0-9a-f]{2}"
)
_KEY = re.compile(
    rf"{KEY_BEGIN.pattern}(?:(?>(?:{_KEY_OTHER}|[A-Za-z0-9+/=\s]|{QUOTE}[,+]?(?=\s{{0,8}}{QUOTE}))*)"
    rf"-----END{_GAP}[A-Z0-9 +%_]{{1,60}}-----(?:{NEWLINE})?|(?>(?:{_KEY_OTHER}|[A-Za-z0-9+/=])*))"
)
_TOKEN = re.compile(
    r"eyJ[\w-]*+(?:\.[\w-]++\.[\w-]*+(?:\.[\w-]++\.[\w-]++)?)?"
    r"|sha256~[\w-]{20,}+|(?:gh[posr]|github_pat|glpat|dckr_pat)[-_][\w-]{16,}+|AGE-SECRET-KEY-1[A-Z0-9]{20,}+"
    r"|\b[a-z0-9]{6}\.(?=[a-z]*\d)[a-z0-9]{16}(?![\w.-])"
    r"|(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?:[A-Za-z0-9]{5}-){3}[A-Za-z0-9]{5}(?![\w-])"
    r"|\$(?:2[abxy]|[1567]|y|gy|sha1|apr1|argon2(?:id?|d))\$[\w./$=,+-]{8,}+"
)
_BASIC = re.compile(rf"(\b[Bb]asic[ ,]++(?>(?:{QUOTE})?))([A-Za-z0-9+/]{{6,}}+={{0,2}})")
_BEARER = re.compile(rf"(\b[Bb]earer[ ,]++(?>(?:{QUOTE})?))([\w.~+/-]{{16,}}+=*+)")
_URL = re.compile(r"://((?>(?:(?!://)[^\s\"'`<>\\])+))")
_URL_QUOTED = re.compile(r"(%3[Aa]%2[Ff]%2[Ff][\w.~-]{1,64}%3[Aa])(?:[\w.~!*-]|%(?!40)[0-9A-Fa-f]{2}){1,256}(?=%40)")
_LOGIN = re.compile(
    r"(?<![\w/@.:%+-])([A-Za-z_][\w.+-]{0,63}):([^\s:@/\"'`<>\\,;()\[\]]{1,128})@"
    r"(?=((?:[\w-]{1,63}\.)+[\w-]{1,63}(?![\w@])|[\w-]{1,63}:\d|\[[0-9a-fA-F:.]{2,64}\]))"
)
# dracut.cmdline(7): netroot=iscsi:[<user>:<password>[:<reverse user>:<reverse password>]]@<server>:...
_ISCSI = re.compile(r"(\biscsi:[^\s:@]{1,128}):([^\s@]{1,300})(?=@)")
# Arguments in auditd's records: hex, with NUL between them.
_PROCTITLE = re.compile(r"(\bproctitle=)((?:[0-9A-Fa-f]{2}){8,})\b", re.IGNORECASE)
_TAG_VALUE = re.compile(r"(<secret\b[^<>]*>\s*<value>)([^<>]+)(?=</value>)")
_NO_LOGIN = re.compile(r"(?i:mailto|from|to|cc|e?mail|by|contact|maintainer|sips?|xmpp|acct)")
_UNIT = re.compile(r"[\w-]+\.(?:service|timer|socket|slice|scope|mount|target|device|path)\b|sha\d+:")
_OPTION = re.compile(
    rf"((?<![\w-])(?:-[uU]|--(?:proxy-)?user|--(?:src-|dest-)?creds|--basic-auth)"
    rf"(?>(?:{QUOTE})?)(?:(?>(?:{BLANK})+)|=|,[ \t]*+)"
    rf"(?>(?:{QUOTE})?))([^\s\"'\\:]++):([^\s\"'\\]++)"
)
# After a cluster of options, without a blank.
_CURL = re.compile(
    rf"(\b(?:curl|wget)\b(?>[^|;\n]{{0,300}}?[\s,\"'\0]-[a-zA-Z#]{{0,8}}u(?=[^\s=]{{1,64}}:|[\s\"']))"
    rf"(?>(?:{QUOTE})?)(?>[ \t,\0]*)"
    rf"(?>(?:{QUOTE})?))([^\s\"'\\:]++):(?!//)([^\s\"'\\]++)"
)
_PUTTY = re.compile(rf"(Private-Lines: ?\d++)((?>(?:{NEWLINE}[A-Za-z0-9+/]{{1,128}}={{0,2}}(?=[\\\"'\s]|$))+))")
_DATA = re.compile(r"data:([\w/+.-]{0,80}(?:;[\w=.\-]{1,80}){0,8}?)(;base64)?,([^\s\"'`<>\\)]++)")
_KEY_FILE = re.compile(r"(?i:key_?file)[^}]{0,160}$")
_PATH = re.compile(rf"\bpath{BS}[\"']?[ \t]*:[ \t]*{BS}[\"']?([^\s\"'\\,]{{1,200}})")
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_STARTS = ("LS0tLS1CRUdJTi", "eyJ", "H4sI")


class Inner(NamedTuple):
    """How to look at what is encoded in a text: what cleans it, and how many bytes may be unpacked for that."""

    clean: Callable[[str], str]
    left: list[int]


def keys(text: str) -> str:
    """The line without private keys."""
    return _KEY.sub(MARK, text)


def clean(text: str, inner: Inner | None) -> str:
    """The line without what looks like a secret. ``inner`` cleans what is encoded in it; None: too deep to look."""
    if inner is not None and "data:" in text:
        text = _DATA.sub(lambda match: _data(match, inner), text)
    if "asic" in text:
        text = _BASIC.sub(lambda match: match[1] + MARK if is_login(match[2]) else match[0], text)
    if "earer" in text:
        text = _BEARER.sub(lambda m: m[1] + MARK if any(char.isdigit() for char in m[2]) else m[0], text)
    if "-u" in text or "-U" in text or "--" in text:
        text = _OPTION.sub(_option, text)
    if "curl" in text or "wget" in text:
        text = _CURL.sub(_option, text)
    if "Private-Lines" in text:
        text = _PUTTY.sub(rf"\1\\n{MARK}", text)
    if "<secret" in text:
        text = _TAG_VALUE.sub(rf"\1{MARK}", text)
    if inner is not None and "roctitle" in text.lower():
        text = _PROCTITLE.sub(lambda match: _proctitle(match, inner), text)
    if "iscsi:" in text:
        text = _ISCSI.sub(rf"\1:{MARK}", text)
    if "@" in text:
        text = _LOGIN.sub(_login, _URL.sub(_url, text))
    if "%40" in text:
        text = _URL_QUOTED.sub(rf"\1{MARK}", text)
    text = _TOKEN.sub(lambda match: match[0] if match[0].startswith("eyJ") and "." not in match[0] else MARK, text)
    return _RUN.sub(lambda match: _run(match, inner), text) if inner is not None else text


def _option(match: re.Match[str]) -> str:
    if harmless(match[3]) or (match[2].isdigit() and match[3].isdigit()):
        return match[0]
    return f"{match[1]}{match[2]}:{MARK}"


def _login(match: re.Match[str]) -> str:
    if _NO_LOGIN.fullmatch(match[1]) or _UNIT.match(match[3]) or harmless(match[2]):
        return match[0]
    return f"{match[1]}:{MARK}@"


def _url(match: re.Match[str]) -> str:
    """Host and path stay, and the user's name. A port and a digest are no password."""
    token = match[1]
    host = token.split("/")[0]
    at = host.rfind("@")
    if at < 0 and ":" in host and not host.partition(":")[2].isdigit():
        at = token.rfind("@")  # a slash that nobody has escaped
    if at <= 0:
        return match[0]
    user, colon, password = token[:at].partition(":")
    if colon and password and not harmless(password):
        return f"://{user}:{MARK}{match[1][at:]}"
    if not colon and len(user) >= 20 and not harmless(user):
        return f"://{MARK}{match[1][at:]}"
    return match[0]


def _proctitle(match: re.Match[str], inner: Inner) -> str:
    words = bytes.fromhex(match[2]).decode(errors="replace").replace("\0", " ")
    return f"{match[1]}{MARK}" if inner.clean(words) != words else match[0]


def _data(match: re.Match[str], inner: Inner) -> str:
    """A data URL, as Ignition has files in: without the secrets in it, or without content where that is one secret."""
    kind, encoded, payload = match[1], match[2] or "", match[3]
    before = match.string[max(0, match.start() - 400) : match.start()]
    start = match[0][: match.start(3) - match.start()]
    if payload == MARK or urllib.parse.unquote(payload) == MARK:
        return match[0]
    paths = _PATH.findall(before)
    raw = decoded(urllib.parse.unquote(payload), inner.left) if encoded else urllib.parse.unquote_to_bytes(payload)
    text = readable(raw)
    if _KEY_FILE.search(before) or (paths and secret_path(paths[-1])) or (text is None and _opaque(raw)):
        return f"data:{kind},{MARK}"
    if text is None:
        return match[0]
    cleaned = inner.clean(text)
    if cleaned == text:
        return match[0]
    again = base64.b64encode(cleaned.encode()).decode() if encoded else urllib.parse.quote(cleaned, safe="/[]:;@!$*")
    return start + again


def secret_path(path: str) -> bool:
    """Whether a file is named as if it were a secret."""
    return sensitive(path.rpartition("/")[2].partition(".")[0]) in ("password", "secret", "auth")


def secret_file(key: str, value: dict[Any, Any]) -> bool:
    """Whether an object at ``key`` is the content of a file that is one secret: LUKS's key, or one that is named so."""
    if key.lower().replace("_", "") == "keyfile":
        return True
    path = value.get("path")
    return key == "contents" and isinstance(path, str) and secret_path(path)


def _opaque(raw: bytes) -> bool:
    """Whether bytes that are no text hold a key or a token all the same."""
    if raw is TOO_LARGE or is_key(raw):
        return True
    text = raw.decode("latin-1")
    return KEY_BEGIN.search(text) is not None or '"auth"' in text or clean(text, None) != text


def _run(match: re.Match[str], inner: Inner) -> str:
    """A run of base64, or what looks like one: replaced if there is a secret in it."""
    run = match[0]
    if HEX.fullmatch(run):
        return run
    # A path or a name may lead into it.
    begins = {0, *(at for start in _STARTS if (at := run.find(start)) > 0)}
    for at in sorted(begins):
        raw = decoded(run[at:], inner.left)
        text = readable(raw)
        if (inner.clean(text) != text) if text is not None else _opaque(raw):
            return run[:at] + MARK
    return run
