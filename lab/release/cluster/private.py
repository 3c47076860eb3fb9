"""Files for their owner alone: the one way in which the lab, and its cluster's programs, write what holds a secret."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that has mode 0600 from its first byte on, whatever it had before; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        file.write(content.encode() if isinstance(content, str) else content)
