"""Certificates within Ignition configs: machines that boot too late find them expired."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from installer.common.certificates import validity
from installer.common.formats import jsontext
from installer.ignition.rules import content
from installer.waitfor.settings import duration

log = logging.getLogger(__name__)

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Expiry(NamedTuple):
    """The end of a certificate, and the file on the machine that holds it."""

    at: dt.datetime
    path: str


def _content(entry: Mapping[str, Any]) -> bytes:
    """Return a file's content; empty for what is to be fetched, or cannot be read."""
    try:
        return content(entry.get("contents") or {}) or b""
    except (ValueError, AttributeError):
        return b""


def expiries(ignition: bytes) -> Iterator[Expiry]:
    """Yield the end of each certificate in the files of an Ignition config; none of one that is no JSON."""
    try:
        files = jsontext.loads(ignition)["storage"]["files"]
    except (ValueError, KeyError, TypeError):
        return
    for entry in files if isinstance(files, list) else ():
        for pem in _PEM.findall(_content(entry)):
            try:
                yield Expiry(validity(pem.decode())[1], str(entry.get("path")))
            except ValueError:
                continue


def first(ignition: bytes) -> Expiry | None:
    """Return the certificate that ends first, None where there is none."""
    return min(expiries(ignition), default=None)


def warn(files: Mapping[str, bytes]) -> None:
    """Log a warning that tells how long these Ignition configs, by file name, can be used."""
    ends = [(end, name) for name, data in files.items() if name.endswith(".ign") and (end := first(data))]
    if ends:
        end, name = min(ends)
        left = (end.at - dt.datetime.now(dt.UTC)).total_seconds()
        log.warning(
            "%s can be used for %s: its first certificate (%s) expires at %s. Bootstrap has to be complete by then",
            name,
            duration(round(left)),
            end.path,
            end.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        )


def expired(ignition: bytes, now: dt.datetime) -> str:
    """Return a line on certificates that have expired; empty without any."""
    ended = [end for end in expiries(ignition) if end.at <= now]
    if not ended:
        return ""
    end = min(ended)
    age = duration(round((now - end.at).total_seconds()))
    return (
        f"{len(ended)} certificates of bootstrap.ign have expired, the first ({end.path}) {age} ago: begin with "
        "install-config.yaml in an empty directory, run `node0 create ignition-configs` and boot all machines with the "
        "new files"
    )
