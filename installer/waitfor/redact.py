"""Takes secrets out of what is kept as evidence."""

from __future__ import annotations

import json
import re
from typing import Any

MARK = "[redacted]"
KEY = re.compile(r"token|secret|passw|^auths?$|credential|private_?key|ssh_.*key|authorization|cookie", re.IGNORECASE)
# Names that only look like secrets: what they hold says that there is one, or how it is.
HARMLESS = re.compile(r"(_set|_status|_at)$", re.IGNORECASE)
TEXTS = (
    # JSON web tokens, private keys, user:password in URLs, "auth" entries of pull secrets (quoted once or twice)
    (re.compile(r"eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), MARK),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    (re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"), MARK),
    (re.compile(r"""(\\*["']auth\\*["']\s*:\s*\\*["'])[^"'\\]*"""), rf"\1{MARK}"),
)


def redact(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """A copy of a JSON value without secrets: by key, by look, and each of the texts in ``secrets`` wherever it is.

    JSON inside of texts (inventories, overrides) is treated the same way and stays JSON.
    """
    if isinstance(value, dict):
        return {
            key: MARK
            if KEY.search(str(key)) and not HARMLESS.search(str(key)) and item not in (None, "", True, False)
            else redact(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [redact(item, secrets) for item in value]
    if isinstance(value, str):
        return _text(value, secrets)
    return value


def _text(text: str, secrets: tuple[str, ...]) -> str:
    if text[:1] in "{[" and text[-1:] in "}]" and len(text) > 1:
        try:
            inner = json.loads(text)
        except ValueError:
            pass
        else:
            cleaned = redact(inner, secrets)
            return text if cleaned == inner else json.dumps(cleaned)
    for secret in secrets:
        if secret:
            text = text.replace(secret, MARK)
    for pattern, replacement in TEXTS:
        text = pattern.sub(replacement, text)
    return text
