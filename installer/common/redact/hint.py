"""A quick test whether a text may contain a secret, before the rest of the package is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator

MARK = "[redacted]"
WORDS = (
    r"passw|passphrase|passcode|secret|token|auth|credential|creds|priv|pwd|psk|cookie|key|pass\d{0,3}\b|pw\b|docker"
    r"|sig(?:nature)?\b"
)


class AnyCase:
    """Where an expression, written in lower case, stands in a text in any case.

    ``re.IGNORECASE`` alone takes ten times as long: without it, alternatives that all begin with a letter let `re` leap
    over the characters that begin none.
    """

    def __init__(self, expression: str) -> None:
        self._lower_case = re.compile(expression)
        self._any_case = re.compile(expression, re.IGNORECASE)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Its places; what the matches hold may be in lower case."""
        return self._lower_case.finditer(text.lower()) if text.isascii() else self._any_case.finditer(text)


_NAMES = AnyCase(rf"{WORDS}|n(?<=\bn)ame|chpasswd|cryptsetup|rootpw|procti")
_MARKS = re.compile(
    r"@|%40|eyJ|\$[0-9a-z]|-----BEGIN|sha256~|gh[posr]_|github_pat|glpat|AGE-|Basic|basic|Bearer|bearer"
    r"|data:|-[a-zA-Z]{0,6}[pPuUw]|-user|\.[a-z0-9]{16}\b"
)
_RUNS = re.compile(r"[A-Za-z0-9+/_-]{24}|\b[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}\b")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\b")


def hinted(text: str) -> bool:
    """Whether anything in the text may be, or may name, a secret."""
    named = next(_NAMES.finditer(text), None)
    return (named or _MARKS.search(text) or _RUNS.search(text)) is not None


def promising(text: str) -> bool:
    """Whether a secret may be in it. An image's digest is none, and most commands log one."""
    return hinted(_DIGEST.sub(" ", text))
