"""A quick test whether a text may contain a secret, before the rest of the package is loaded."""

from __future__ import annotations

import re

MARK = "[redacted]"
WORDS = (
    r"passw|passphrase|passcode|secret|token|auth|credential|creds|priv|pwd|psk|cookie|key|pass\d{0,3}\b|pw\b|docker"
    r"|sig(?:nature)?\b"
)


class AnyCase:
    """An expression, written in lower case, for texts in any case.

    ``re.IGNORECASE`` alone takes ten times as long: without it, alternatives that all begin with a letter let `re` leap
    over the characters that begin none.
    """

    def __init__(self, expression: str) -> None:
        self._lower_case = re.compile(expression)
        self._any_case = re.compile(expression, re.IGNORECASE)

    def prepared(self, text: str) -> tuple[re.Pattern[str], str]:
        """Return the expression, and the text to look for it in; what matches there may be in lower case."""
        lower = text.lower()
        return (self._lower_case, lower) if len(lower) == len(text) else (self._any_case, text)


_NAMES = AnyCase(rf"{WORDS}|n(?<=\bn)ame|chpasswd|cryptsetup|rootpw|procti")
_MARKS = re.compile(
    r"@|%40|eyJ|\$[0-9a-z]|-----BEGIN|sha256~|gh[posr]_|github_pat|glpat|AGE-|Basic|basic|Bearer|bearer"
    r"|data:|-[a-zA-Z]{0,6}[pPuUw]|-user|\.[a-z0-9]{16}\b"
)
_RUNS = re.compile(r"[A-Za-z0-9+/_-]{24}|\b[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}\b")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\b")


def hinted(text: str) -> bool:
    """Tell whether anything in the text may be, or may name, a secret."""
    return any(pattern.search(where) for pattern, where in (_NAMES.prepared(text), (_MARKS, text), (_RUNS, text)))


def hinted_lines(text: str) -> list[tuple[int, int]]:
    """List the bounds of the lines of which this is so."""
    lines: set[tuple[int, int]] = set()
    for pattern, where in (_NAMES.prepared(text), (_MARKS, text), (_RUNS, text)):
        end = 0
        while match := pattern.search(where, end):
            start = text.rfind("\n", end, match.start() + 1) + 1 or end
            end = text.find("\n", match.end())
            end = end if end >= 0 else len(text)
            lines.add((start, end))
    return sorted(lines)


def promising(text: str) -> bool:
    """Tell whether a secret may be in it. An image's digest is none, and most commands log one."""
    return hinted(_DIGEST.sub(" ", text))
