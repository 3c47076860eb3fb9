"""An image with changes over it: read as if they were made, then written in one go, to a file, in place, or to a pipe.

The changed image is a list of segments, each a range of the base, new bytes, or zeros, so that a gigabyte is never in
memory, and never written twice.
"""

from __future__ import annotations

import contextlib
import io
import os
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from installer.common.iso9660 import Iso
from installer.errors import IsoError, NotIso9660
from installer.files import Partial, is_stream
from installer.image.copy import PrefetchedCopy, clone, copy_range
from installer.image.iso.embed import Patch

_CHUNK = 1 << 24
_ZEROS = bytes(1 << 16)


@dataclass(frozen=True)
class Segment:
    """`length` bytes at `start`; `source` is their offset in the base, the bytes themselves, or None for zeros."""

    start: int
    length: int
    source: int | bytes | None = field(repr=False)

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.start + self.length

    def part(self, start: int, end: int) -> Segment:
        """Cut this segment to [start, end), which must not leave it empty."""
        start, end = max(start, self.start), min(end, self.end)
        skip = start - self.start
        source = self.source
        if isinstance(source, bytes):
            source = source[skip : skip + end - start]
        elif source is not None:
            source += skip
        return Segment(start, end - start, source)


class Overlay(io.RawIOBase):
    """A readable, seekable view of `base` with changes. The base must stay open, and unchanged, for as long."""

    def __init__(self, base: BinaryIO) -> None:
        super().__init__()
        self.base = base
        self.base_size = base.seek(0, os.SEEK_END)
        self._segments = [Segment(0, self.base_size, 0)] if self.base_size else []
        self._position = 0

    @property
    def size(self) -> int:
        """Bytes of the changed image."""
        return self._segments[-1].end if self._segments else 0

    def iso(self, path: Path | str) -> Iso:
        """Return the changed image as an ISO; `path` is for messages."""
        return Iso(typing.cast(BinaryIO, self), path, NotIso9660)

    # Reading, as io.RawIOBase wants it.

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position, as io says."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, length: int = -1) -> bytes:
        """Read up to `length` bytes, all of them unless the image ends."""
        end = self.size if length < 0 else min(self.size, self._position + length)
        data = b"".join(self._content(part) for part in self.parts(self._position, end))
        self._position += len(data)
        return data

    def _content(self, segment: Segment) -> bytes:
        if isinstance(segment.source, bytes):
            return segment.source
        if segment.source is None:
            return bytes(segment.length)
        self.base.seek(segment.source)
        return self.base.read(segment.length)

    # Changing.

    def parts(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the segments of [start, end), cut to it."""
        for segment in self._segments:
            if segment.start < end and segment.end > start:
                yield segment.part(start, end)

    def _put(self, new: Segment) -> None:
        if not new.length:
            return
        before = list(self.parts(0, new.start))
        if self.size < new.start:
            before.append(Segment(self.size, new.start - self.size, None))
        self._segments = [*before, new, *self.parts(new.end, max(self.size, new.end))]

    def write_at(self, offset: int, data: bytes) -> None:
        """Lay bytes over the image, which grows where they reach beyond its end."""
        self._put(Segment(offset, len(data), data))

    def apply(self, patches: typing.Iterable[Patch]) -> None:
        """Lay patches over the image."""
        for patch in patches:
            self.write_at(patch.offset, patch.data)

    def zero(self, offset: int, length: int) -> None:
        """Lay zeros over the image."""
        self._put(Segment(offset, length, None))

    def move(self, offset: int, source: int, length: int) -> None:
        """Let what is at `source` now also be at `offset`."""
        shift = offset - source
        for segment in list(self.parts(source, source + length)):
            self._put(replace(segment, start=segment.start + shift))

    def truncate(self, size: int | None = None) -> int:
        """Cut, or lengthen with zeros, to `size` bytes."""
        size = self._position if size is None else size
        if size > self.size:
            self.zero(self.size, size - self.size)
        else:
            self._segments = list(self.parts(0, size))
        return size

    # Writing.

    def _changed(self) -> list[Segment]:
        """Return the changed segments, those after the base's end first: nothing points there yet."""
        segments = [segment for segment in self._segments if segment.source != segment.start]
        return sorted(segments, key=lambda segment: (segment.start < self.base_size, segment.start))

    @property
    def in_place_possible(self) -> bool:
        """Return whether all that is kept of the base stays in its place, or is now after the base's end."""
        return not any(
            isinstance(s.source, int) and s.source != s.start and s.start < self.base_size for s in self._segments
        )

    def _patch_file(self, fd: int) -> None:
        for segment in self._changed():
            content = segment.source
            if isinstance(content, bytes):
                _write_all_at(fd, content, segment.start)
            elif content is not None:
                copy_range(self.base.fileno(), fd, at=content, to=segment.start, length=segment.length)
            elif segment.start < self.base_size:
                for done in range(0, min(segment.length, self.base_size - segment.start), len(_ZEROS)):
                    os.pwrite(fd, _ZEROS[: segment.length - done], segment.start + done)
        if os.fstat(fd).st_size != self.size:
            os.ftruncate(fd, self.size)

    def save_in_place(self, path: Path) -> None:
        """Make the changes in the base file itself, and only write what they are. Raises IsoError."""
        if not self.in_place_possible:
            raise IsoError(path, "these changes move what is in the image: they need an output file")
        with _image_errors(path, "change"):
            fd = os.open(path, os.O_RDWR)
            try:
                self._patch_file(fd)
            finally:
                os.close(fd)

    def save(self, dest: Path, mode: int = 0o600, prefetched: PrefetchedCopy | None = None) -> str:
        """Write the changed image as `dest`, whole or not at all; returns how it was copied. Raises IsoError.

        `prefetched`: a copy of the base that was begun before. Where `dest` is a device or a pipe, it is written as it
        is.
        """
        if is_stream(dest):
            self._save_to_device(dest)
            return "device"
        partial, how = self.prepare(dest, mode, prefetched)
        put_in_place(partial)
        return how

    def _save_to_device(self, dest: Path) -> None:
        with _image_errors(dest, "write"):
            fd = os.open(dest, os.O_WRONLY)
            try:
                self.stream(fd)
            finally:
                os.close(fd)

    def prepare(self, dest: Path, mode: int = 0o600, prefetched: PrefetchedCopy | None = None) -> tuple[Partial, str]:
        """Write the changed image beside `dest`; the file that is to be committed, and how it was copied.

        Raises IsoError, and then nothing of it stays.
        """
        with _image_errors(dest, "write"), contextlib.ExitStack() as unless_done:
            taken = prefetched.finish(self.base.fileno()) if prefetched is not None and self.in_place_possible else None
            if prefetched is not None and taken is None:
                prefetched.give_up()
            partial, how = taken or (Partial(dest, mode), "segments")
            unless_done.callback(partial.discard)
            if taken is not None:
                partial.dest = dest
            elif self.in_place_possible:
                how = clone(self.base.fileno(), partial.fd)
            else:
                self.stream(partial.fd)
            if self.in_place_possible:
                self._patch_file(partial.fd)
            size = os.fstat(partial.fd).st_size
            if size != self.size:
                raise IsoError(dest, f"the copy has {size} bytes in place of {self.size}")
            partial.close()
            unless_done.pop_all()
            return partial, how

    def stream(self, fd: int) -> None:
        """Write the changed image to a file descriptor from its first byte to its last, in one pass; OSError."""
        for segment in self._segments:
            if isinstance(segment.source, bytes):
                _write_all(fd, segment.source)
            elif segment.source is None:
                for done in range(0, segment.length, len(_ZEROS)):
                    _write_all(fd, _ZEROS[: segment.length - done])
            else:
                _send(fd, self.base.fileno(), segment.source, segment.length)


@contextlib.contextmanager
def _image_errors(path: Path, what: str) -> Iterator[None]:
    """Turn an OSError within the block into an IsoError: the image at `path` cannot be written or changed (`what`)."""
    try:
        yield
    except OSError as error:
        raise IsoError(path, f"cannot {what} the image: {error.strerror or error}") from error


def put_in_place(partial: Partial) -> None:
    """Give an image that was prepared its name. Raises IsoError, and then nothing of it stays."""
    try:
        with _image_errors(partial.dest, "write"):
            partial.commit()
    finally:
        partial.discard()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write_all_at(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, offset)
        view, offset = view[count:], offset + count


def _send(out: int, source: int, offset: int, length: int) -> None:
    end = offset + length
    while offset < end:
        try:
            count = os.sendfile(out, source, offset, min(_CHUNK, end - offset))
        except BrokenPipeError:
            raise
        except OSError:
            # Not every pair of files can be copied in the kernel: then through this process.
            data = os.pread(source, min(1 << 20, end - offset), offset)
            _write_all(out, data)
            count = len(data)
        if not count:
            raise OSError("the image became shorter while it was read")
        offset += count
