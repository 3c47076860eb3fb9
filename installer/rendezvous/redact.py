"""Takes secrets out of texts that others wrote: they end in events, statuses and logs, which are shown to many."""

from __future__ import annotations

import re

MARK = "[redacted]"
PATTERNS = (
    # JSON web tokens, private keys, user:password in URLs, "auth" entries of pull secrets (quoted once or twice)
    (re.compile(r"eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), MARK),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), MARK),
    (
        re.compile(r"""(\\*["']?(?:auth|password)\\*["']?\s*[:=]\s*\\*["']?)[^"'\\\s,}]{4,}""", re.IGNORECASE),
        rf"\1{MARK}",
    ),
)


def redact(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text
