"""The meaning of a BMC's refusal: whether it passes, and its cause in a few words."""

from __future__ import annotations

import re
from typing import Any

import sushy

# Status and words of answers that mean "not yet" (docs/bmcs.md): sushy knows the second and third as passing, Ironic
# the others.
_PASSING: tuple[tuple[frozenset[int], str], ...] = (
    (frozenset([503]), ""),
    (frozenset([400, 500, 503]), "SYS518"),
    (frozenset([400]), "InvalidOperationForSystemState"),
    (frozenset([400]), "UnableToModifyDuringSystemPOST"),
    (frozenset([409]), "ActionParameterValueConflict"),
)
_LONGEST = 300


#: How the cause of a transient error begins.
NOT_READY = "still not ready"


def is_transient(error: Exception) -> bool:
    """Tell whether the same request may be answered otherwise in a moment."""
    if not isinstance(error, sushy.exceptions.HTTPError):
        return False
    text = f"{error} {error.body}"
    return any(error.status_code in statuses and words in text for statuses, words in _PASSING)


def cause(error: Exception, waited: float = 0.0) -> str:
    """Return an error of sushy's as one short line; `waited` is for how long (in seconds) the BMC was asked again."""
    if isinstance(error, sushy.exceptions.AccessError):
        return f"it refuses the account ({error.status_code})"
    if isinstance(error, sushy.exceptions.HTTPError):
        message = _message(error)
        if is_transient(error):
            since = f" after {waited:.0f} s" if waited else ""
            return f"{NOT_READY}{since} ({error.status_code}: {message})"
        return f"{error.status_code}: {message}"
    if isinstance(error, sushy.exceptions.ConnectionError):
        return _unreachable(str(error))
    return _line(str(error))


def _message(error: Any) -> str:
    """Return the texts of an error document, else its code."""
    infos = error.extended_info if isinstance(error.extended_info, list) else [error.extended_info or {}]
    texts = [str(info["Message"]) for info in infos if isinstance(info, dict) and info.get("Message")]
    return _line("; ".join(dict.fromkeys(texts)) or str(error.detail or "") or str(error.code or "no explanation"))


def _unreachable(text: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.search(r"certificate verify failed: ([^(]+)", text)
        return f"TLS: its certificate is not accepted: {why[1].strip() if why else 'not verified'}"
    if re.search(r"UNSUPPORTED_PROTOCOL|ALERT_PROTOCOL_VERSION|PROTOCOL_VERSION|NO_PROTOCOLS", text):
        return "TLS: it speaks none of the versions that are allowed here, 1.2 and newer"
    if reason := re.search(r"SSLError\(.*?\[SSL: ([A-Z0-9_]+)\]", text):
        return f"TLS: {reason[1].replace('_', ' ').lower()}"
    for words, meaning in (
        ("Connection refused", "nobody listens there (connection refused)"),
        ("No route to host", "no route to it"),
        ("Network is unreachable", "its network is unreachable"),
        ("Name or service not known", "its name is unknown"),
        ("ConnectTimeout", "it does not answer (time-out of the connection)"),
        ("Read timed out", "it accepts, and does not answer"),
        ("No connection adapters", "it refers to another host, scheme or port, which gets no login"),
        ("its task has run", "its task does not end"),
    ):
        if words in text:
            return meaning
    return _line(text)


def _line(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()[:_LONGEST]
