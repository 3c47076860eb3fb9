"""Strict readers of JSON, YAML and TOML that somebody else has written, whose results are safe to walk."""

from __future__ import annotations


class YamlError(ValueError):
    """A text is not YAML, or none that may be read; `line` counts from 1, 0 for none, and `text` is the rest."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}" if line else text)
        self.line = line
        self.text = text
