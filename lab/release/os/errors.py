"""Errors of the machine OS build."""

from __future__ import annotations

from lab.release.stage.errors import ReleaseError


class LayoutError(ReleaseError):
    """An image does not have, or cannot have, the required layout (offset, size, missing file)."""


class ExtraFileError(ReleaseError):
    """A file to add to the image does not exist, or its path in the image is not absolute."""


class NotRootError(ReleaseError):
    """The build needs root, since the system's files belong to several users."""

    def __init__(self) -> None:
        super().__init__("building the machine OS needs root: file owners in the image are real ones")
