"""The sources of a release's images: registries, or a directory that somebody mirrored."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from lab.errors import SubjectError
from lab.subject.contents import parts
from lab.subject.credentials import hosts_of
from lab.subject.stores import Store, open_store

COPY_SECONDS = 3600.0
_FATAL = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
# What skopeo says, and what the user can do about it.
_ADVICE = (
    (r"unauthorized|authentication required|denied|invalid username", "the registry does not accept the credentials"),
    (r"x509|certificate", "its certificate is not trusted: --ca FILE"),
    (r"manifest unknown|not found|name unknown", "there is no such image"),
    (r"no such host|dial tcp|connection refused|timeout", "the registry cannot be reached"),
)


class Source(Protocol):
    """A source of images."""

    def copy(self, name: str, destination: str) -> None:
        """Copy an image (by its name with @digest) to one of skopeo's destinations. Raises SubjectError."""


def skopeo(words: Sequence[str], source: str, hint: str = "") -> bytes:
    """Run skopeo and return what it prints. Raises SubjectError, which begins with `source` and says what went wrong in
    a few words."""
    argv = ["skopeo", "--insecure-policy", *words]
    try:
        completed = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COPY_SECONDS)
    except FileNotFoundError as error:
        raise SubjectError(source, "skopeo is not installed: apt-get install skopeo") from error
    except subprocess.TimeoutExpired as error:
        raise SubjectError(source, f"was not copied within {COPY_SECONDS:.0f} s") from error
    if completed.returncode:
        output = completed.stderr.decode(errors="replace")
        messages = [_unquoted(text) for text in _FATAL.findall(output)]
        message = (messages or [output.strip() or f"skopeo ended with {completed.returncode}"])[-1]
        advice = next((text for pattern, text in _ADVICE if re.search(pattern, message, re.IGNORECASE)), "")
        if advice and "credentials" in advice:
            advice += hint
        raise SubjectError(source, f"{advice} ({message})" if advice else message)
    return completed.stdout


def _unquoted(text: str) -> str:
    """Return the text between quotes in skopeo's log, without Go's escapes."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


@dataclass(frozen=True)
class Upstream:
    """Registries, asked with a pull secret (a dockerconfigjson file) and a CA of the user's, if they have any."""

    pull_secret: Path | None = None
    ca: Path | None = None

    @contextmanager
    def _options(self, prefix: str = "") -> Iterator[list[str]]:
        options = [f"--{prefix}authfile={self.pull_secret}"] if self.pull_secret else []
        if self.ca is None:
            yield options
            return
        with tempfile.TemporaryDirectory(prefix="ca-") as folder:
            # skopeo reads *.crt of a folder.
            Path(folder, "ca.crt").write_bytes(self.ca.read_bytes())
            yield [*options, f"--{prefix}cert-dir={folder}"]

    def _hint(self, name: str) -> str:
        """Return the end of an error where the registry of an image does not accept the credentials."""
        host = name.partition("/")[0]
        if self.pull_secret is None:
            return ": --pull-secret FILE"
        if host in hosts_of(self.pull_secret):
            return f" of {self.pull_secret}"
        return f": {self.pull_secret} has none for {host}"

    def digest(self, name: str) -> str:
        """Return the digest of what a name by tag is now. Raises SubjectError."""
        with self._options() as options:
            raw = skopeo(["inspect", "--raw", *options, f"docker://{name}"], name, self._hint(name))
        return f"sha256:{hashlib.sha256(raw).hexdigest()}"

    def copy(self, name: str, destination: str) -> None:
        """Copy an image. Raises SubjectError."""
        with self._options("src-") as options:
            words = ["copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false", *options]
            skopeo([*words, f"docker://{name}", destination], name, self._hint(name))


@dataclass(frozen=True)
class Directory:
    """A directory with images (lab.subject.stores)."""

    store: Store
    source: str

    def copy(self, name: str, destination: str) -> None:
        """Copy an image, which is looked up by its digest alone. Raises SubjectError."""
        digest = name.rpartition("@")[2]
        with tempfile.TemporaryDirectory(prefix="image-") as folder:
            try:
                one_image(self.store, digest, Path(folder))
            except (ValueError, KeyError, TypeError) as error:
                raise SubjectError(self.source, f"{name} is not whole there: {error}") from error
            words = ["copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false"]
            skopeo([*words, f"oci:{folder}", destination], name)


def one_image(store: Store, digest: str, folder: Path) -> None:
    """Make a folder an OCI layout with this image of a store, by links. Raises IncompleteImage."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for part in set(parts(store, digest)):
        if (path := store.blob(part)) is None:
            raise ValueError(f"{part} is missing")
        (blobs / part.partition(":")[2]).symlink_to(path.absolute())
    data = (blobs / digest.partition(":")[2]).read_bytes()
    document = json.loads(data)
    # OCI's own documents need not say what they are.
    of_oci = "manifest" if "layers" in document else "index"
    kind = document.get("mediaType") or f"application/vnd.oci.image.{of_oci}.v1+json"
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    entry = {"mediaType": kind, "digest": digest, "size": len(data)}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))


@contextmanager
def opened_directory(directory: Path, scratch: Path) -> Iterator[Directory]:
    """Provide the images of a directory, for the length of the block; archives of oc-mirror are unpacked below
    `scratch`.

    Raises SubjectError when there are none.
    """
    source = f"--release-dir {directory}"
    if directory.is_file():
        raise SubjectError(source, f"is a file; want the directory that has it: {directory.parent}")
    if not directory.is_dir():
        raise SubjectError(source, "no such directory")
    if (store := open_store(directory)) is not None:
        yield Directory(store, source)
        return
    archives = sorted(directory.glob("mirror_*.tar"))
    if not archives:
        raise SubjectError(
            source,
            "is no OCI layout (index.json), no registry's storage (docker/registry/v2), no folder of "
            "`oc adm release mirror --to-dir` (v2/), and has no archive of oc-mirror (mirror_000001.tar)",
        )
    with tempfile.TemporaryDirectory(prefix="archive-", dir=scratch) as folder:
        for archive in archives:
            try:
                _unpack(archive, Path(folder))
            except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                why = str(error).partition(":\n")[0]  # and not what each kind of compression says of it
                raise SubjectError(source, f"{archive.name} cannot be unpacked: {why}") from error
        store = open_store(Path(folder))
        if store is None:
            raise SubjectError(source, f"{archives[0].name} has no docker/registry/v2 with images")
        yield Directory(store, source)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive that are a registry's; links, and paths that lead elsewhere, are none."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            inside = path.parts[:3] == ("docker", "registry", "v2") and ".." not in path.parts
            if inside and member.isfile() and (content := tar.extractfile(member)) is not None:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
