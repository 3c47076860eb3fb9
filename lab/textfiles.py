"""Reading the files that users name: whole, and none that has no end."""

from __future__ import annotations

import errno
import re
from pathlib import Path

#: More than any config or topology has, trust bundles included; YAML of this size is read for half a minute.
MOST_BYTES = 8 << 20
# Wherever one stands at the beginning of a line, blocks of text included (YAML 1.2, 9.1.2).
_MARKER = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_WORDLESS = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|%[^\n]*\n)*\Z")


def read(path: Path) -> bytes:
    """Return the content of a file or pipe. Raises OSError, also for one that is larger than MOST_BYTES."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than the {MOST_BYTES >> 20} MiB that are read", str(path))
    return content


def read_stored(path: Path) -> bytes:
    """Return the same of what is stored, which another program reads again: no pipe or device. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return read(path)


def first_document(text: bytes) -> bytes:
    """Return a YAML text up to the end of its first document: Go's library, which the installer has, looks at no
    other."""
    markers = list(_MARKER.finditer(text))
    if markers and markers[0][0] == b"---" and _WORDLESS.match(text[: markers[0].start()]):
        # It is the first document's own.
        del markers[0]
    return text[: markers[0].start()] if markers else text
