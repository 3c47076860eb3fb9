"""Exceptions of looking at an installation."""

from __future__ import annotations

import re

from installer.errors import InstallerError


class KubeError(InstallerError):
    """The cluster's API cannot be reached or refused a call; `status` is the HTTP status, 0 when unreachable."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def innermost(error: BaseException) -> str:
    """Return the text of the innermost cause of an error of urllib3, which wraps several times over."""
    cause = error
    for _ in range(8):
        candidates = (getattr(cause, "reason", None), *cause.args, cause.__cause__)
        inner = next((item for item in candidates if isinstance(item, BaseException) and item is not cause), None)
        if inner is None:
            break
        cause = inner
    text = str(cause).strip().split("\n")[-1]
    # urllib3 puts its connection object, or the name of it, in front.
    if ": " in text and re.match(r"<|HTTPS?Connection", text):
        text = text.split(": ", 1)[1]
    return text or type(cause).__name__
