"""Exceptions of the orchestrator."""

from __future__ import annotations

from installer.errors import InstallerError


class OrchestratorError(InstallerError):
    """A stage failed; the text ends up as the host's status info."""


class StageError(OrchestratorError):
    """``what`` failed because of ``cause``."""

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"{what}: {cause}")
        self.what = what
        self.cause = cause
