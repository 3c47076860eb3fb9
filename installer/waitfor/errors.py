"""Errors of waiting in the installer's tree of exceptions."""

from __future__ import annotations

from installer.errors import EXIT_BOOTSTRAP_FAILED, WaitError


class BootstrapFailed(WaitError):
    """The installation cannot go on; `causes` are lines for the user, the most likely first."""

    def __init__(self, text: str, causes: tuple[str, ...] = (), *, logs_expected: bool = False) -> None:
        super().__init__(text, EXIT_BOOTSTRAP_FAILED)
        self.causes = causes
        self.logs_expected = logs_expected
