"""What the fence refuses, and what cannot be read behind it."""

from __future__ import annotations

import os


class NotAllowed(Exception):
    """An option that no machine may use."""


class CannotRead(Exception):
    """The reader came to no answer; `str()` says why in a line."""


class Refusal(Exception):
    """The caller gets this error number."""

    def __init__(self, code: int) -> None:
        super().__init__(os.strerror(code))
        self.code = code
