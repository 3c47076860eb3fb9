"""Exceptions of what runs on a live host."""

from __future__ import annotations

from installer.errors import InstallerError


class CommandError(InstallerError):
    """A program on the host failed: ``command``, its exit ``code`` (None: could not run) and ``detail``."""

    def __init__(self, command: str, code: int | None, detail: str) -> None:
        super().__init__(f"{command}: {detail}" if code is None else f"{command}: exit code {code}: {detail}")
        self.command = command
        self.code = code
        self.detail = detail
