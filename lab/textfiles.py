"""Reading the files that users name: whole, and none that has no end."""

from __future__ import annotations

import errno
from pathlib import Path

#: More than any config or topology has, trust bundles included; YAML of this size is read for half a minute.
MOST_BYTES = 8 << 20


def read(path: Path) -> bytes:
    """What is in a file or pipe. Raises OSError, also for one that is larger than MOST_BYTES."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"larger than the {MOST_BYTES >> 20} MiB that are read", str(path))
    return content


def read_stored(path: Path) -> bytes:
    """The same of what is stored, which another program reads again: no pipe or device. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return read(path)
