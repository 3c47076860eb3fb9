"""Exceptions of the rendezvous service and its client: one tree, each with the fields its caller needs."""

from __future__ import annotations

from pathlib import Path

from installer.errors import InstallerError
from installer.redact import shortened

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
    """A body that is no JSON, or JSON of another kind."""


class Invalid(BadRequest):
    """A parameter or body against its specification (params.py); ``code`` tells the rule."""

    status = 422

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class DiskRefused(BadRequest):
    """A chosen installation disk that the host does not have."""


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


class TooLarge(ServiceError):
    """A body past the limit."""

    status = 413


class NoSpace(ServiceError):
    """No space is left for what is sent."""

    status = 507


class TooMany(ServiceError):
    """More requests from one caller than are taken, or more without a proof."""

    status = 429


class StoreError(ServiceError):
    """The database at ``path`` could not be opened, read or written; ``cause`` is what SQLite said."""

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


class ClientError(RendezvousError):
    """A request of the client failed: ``status`` is the HTTP status, or None when nothing answered."""

    def __init__(self, what: str, status: int | None, detail: str) -> None:
        super().__init__(f"{what}: {detail}" if status is None else f"{what}: HTTP {status}: {detail}")
        self.what = what
        self.status = status
        self.detail = detail


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
