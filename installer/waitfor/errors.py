"""What waiting adds to the installer's tree of exceptions."""

from __future__ import annotations

import re

from installer.errors import EXIT_BOOTSTRAP_FAILED, InstallerError, RestError, WaitError


class KubeError(InstallerError):
    """The cluster's API cannot be reached or refused a call; `status` is the HTTP status, 0 when unreachable."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ServiceUntrusted(RestError):
    """Something answers at the rendezvous address, but not with a certificate of this asset directory's CA."""


class BootstrapFailed(WaitError):
    """The installation cannot go on; `causes` are lines for the user, the most telling first."""

    def __init__(self, text: str, causes: tuple[str, ...] = (), *, logs_expected: bool = False) -> None:
        super().__init__(text, EXIT_BOOTSTRAP_FAILED)
        self.causes = causes
        self.logs_expected = logs_expected


def innermost(error: BaseException) -> str:
    """The text of what lies at the bottom of an error of urllib3 or requests: they wrap several times over."""
    seen = error
    for _ in range(8):
        candidates = (getattr(seen, "reason", None), *seen.args, seen.__cause__)
        inner = next((item for item in candidates if isinstance(item, BaseException) and item is not seen), None)
        if inner is None:
            break
        seen = inner
    text = str(seen).strip().split("\n")[-1]
    # urllib3 puts its connection object, or the name of it, in front.
    if ": " in text and re.match(r"<|HTTPS?Connection", text):
        text = text.split(": ", 1)[1]
    return text or type(seen).__name__
