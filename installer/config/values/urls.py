"""URLs as Go's net/url reads them, which decides what is one: Python's urlsplit takes nearly everything."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import KW_ONLY, dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
# Only bytes beyond ASCII, and the percent sign itself, may be escaped in a host's name.
_HOST_ESCAPE = re.compile("%(?![89a-fA-F][0-9a-fA-F]|25)")
_HOST_CHARACTER = re.compile(r"[A-Za-z0-9\-_.~!$&'(),*;+=:\[\]<>\"%\x80-\U0010ffff]")
_CITED = re.compile(r' ?\(?"(?:[^"\\]|\\.)*"\)?')
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'(),*;+=%@]*")


@dataclass(frozen=True)
class Url:
    """The parts of a URL; `host` without brackets, `port` as it is written, `opaque` what follows a scheme alone."""

    scheme: str = ""
    host: str = ""
    port: str = ""
    path: str = ""
    _: KW_ONLY
    opaque: str = ""


def parse(value: str, *, request: bool = False) -> Url:
    """Return the parts; ValueError says what is wrong. `request`: it must be an absolute one, or a path.

    Where there is a login the error cites nothing: a password with a character of its own meaning is read as a port.
    """
    try:
        return _parse(value, request)
    except ValueError as error:
        if "@" not in value:
            raise
        raise ValueError(_CITED.sub("", str(error))) from None


def _parse(value: str, request: bool) -> Url:
    text, _, fragment = (value, "", "") if request else value.partition("#")
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise ValueError("net/url: invalid control character in URL")
    if request and not text:
        raise ValueError("empty url")
    match = _SCHEME.match(text)
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest)
        if request and text != "*":
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    host = port = ""
    if rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        host, port = _authority(scheme, authority)
    _unescaped(rest)
    _unescaped(fragment)
    return Url(scheme, host, port, rest)


def _unescaped(text: str, pattern: re.Pattern[str] = _ESCAPE) -> None:
    escape = pattern.search(text)
    if escape is not None:
        raise ValueError(f'invalid URL escape "{text[escape.start() : escape.start() + 3]}"')


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    user, _, host = authority.rpartition("@")
    place = host.rfind("[")
    if place > 0:
        raise ValueError("invalid IP-literal")
    if place == 0:
        host_and_port = _literal(host)
    else:
        first, last = host.find(":"), host.rfind(":")
        # Several colons: an address without its brackets, which Go accepts.
        name, port = (host, "") if first < 0 else (host[:last], host[last:])
        if not re.fullmatch("(?::[0-9]*)?", port):
            raise ValueError(f"invalid port {json.dumps(port)} after host")
        _host_name(host)
        host_and_port = name, port[1:]
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _unescaped(user)
    return host_and_port


def _host_name(text: str) -> None:
    """Raise ValueError for the first byte that cannot be in a host's name."""
    for place, char in enumerate(text):
        if char == "%":
            _unescaped(text[place : place + 3], _HOST_ESCAPE)
        elif not _HOST_CHARACTER.fullmatch(char):
            raise ValueError(f"invalid character {json.dumps(char)} in host name")


def _literal(host: str) -> tuple[str, str]:
    """Return an IPv6 address in brackets, and the port after it."""
    end = host.rfind("]")
    if end < 0:
        raise ValueError("missing ']' in host")
    name, port = host[1:end], host[end + 1 :]
    if not re.fullmatch("(?::[0-9]*)?", port):
        raise ValueError(f"invalid port {json.dumps(port)} after host")
    address, _, zone = name.partition("%25")
    _host_name(address)
    _unescaped(zone)
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        raise ValueError(f'invalid host: ParseAddr("{address}"): unable to parse IP') from None
    if version == 4:
        raise ValueError("invalid IP-literal")
    return name, port[1:]
