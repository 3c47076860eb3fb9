"""The logs that hosts and controllers send: one file each, no more than the file system has room for, read as one tar.

A service on a live host keeps them in memory. They may take half of what was free without them; one file a quarter of
that, and 1 GiB at most.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from installer.assisted.errors import Conflict, NoSpace, TooLarge

LARGEST = 1024**3
CHUNK = 256 * 1024
SUFFIX = ".tar.gz"


class Quota(NamedTuple):
    """The bytes that all logs together may take, and one file of them."""

    total: int
    each: int


def quota(free: int, kept: int) -> Quota:
    """Return the quota on a file system with so much left, ``kept`` bytes of logs being there already."""
    total = (free + kept) // 2
    return Quota(total, min(LARGEST, total // 4))


class Upload:
    """A file that is being written. Raises TooLarge, NoSpace."""

    def __init__(self, store: LogStore, file: IO[bytes], replaces: int) -> None:
        self._store, self._file = store, file
        self.size = 0
        # Bytes of the file that it replaces, which become free.
        self.replaces = replaces

    async def write(self, data: bytes | bytearray) -> None:
        """Write more of it."""
        self._store.claim(self, len(data))
        with as_no_space():
            await asyncio.to_thread(self._file.write, data)


class LogStore:
    """Logs below a folder, by cluster. For one thread (the event loop's)."""

    def __init__(self, root: Path, free: Callable[[Path], int] | None = None) -> None:
        self._root, self.free_bytes = root, free or free_space
        self._under_way: dict[Path, Upload] = {}
        self._sizes: dict[Path, int] = {}
        for file in root.glob("*/*"):
            if file.name.endswith(SUFFIX):
                self._sizes[file] = file.stat().st_size
            else:
                # Files that a killed service had half-written.
                file.unlink(missing_ok=True)

    def path(self, cluster_id: str, host_id: str | None) -> Path:
        """Return the file of a host's logs; without a host, of the controller's."""
        return self._root / cluster_id / ((f"host_{host_id}" if host_id else "controller") + SUFFIX)

    @property
    def size(self) -> int:
        """Bytes of all logs, those included that are being uploaded."""
        return sum(self._sizes.values()) + sum(upload.size for upload in self._under_way.values())

    def claim(self, upload: Upload, more: int) -> None:
        """Let an upload grow. Raises TooLarge, NoSpace."""
        total_bytes = self.size
        limit = quota(self.free_bytes(self._root), total_bytes)
        if upload.size + more > limit.each:
            raise TooLarge(f"logs are larger than {limit.each} bytes")
        if total_bytes + more - upload.replaces > limit.total:
            raise NoSpace(f"all logs together are larger than {limit.total} bytes, half of what there is room for")
        upload.size += more

    @asynccontextmanager
    async def upload(self, target: Path) -> AsyncIterator[Upload]:
        """Provide a file to be written within the block; put in place at its end, or not at all. Raises Conflict,
        NoSpace."""
        if target in self._under_way:
            raise Conflict(f"{target.name} is being uploaded already")
        with as_no_space():
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False)  # noqa: SIM115
        upload, partial = Upload(self, file, self._sizes.get(target, 0)), Path(file.name)
        self._under_way[target] = upload
        try:
            yield upload
            with as_no_space():
                await asyncio.to_thread(file.close)
                partial.replace(target)
            self._sizes[target] = upload.size
        finally:
            del self._under_way[target]
            file.close()
            partial.unlink(missing_ok=True)

    def files(self, cluster_id: str) -> list[Path]:
        """All that a cluster has, by name."""
        return sorted(path for path in self._sizes if path.parent.name == cluster_id)

    async def forget(self, cluster_id: str) -> None:
        """Remove a cluster's logs, together with the cluster."""
        for path in self.files(cluster_id):
            del self._sizes[path]
        await asyncio.to_thread(shutil.rmtree, self._root / cluster_id, ignore_errors=True)


@contextmanager
def as_no_space() -> Iterator[None]:
    """Raise what the file system refuses within as NoSpace."""
    try:
        yield
    except OSError as error:
        raise NoSpace(f"logs cannot be kept: {error.strerror}") from None


def free_space(root: Path) -> int:
    """Bytes that are free for logs below `root`, whether it exists yet or not."""
    place = root
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


async def tar(files: list[Path], folder: str) -> AsyncIterator[bytes]:
    """Yield a tar of the files in a folder, piece by piece: nothing is copied, and nobody waits for the disk."""
    for path in files:
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except FileNotFoundError:
            continue
        with file:
            status = os.fstat(file.fileno())
            info = tarfile.TarInfo(f"{folder}/{path.name}")
            info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), 0o600
            yield info.tobuf()
            left = status.st_size
            while left:
                data = await asyncio.to_thread(file.read, min(CHUNK, left))
                if not data:
                    raise OSError(f"{path.name} has become shorter")
                left -= len(data)
                yield data
            if rest := -status.st_size % tarfile.BLOCKSIZE:
                yield bytes(rest)
    yield bytes(2 * tarfile.BLOCKSIZE)
