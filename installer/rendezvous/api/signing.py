"""URLs that carry their own right to be fetched: a keyed digest of method, path, query and expiry.

A lasting one has instead of an expiry a digest of what its file is made of: it ends with its key alone.

What is signed is the request's target, byte for byte: nothing is decoded, sorted or looked up in between, so there is
no second way to read it. Only what reads nothing but that one file can be signed (GET, and HEAD with it).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from installer.assisted.errors import Unauthorized
from installer.rendezvous.clock import to_text

# For an image, which a BMC may begin to fetch late; upstream's IMAGE_EXPIRATION_TIME.
LIFETIME = 4 * 3600
# For a cluster's files and credentials, as upstream.
FILE_LIFETIME = 600
EXPIRES, STATE, SIGNATURE = "expires", "state", "signature"
# Both come last, in this order and only so: whatever is added, before or after, is another text.
_TARGET = re.compile(
    rf"(?P<signed>/[^?#]*\?(?:[^?#]*&)?(?:{EXPIRES}=(?P<end>[0-9]{{1,12}})|{STATE}=[0-9a-f]{{16}}))"
    rf"&{SIGNATURE}=(?P<given>[0-9a-f]{{64}})"
)


def signature_of(key: bytes, method: str, target: str) -> str:
    """Return the signature of a URL: hex HMAC-SHA-256 of method and target, which is the path with its query."""
    return hmac.new(key, f"{method} {target}".encode(errors="surrogateescape"), hashlib.sha256).hexdigest()


def signed(key: bytes, path: str, query: Mapping[str, str], lifetime: int = LIFETIME) -> tuple[str, str]:
    """(target for GET: path, query, expiry and signature; RFC 3339 time of its end). ``lifetime`` in seconds."""
    from datetime import UTC, datetime

    end = int(time.time()) + lifetime
    target = f"{path}?{urlencode({**query, EXPIRES: str(end)}, quote_via=quote, safe='')}"
    return f"{target}&{SIGNATURE}={signature_of(key, 'GET', target)}", to_text(datetime.fromtimestamp(end, UTC))


def lasting(key: bytes, path: str, query: Mapping[str, str], state: str) -> str:
    """Return a target for GET without an end; ``state``: 16 hexadecimal digits that name what the file is made of."""
    target = f"{path}?{urlencode({**query, STATE: state}, quote_via=quote, safe='')}"
    return f"{target}&{SIGNATURE}={signature_of(key, 'GET', target)}"


def check(key: bytes, method: str, target: str) -> None:
    """Raise Unauthorized unless this key has signed the method and the raw target, and that has not expired."""
    match = _TARGET.fullmatch(target)
    # HEAD tells of a file what GET does, without the file.
    digest = "" if match is None else signature_of(key, "GET" if method == "HEAD" else method, match["signed"])
    if match is None or not hmac.compare_digest(digest, match["given"]):
        raise Unauthorized("the URL's signature is not valid")
    if match["end"] is not None and time.time() >= int(match["end"]):
        raise Unauthorized("the URL has expired")
