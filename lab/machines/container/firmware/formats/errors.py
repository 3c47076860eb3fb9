"""Media and archives that cannot be read as what they are taken for."""

from __future__ import annotations

from lab.errors import LabError


class BadArchive(LabError):
    """An initrd that the kernel would not unpack; ``str()`` says where and why."""


class CannotIndex(LabError):
    """A medium that such an index has no form for."""


class NotIso(LabError):
    """The image is no ISO 9660 file system, or a broken one."""
