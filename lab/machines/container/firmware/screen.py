"""The serial console while firmware, boot loader and initramfs write on it, before the machine's own init does."""

from __future__ import annotations

import contextlib
import time
from typing import BinaryIO


class Screen:
    """The console while firmware, boot loader and initramfs own it. A console that cannot be written stops nothing."""

    def __init__(self, out: BinaryIO, end: str = "\r\n") -> None:
        """`end` ends a line; a terminal makes its own of "\\n"."""
        self._out, self._end = out, end
        self._started = time.monotonic()

    def line(self, text: str) -> None:
        """Write a line, or several."""
        with contextlib.suppress(OSError, ValueError):
            lines = (f"{part}{self._end}" for part in text.splitlines() or [""])
            self._out.write("".join(lines).encode(errors="replace"))
            self._out.flush()

    def kernel(self, text: str) -> None:
        """Write a line as the kernel prints it, with the seconds since power-on."""
        self.line(f"[{time.monotonic() - self._started:12.6f}] {text}")

    def starting(self, description: str) -> None:
        """Write that systemd begins with a unit."""
        self.line(f"         Starting {description}...")

    def finished(self, description: str, verb: str = "Finished") -> None:
        """Write that systemd is done with a unit."""
        self.line(f"[  OK  ] {verb} {description}.")

    def failed(self, description: str, verb: str = "start") -> None:
        """Write systemd's words for a unit that failed."""
        self.line(f"[FAILED] Failed to {verb} {description}.")
