"""Others' data, read from files that may be broken."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DataError(Exception):
    """A file that is not as its readers need it, in a line."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise DataError, which names the path, for whatever reading it stumbles over."""
    try:
        yield
    except (
        OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError, subprocess.TimeoutExpired,
    ) as error:  # fmt: skip
        words = str(error) if isinstance(error, (OSError, EOFError)) else f"{type(error).__name__}: {error}"
        raise DataError(f"{path}: {' '.join(words.split())}") from error
