"""Exceptions of the rendezvous service and its client: one tree, each with the fields its caller needs."""

from __future__ import annotations

from pathlib import Path

from installer.common.redact import shortened
from installer.errors import InstallerError

# Characters of a text that quotes others. Redacting it takes about a millisecond, and nobody reads more.
LONGEST = 16 * 1024


class RendezvousError(InstallerError):
    """Base of everything that this package raises on purpose."""


class ServiceError(RendezvousError):
    """An answer other than success: HTTP ``status`` and a one-sentence ``reason`` (installer.md §5.1)."""

    status = 500

    def __init__(self, reason: str) -> None:
        # It often quotes what was sent, which may be a whole body.
        reason = shortened(reason, LONGEST)
        super().__init__(reason)
        self.reason = reason


class BadRequest(ServiceError):
    """The request cannot be understood or names something that is not allowed."""

    status = 400


class Unparsable(BadRequest):
    """A parameter or body against its specification: no JSON, of another type, not one of an enumeration, missing."""


class Undecodable(Unparsable):
    """A body that is not encoded as its headers say: where it ends on its connection is not known."""


class Unprocessable(ServiceError):
    """Well formed, and still of no use: a manifest whose name has a space."""

    status = 422


class Unauthorized(ServiceError):
    """No token, or one whose signature, age or scheme is wrong."""

    status = 401


class Forbidden(ServiceError):
    """The caller is known but must not do this; an agent that gets it stops asking."""

    status = 403


class NotFound(ServiceError):
    """No such object."""

    status = 404


class TooSlow(ServiceError):
    """A body that does not come."""

    status = 408


class Conflict(ServiceError):
    """The object's state does not allow the request."""

    status = 409


class Gone(ServiceError):
    """A thing that was there once: a mark from before what the feed of changes remembers."""

    status = 410


class PreconditionFailed(ServiceError):
    """A change of a state that is there no more."""

    status = 412


class DiskRefused(Conflict):
    """A chosen installation disk that the host does not have."""


class TooLarge(ServiceError):
    """A body past the limit."""

    status = 413


class NoSpace(ServiceError):
    """No space is left for what is sent."""

    status = 507


class TooMany(ServiceError):
    """More requests from one caller than are taken, or more without valid credentials."""

    status = 429


class StoreError(ServiceError):
    """The database at ``path`` could not be opened, read or written; ``cause`` is SQLite's text."""

    status = 503

    def __init__(self, path: Path, done: str, cause: str) -> None:
        super().__init__(f"the service's database {path} cannot be {done}: {cause}")
        self.path = path
        self.cause = cause


class ConfigurationError(RendezvousError):
    """The service's own environment is unusable; ``setting`` names the variable or file."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(f"{setting}: {rule}")
        self.setting = setting
        self.rule = rule


class PrepareError(RendezvousError):
    """Making install-config, manifests or ignition failed; ``step`` is the step, ``cause`` what was seen."""

    def __init__(self, step: str, cause: str) -> None:
        super().__init__(f"{step}: {cause}")
        self.step = step
        self.cause = cause


#: Statuses by which the service asks to try again.
PASSING = frozenset({408, 425, 429})


class ClientError(RendezvousError):
    """A request of the client failed; ``what`` names it.

    ``status``: the HTTP status, None when nothing answered; ``reason``: one sentence; ``code``: the service's own
    name or number for it, empty when it gives none.
    """

    def __init__(self, request: str, status: int | None, reason: str, *, code: str = "", text: str = "") -> None:
        super().__init__(text or (f"{request}: {reason}" if status is None else f"{request}: HTTP {status}: {reason}"))
        self.what = request
        self.status = status
        self.reason = reason
        self.code = code

    @property
    def is_passing(self) -> bool:
        """Return whether the same request may succeed later, without anybody doing anything about it."""
        return self.status is None or self.status >= 500 or self.status in PASSING


class NoAnswer(ClientError):
    """The service cannot be reached, or did not answer in time, or not to the end; ``text`` is the whole sentence."""

    def __init__(self, request: str, reason: str, text: str) -> None:
        super().__init__(request, None, reason, text=text)


class Untrusted(NoAnswer):
    """Something answers at the service's address, but not with a certificate of the CA that was given."""


class BadAnswer(ClientError):
    """The service answered what cannot be used: no JSON, JSON of another shape, more than is read."""


class DiskMissing(RendezvousError):
    """The installation disk that was chosen for a host, by these hints, is not among its disks any more."""

    def __init__(self, disk: str, hints: str) -> None:
        super().__init__(f"the installation disk {disk} that was chosen ({hints}) is missing, waiting for it")
        self.disk = disk
        self.hints = hints


class ManifestError(RendezvousError):
    """A manifest on the image cannot be used; ``path`` and ``rule`` say which and why."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path}: {rule}")
        self.path = path
        self.rule = rule
