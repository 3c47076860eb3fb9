"""URLs that carry their own right to be fetched: a path, an expiry and a keyed digest of both."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from installer.rendezvous.clock import to_text
from installer.rendezvous.errors import Unauthorized

LIFETIME = 4 * 3600
EXPIRES, SIGNATURE = "expires", "signature"


def _digest(key: bytes, path: str, query: Mapping[str, str]) -> str:
    text = path + "?" + urlencode(sorted(query.items()))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def signed(key: bytes, path: str, query: Mapping[str, str], lifetime: int = LIFETIME) -> tuple[str, str]:
    """(path with its query and signature, RFC 3339 time of its end)."""
    from datetime import UTC, datetime

    end = int(time.time()) + lifetime
    full = {**query, EXPIRES: str(end)}
    text = f"{path}?{urlencode({**full, SIGNATURE: _digest(key, path, full)})}"
    return text, to_text(datetime.fromtimestamp(end, UTC))


def check(key: bytes, path: str, query: Mapping[str, str]) -> None:
    """Raises Unauthorized unless the signature is this key's over this path and query, and has not expired."""
    rest = {name: value for name, value in query.items() if name != SIGNATURE}
    if not hmac.compare_digest(_digest(key, path, rest).encode(), query.get(SIGNATURE, "").encode()):
        raise Unauthorized("the URL's signature is not valid")
    # Only what is signed is looked at: the text is our own.
    if time.time() >= int(rest.get(EXPIRES, "0")):
        raise Unauthorized("the URL has expired")
