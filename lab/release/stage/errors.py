"""The exceptions of the lab release's builders: one tree, each with one sentence and the fields a caller needs."""

from __future__ import annotations

from pathlib import Path


class ReleaseError(Exception):
    """Something about the lab release could not be built or read."""


class CommandFailed(ReleaseError):
    """A build command ended with an error; the whole output is in ``log``."""

    def __init__(self, label: str, code: int, log: Path, tail: str) -> None:
        super().__init__(f"{label}: command failed with exit code {code}; log {log}\n{tail}")
        self.label = label
        self.code = code
        self.log = log
        self.tail = tail


class ToolMissing(ReleaseError):
    """A program or a Debian package that the build needs is not on this host."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} is missing on this host: {hint}")
        self.what = what


class NoAptSource(ReleaseError):
    """The host's apt configuration names no source for a suite that the build needs."""

    def __init__(self, suite: str, looked: Path) -> None:
        super().__init__(f"no apt source for suite {suite!r} with component main under {looked}")
        self.suite = suite


class RecipeMismatch(ReleaseError):
    """An upstream package does not have the shape that the recipe was written for."""


class RegistryFailed(ReleaseError):
    """The registry used while building did not come up, or refused an image."""
