"""Media and archives that cannot be read as what they are taken for."""

from __future__ import annotations


class BadArchive(Exception):
    """An initrd that the kernel would not unpack; ``str()`` says where and why."""


class CannotIndex(Exception):
    """A medium that such an index has no form for."""


class NotIso(Exception):
    """The image is no ISO 9660 file system, or a broken one."""
