"""Helpers for tests of Ignition configs."""

import base64
import gzip
from urllib.parse import unquote_to_bytes


def read_data_url(url: str, compression: str | None = None) -> bytes:
    """Return the bytes of a data URL, base64 or percent-encoded."""
    head, _, body = url.partition(",")
    raw = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
    return gzip.decompress(raw) if compression == "gzip" else raw
