"""Why a machine does not do what it is asked for, or does not start."""

from __future__ import annotations

from lab.errors import LabError


class MachineError(LabError):
    """What was asked for cannot be done; `kind` as in drivers.container.Reply."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NotBootable(LabError):
    """The machine has no root file system to start from; `reason` says what was tried, a line each."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
