"""A quick test whether a text may contain a secret, before the rest of the package is loaded."""

from __future__ import annotations

import re

MARK = "[redacted]"
WORDS = (
    r"passw|passphrase|passcode|secret|token|auth|credential|creds|priv|pwd|psk|cookie|key|pass\d{0,3}\b|pw\b|docker"
    r"|sig(?:nature)?\b"
)
HINT = re.compile(
    rf"(?i:{WORDS}|\bname|chpasswd|cryptsetup|rootpw)|@|%40|eyJ|\$[0-9a-z]|-----BEGIN|sha256~|gh[posr]_|github_pat|glpat|AGE-|[Bb]asic|[Bb]earer"
    r"|data:|-[a-zA-Z]{0,6}[pPuUw]|-user|[A-Za-z0-9+/_-]{24}|[Pp][Rr][Oo][Cc][Tt][Ii]"
    r"|\.[a-z0-9]{16}\b|\b[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}-[A-Za-z0-9]{5}\b"
)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\b")


def promising(text: str) -> bool:
    """Whether a secret may be in it. An image's digest is none, and most commands log one."""
    return HINT.search(_DIGEST.sub(" ", text)) is not None
