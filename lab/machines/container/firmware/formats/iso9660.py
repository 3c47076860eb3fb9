"""The inserted medium, read without the kernel's help: one that has no iso9660 boots it all the same.

pycdlib reads the directories; a file is where it lies in the image, which loop devices and the index of
:mod:`erofs` point into, so that nothing is copied.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

BLOCK = 2048
BIOS, UEFI = 0x00, 0xEF


class NotIso(Exception):
    """The image is no ISO 9660 file system, or a broken one."""


@dataclass(frozen=True)
class Extent:
    """A file of the medium: ``length`` bytes at byte ``offset`` of the image."""

    offset: int
    length: int


class Medium:
    """An ISO image, open for reading. ``files`` are its regular files by their path without a leading slash."""

    def __init__(self, path: Path) -> None:
        """Raises NotIso or OSError."""
        self.path = path
        self._file = path.open("rb")
        self._size = self._file.seek(0, os.SEEK_END)
        self.files: dict[str, Extent] = {}
        self.directories: list[str] = []
        self.platforms: set[int] = set()
        self.volume_id = ""
        try:
            self._read_directories()
        except BaseException:
            self._file.close()
            raise

    def _read_directories(self) -> None:
        iso = pycdlib.PyCdlib()
        try:
            iso.open_fp(self._file)
        except PyCdlibException as error:
            raise NotIso(f"{self.path}: {error}") from error
        try:
            self.volume_id = iso.pvd.volume_identifier.decode("latin-1").rstrip()
            keyword = "rr_path" if iso.has_rock_ridge() else "joliet_path" if iso.has_joliet() else "iso_path"
            for top, directories, names in iso.walk(**{keyword: "/"}):
                base = top.strip("/")
                self.directories += [f"{base}/{name}".strip("/") for name in directories]
                for name in names:
                    self._add(iso.get_record(**{keyword: f"{top.rstrip('/')}/{name}"}), f"{base}/{name}".strip("/"))
            catalog = iso.eltorito_boot_catalog
            if catalog is not None:
                self.platforms.add(catalog.validation_entry.platform_id)
                self.platforms |= {section.platform_id for section in catalog.sections}
        except PyCdlibException as error:
            raise NotIso(f"{self.path}: {error}") from error
        finally:
            iso.close()

    def _add(self, record: Any, path: str) -> None:
        if record.is_file() and not (record.rock_ridge is not None and record.rock_ridge.is_symlink()):
            extent = Extent(record.extent_location() * BLOCK, record.get_data_length())
            if min(extent.offset, extent.length) < 0 or extent.offset + extent.length > self._size:
                raise NotIso(f"{self.path}: {path} lies beyond the end of the image")
            # Without Rock Ridge and Joliet, names have a version.
            self.files[path.partition(";")[0]] = extent

    def find(self, path: str) -> Extent | None:
        """A file by its path, whatever its case: boot loaders do not mind it."""
        wanted = path.strip("/")
        if wanted in self.files:
            return self.files[wanted]
        folded = wanted.casefold()
        return next((extent for name, extent in self.files.items() if name.casefold() == folded), None)

    def read(self, path: str) -> bytes | None:
        """A file's content, or None when the medium has no such file."""
        extent = self.find(path)
        if extent is None:
            return None
        self._file.seek(extent.offset)
        return self._file.read(extent.length)

    def head(self, path: str, count: int) -> bytes:
        """The first bytes of a file that is there."""
        extent = self.files[path]
        self._file.seek(extent.offset)
        return self._file.read(min(count, extent.length))

    def __enter__(self) -> Medium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
