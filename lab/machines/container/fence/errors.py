"""What the fence refuses, and what cannot be read behind it."""

from __future__ import annotations

import os

from lab.errors import LabError


class NotAllowed(LabError):
    """An option that no machine may use."""


class CannotRead(LabError):
    """The reader came to no answer; `str()` says why in a line."""


class Refusal(LabError):
    """The caller gets this error number."""

    def __init__(self, code: int) -> None:
        super().__init__(os.strerror(code))
        self.code = code
