"""Errors of the machine OS build."""

from __future__ import annotations

from lab.release.stage.errors import ReleaseError


class LayoutError(ReleaseError):
    """An image cannot get, or did not get, the layout that it must have (offset, size, missing file)."""


class ExtraFileError(ReleaseError):
    """A file that was asked into the image is not there, or its place is no absolute path."""


class NotRootError(ReleaseError):
    """The build needs root: owners and modes of the system's files are those of real users."""

    def __init__(self) -> None:
        super().__init__("building the machine OS needs root: file owners in the image are real ones")
