"""Progress of what takes long, on a terminal only: one line that is rewritten, and removed at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import IO

_INTERVAL = 0.1
_MB = 1_000_000


class Progress:
    """A context: `add` the bytes that are done. Without a terminal nothing is ever written."""

    def __init__(self, label: str, total: int = 0, stream: IO[str] | None = None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._next = 0.0
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()

    def add(self, count: int) -> None:
        """`count` more bytes are done; the line follows a few times a second."""
        self.done += count
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._next = now + _INTERVAL
        text = f"{self.label}: {self.done / _MB:.0f}"
        if self.total:
            text += f" of {self.total / _MB:.0f} MB ({100 * self.done // self.total}%)"
        else:
            text += " MB"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = max(self._width, len(text))
