"""The books on an image that was given to BMCs, kept in the asset directory: a killed command is taken up again."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from installer.errors import StateError
from installer.files import write_whole


class Books(msgspec.Struct):
    """`token` begins the path of every URL of ours, `image` tells images apart, `hosts` have come so far (name: step),
    `urls` are those that others serve."""

    token: str
    image: str = ""
    hosts: dict[str, str] = {}
    urls: list[str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hosts!r})"


class Record:
    """The books of one asset directory; each change is on the disk when it returns. Safe for threads."""

    def __init__(self, path: Path, books: Books) -> None:
        self._path = path
        self._books = books
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path, image: Path | None, urls: list[str]) -> Record:
        """Read the books, or begin them; those of another image than that file forget how far hosts have come. None
        takes them as they are.

        Raises StateError for books that cannot be read.
        """
        try:
            books = msgspec.json.decode(path.read_bytes(), type=Books)
        except FileNotFoundError:
            books = Books(secrets.token_hex(16))
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(f"{path}: cannot be read: {error}: remove it to begin anew") from error
        if image is not None:
            status = image.stat()
            stamp = f"{status.st_mtime_ns:x}-{status.st_size:x}"
            if books.image != stamp:
                books.image, books.hosts = stamp, {}
        books.urls = list(dict.fromkeys([*books.urls, *urls]))
        return cls(path, books)

    def path_of(self, image: Path) -> str:
        """Return the path of the image in its URL; nobody else can guess it."""
        return f"/{self._books.token}/{self._books.image}/{image.name}"

    def is_ours(self, url: str) -> bool:
        """Tell whether an image in a drive was put there by this command, now or in an earlier run."""
        if url in self._books.urls:
            return True
        try:
            return urlsplit(url).path.startswith(f"/{self._books.token}/")
        except ValueError:  # no URL at all
            return False

    def step(self, name: str) -> str:
        """Return how far a host has come: empty, `inserted`, `started` or `installed`."""
        return self._books.hosts.get(name, "")

    def note(self, name: str, step: str) -> None:
        """Note how far a host has come."""
        with self._lock:
            if self._books.hosts.get(name) != step:
                self._books.hosts[name] = step
                write_whole(self._path, msgspec.json.encode(self._books), 0o600)
