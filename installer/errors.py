"""The installer's one tree of exceptions: one sentence each, and the fields that a caller needs.

Exit codes follow reference/installer.md §8.3: 1 for a fatal error, 3 for an install-config that cannot be read,
5, 6 and 7 for the three ways that waiting ends badly, 8 when the user interrupts.
"""

from __future__ import annotations

from pathlib import Path

# The text that makes OpenShift's installer end with code 3 (reference/installer.md §0).
INSTALL_CONFIG_MARKER = "failed to create install config"

EXIT_FATAL = 1
EXIT_INSTALL_CONFIG = 3
EXIT_BOOTSTRAP_FAILED = 5
EXIT_INSTALL_FAILED = 6
EXIT_OPERATORS_UNSTABLE = 7
EXIT_INTERRUPTED = 8


class InstallerError(Exception):
    """Anything that the installer reports to its user as one line; `exit_code` is what the process ends with."""

    exit_code: int = EXIT_FATAL


class ConfigError(InstallerError):
    """An input file is wrong; `file` names it, None where no file is at fault, and the text says which fields and
    why."""

    def __init__(self, text: str, *, file: Path | str | None = None) -> None:
        super().__init__(text)
        self.file = file
        if INSTALL_CONFIG_MARKER in text:
            self.exit_code = EXIT_INSTALL_CONFIG


class AssetError(InstallerError):
    """A step of `create` failed: carries the asset-graph wrap in front of its cause, whose exit code it keeps."""

    def __init__(self, wrap: str, cause: InstallerError) -> None:
        super().__init__(f"{wrap}: {cause}")
        self.exit_code = cause.exit_code


class StateError(InstallerError):
    """The asset directory lacks, or holds damaged, what an earlier command should have left there."""


class DirectoryBusy(StateError):
    """Another process writes into the directory."""


class NetworkConfigError(InstallerError):
    """A host's networkConfig cannot be turned into keyfiles; `path` is the field inside the nmstate document, empty
    where several are wrong, and `message` the rest."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class ReleaseError(InstallerError):
    """The release payload cannot be read; `image` is the pullspec that was asked for."""

    def __init__(self, image: str, text: str) -> None:
        super().__init__(text)
        self.image = image


class ReleaseNotByDigest(ReleaseError):
    """Mirrors redirect only pullspecs by digest, and `image` is by tag."""

    def __init__(self, image: str, source: str) -> None:
        super().__init__(
            image,
            f"release image {image} is not by digest, so the mirrors of {source} do not apply to it: "
            "give it as <repository>@sha256:<digest>",
        )


class RegistryUnreachable(ReleaseError):
    """No registry that the pullspec may be pulled from answered."""


class PullSecretRejected(ReleaseError):
    """The registry answered 401 or 403 to the credentials in the pull secret."""


class RegistryCertificateError(ReleaseError):
    """The registry's certificate is not signed by a CA that is known here or in additionalTrustBundle."""


class ImageNotFound(ReleaseError):
    """The registry has no such repository or digest."""


class UnknownTag(ReleaseError):
    """The release payload `image` has no component named `tag`."""

    def __init__(self, image: str, tag: str) -> None:
        super().__init__(image, f"no image tag {tag} exists in the release image {image}")
        self.tag = tag


class FileNotInImage(ReleaseError):
    """`image` has no file at `path`."""

    def __init__(self, image: str, path: str) -> None:
        super().__init__(image, f"image {image} has no file {path}")
        self.path = path


class NotPublished(ReleaseError):
    """The release's stream metadata does not say where something can be downloaded."""


class DownloadError(InstallerError):
    """The reason why a file could not be downloaded, in one line that does not name it."""


class IsoError(InstallerError):
    """An ISO cannot be used as a base image; `iso` is its path."""

    def __init__(self, iso: Path | str, text: str) -> None:
        super().__init__(f"{iso}: {text}")
        self.iso = iso


class NotIso9660(IsoError):
    """The file is not, or not wholly, an ISO 9660 image."""


class NoEmbedArea(IsoError):
    """The ISO has no area that an Ignition config could be put into: not a CoreOS live ISO."""


class EmbedTooBig(IsoError):
    """The content does not fit the embed area; `size` and `limit` in bytes."""

    def __init__(self, iso: Path | str, what: str, size: int, limit: int, *, hint: str = "") -> None:
        super().__init__(iso, f"{what} needs {size} bytes, its embed area has {limit}{hint}")
        self.size = size
        self.limit = limit


class WaitError(InstallerError):
    """Waiting for the cluster ended without success; `exit_code` says at which stage (reference §8.3)."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class ProgramFailed(InstallerError):
    """The payload's installer did not do its work; `command` is its command line, and `why` its last words."""

    def __init__(self, command: str, why: str) -> None:
        super().__init__(f"{command}: {why}")
        self.command, self.why = command, why
