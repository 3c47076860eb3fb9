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


class Unwanted(OrchestratorError):
    """The service no longer wants this host installed, and says ``why``: nothing more is written, nothing reported."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this installation is over: {why}")
