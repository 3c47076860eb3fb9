"""Exceptions of the agent."""

from __future__ import annotations

from installer.errors import InstallerError

#: Exit code of a step that was not done because the discovery media cannot be read.
MEDIA_LOST = 256


class AgentError(InstallerError):
    """Base of everything that the agent raises on purpose."""


class StepError(AgentError):
    """A step cannot be done: the reply carries ``exit_code`` and ``reason``."""

    def __init__(self, reason: str, exit_code: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class MediaLost(StepError):
    """The discovery media can no longer be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, MEDIA_LOST)


class Refused(AgentError):
    """The service told this agent to stop asking (401, 403, 404, 409); ``status`` says which."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the service refuses this host (HTTP {status}): {reason}")
        self.status = status
        self.reason = reason
