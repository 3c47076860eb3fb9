"""The annotations by which a Route, or an Ingress, sets details of its load balancing.

Names and defaults are those of OpenShift's router. Two differences: a value that cannot be used is refused, where
OpenShift's passes over it; and so is an annotation of the router's that is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

from lab.release.cluster.ingress.claims import Options

PREFIXES = ("haproxy.router.openshift.io/", "router.openshift.io/")
#: haproxy's longest time, in milliseconds.
LONGEST_MS = 2**31 - 1
_TIME = re.compile(r"([1-9][0-9]{0,14})(us|ms|s|m|h|d)?")
_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRUE = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
_COOKIE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_AGE = re.compile(r'max-age\s*=\s*(?:([0-9]{1,12})|"([0-9]{1,12})")', re.IGNORECASE)
_HSTS_WORDS = {"includesubdomains": "includeSubDomains", "preload": "preload"}
_REWRITE = re.compile(r"/[A-Za-z0-9._~!&*+,;=:@()/-]*")


def milliseconds(text: str) -> int:
    """Return a time of haproxy's (``30s``, a number alone: milliseconds), at most the longest that it knows. Raises
    ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("must be a time, such as 500ms, 30s, 5m")
    return min(max(int(int(match[1]) * _UNITS[match[2] or "ms"]), 1), LONGEST_MS)


def hsts(text: str) -> str:
    """Return a Strict-Transport-Security header, written anew. Raises ValueError."""
    age, words = "", []
    for part in (part.strip() for part in text.split(";")):
        if (match := _MAX_AGE.fullmatch(part)) and not age:
            age = match[1] or match[2]
        elif part.lower() in _HSTS_WORDS:
            words.append(_HSTS_WORDS[part.lower()])
        else:
            raise ValueError("must be max-age=SECONDS, and includeSubDomains and preload after a ';'")
    if not age:
        raise ValueError("must have a max-age")
    return ";".join([f"max-age={int(age)}", *words])


def _networks(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(word, strict=False)) for word in text.split())
    except ValueError:
        raise ValueError("must be addresses and networks with blanks between them") from None


def _choice(*values: str) -> Callable[[str], str]:
    def of(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return of


def _matching(pattern: re.Pattern[str], rule: str) -> Callable[[str], str]:
    def of(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(rule)
        return text

    return of


def _no_cookies(text: str) -> bool:
    if text.lower() not in _TRUE:
        raise ValueError("must be true or false")
    return not _TRUE[text.lower()]


def _connections(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ValueError("must be a number")
    return int(text)


#: Annotation to the field of Options that it sets, and what makes the field's value of its text.
ANNOTATIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "haproxy.router.openshift.io/timeout": ("timeout_ms", milliseconds),
    "haproxy.router.openshift.io/timeout-tunnel": ("tunnel_ms", milliseconds),
    "haproxy.router.openshift.io/balance": ("balance", _choice("roundrobin", "leastconn", "source", "random")),
    "haproxy.router.openshift.io/disable_cookies": ("cookies", _no_cookies),
    "haproxy.router.openshift.io/rewrite-target": (
        "rewrite",
        _matching(_REWRITE, "must begin with / and have characters of a URL's path, without % and $"),
    ),
    "haproxy.router.openshift.io/hsts_header": ("hsts", hsts),
    "haproxy.router.openshift.io/ip_whitelist": ("allowed", _networks),
    "haproxy.router.openshift.io/ip_allowlist": ("allowed", _networks),
    "haproxy.router.openshift.io/set-forwarded-headers": (
        "forwarded",
        _choice("append", "replace", "if-none", "never"),
    ),
    "haproxy.router.openshift.io/pod-concurrent-connections": ("connections", _connections),
    "router.openshift.io/haproxy.health.check.interval": ("check_ms", milliseconds),
    "router.openshift.io/cookie_name": (
        "cookie_name",
        _matching(_COOKIE, "must be letters, digits, '-' and '_', up to 64"),
    ),
    "router.openshift.io/cookie-same-site": ("same_site", _choice("Lax", "Strict", "None")),
}


def options(notes: Mapping[str, str]) -> tuple[Options, list[str]]:
    """Return what an object's annotations set, and all problems that they have."""
    result, problems = Options(), []
    for name, text in sorted(notes.items()):
        if not name.startswith(PREFIXES):
            continue
        if name not in ANNOTATIONS:
            problems.append(f"metadata.annotations: {name} is not supported")
            continue
        field, read = ANNOTATIONS[name]
        try:
            result = replace(result, **{field: read(text)})
        except ValueError as error:
            problems.append(f"metadata.annotations: {name}: {text[:64]!r}: {error}")
    return result, problems
