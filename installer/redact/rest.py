"""What is still open at a line's end."""

from __future__ import annotations


class Rest:
    """What the next lines still belong to. ``mode``: key, lines, argument, block, quote, list, next, more, data,
    named, file; or nothing."""

    def __init__(self) -> None:
        self.mode = self.source = self.quote = ""
        self.indent = self.width = self.left = 0
        self.child = -1
        self.shown = self.of_secret = self.begun = False

    def begin(self, mode: str, indent: int, quote: str = "") -> None:
        self.mode, self.indent, self.quote = mode, indent, quote
        self.child, self.shown, self.begun, self.left = -1, False, True, 3 if mode == "named" else 5000
