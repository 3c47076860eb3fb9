"""Writing files whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, content: bytes | str) -> None:
    """Write a file, whole or not at all, whoever writes it meanwhile. What is no regular file (a pipe, /dev/stdout) is
    written to, and stays what it is."""
    text = content.encode(errors="replace") if isinstance(content, str) else content
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(text)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
