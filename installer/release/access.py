"""Files with which skopeo reaches a registry: mirrors, credentials and CA certificates, in a private directory."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import TracebackType

from installer.common.secretfiles import MemoryFile, private_directory

NEVER_CONTACT = "NeverContactSource"

NO_MIRRORS = """\
# No mirrors were configured: images are pulled from where their names say.
unqualified-search-registries = []
"""


@dataclass(frozen=True)
class DigestSource:
    """One entry of imageDigestSources: images of `source` are pulled, by digest, from `mirrors` first."""

    source: str
    mirrors: tuple[str, ...] = ()
    never_contact_source: bool = False

    def covers(self, repository: str) -> bool:
        """Return whether `repository` (no tag, no digest) is the source itself or below it; `*.<domain>` is any host in
        it."""
        if self.source.startswith("*."):
            return repository.partition("/")[0].partition(":")[0].endswith(self.source[1:])
        return repository == self.source or repository.startswith(self.source + "/")


def _toml_string(text: str) -> str:
    # TOML's basic strings escape as JSON's do, for all that may occur in an image reference.
    return json.dumps(text)


def _merged(sources: Iterable[DigestSource]) -> list[DigestSource]:
    """Return the sources, those of one name merged with each mirror once; without those that have no mirror."""
    mirrors: dict[tuple[str, bool], dict[str, None]] = {}
    for source in sources:
        mirrors.setdefault((source.source, source.never_contact_source), {}).update(dict.fromkeys(source.mirrors))
    return [DigestSource(name, tuple(urls), never) for (name, never), urls in mirrors.items() if urls]


def registries_conf(sources: Iterable[DigestSource]) -> str:
    """Render containers-registries.conf(5) version 2, as mirror/registries.conf (reference/installer.md §2.1)."""
    blocks = []
    for source in _merged(sources):
        key = "prefix" if source.source.startswith("*.") else "location"
        lines = ["[[registry]]", f"{key} = {_toml_string(source.source)}", "mirror-by-digest-only = true"]
        if source.never_contact_source:
            lines.append("blocked = true")
        for mirror in source.mirrors:
            lines += ["", "[[registry.mirror]]", f"location = {_toml_string(mirror)}"]
        blocks.append("\n".join(lines) + "\n")
    if not blocks:
        return NO_MIRRORS
    return "unqualified-search-registries = []\n\n" + "\n".join(blocks)


@dataclass
class RegistryAccess:
    """A context in which skopeo can be run: its files live in a 0700 directory that goes away on exit, the credentials
    in memory only.

    pull_secret: the JSON of the pull secret (None: no credentials). sources: mirrors, rendered to registries.conf;
    `registries_conf_file`, `auth_file` and `ca_file` take existing files instead, as the service in its container has.
    trust_bundle: PEM certificates that are trusted besides the system's.
    """

    pull_secret: str | None = field(default=None, repr=False)
    sources: tuple[DigestSource, ...] = ()
    trust_bundle: str = ""
    _: KW_ONLY
    registries_conf_file: Path | None = None
    auth_file: Path | None = None
    ca_file: Path | None = None
    skopeo: str = "skopeo"
    architecture: str = ""  # GOARCH of the images of manifest lists that are read; empty: this machine's
    _dir: Path | None = field(default=None, repr=False)
    _auth: MemoryFile | None = field(default=None, repr=False)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    def __enter__(self) -> RegistryAccess:
        with self._stack:
            self._prepare()
            self._stack = self._stack.pop_all()
        return self

    def _prepare(self) -> None:
        self._dir = self._stack.enter_context(private_directory("node0-registry-"))
        certs = self._dir / "certs"
        certs.mkdir()
        (self._dir / "registries.d").mkdir()
        bundle = self.trust_bundle or (self.ca_file.read_text() if self.ca_file else "")
        if bundle:
            (certs / "ca.crt").write_text(bundle)
        if self.registries_conf_file is None:
            (self._dir / "registries.conf").write_text(registries_conf(self.sources))
        if self.auth_file is None:
            # An explicit file, empty if need be: otherwise the credentials of whoever runs this would leak in.
            content = (self.pull_secret or '{"auths": {}}').encode()
            self._auth = self._stack.enter_context(MemoryFile("auth.json", content))
        # A signature policy that accepts any image: digests vouch for the content.
        (self._dir / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dir = self._auth = None
        self._stack.close()

    @property
    def directory(self) -> Path:
        """The private directory; only within the context."""
        if self._dir is None:
            raise RuntimeError("RegistryAccess is used outside its with block")
        return self._dir

    def proxy_command(self, fd: int) -> list[str]:
        """Return the command line of skopeo's image proxy, to serve on the inherited socket `fd`."""
        return [
            self.skopeo,
            "--policy",
            str(self.directory / "policy.json"),
            *(["--override-arch", self.architecture] if self.architecture else []),
            # An empty registries.d: no signature look-aside of this machine takes part.
            "--registries.d",
            str(self.directory / "registries.d"),
            # Hidden, and honoured by every version; the environment variable of the same purpose is not.
            "--registries-conf",
            str(self.registries_conf_file or self.directory / "registries.conf"),
            "experimental-image-proxy",
            "--sockfd",
            str(fd),
            "--authfile",
            str(self.auth_file) if self._auth is None else self._auth.path,
            "--cert-dir",
            str(self.directory / "certs"),
        ]

    def inherited(self) -> list[int]:
        """File descriptors that skopeo needs besides its socket."""
        return [] if self._auth is None else [self._auth.fd]

    def environment(self) -> dict[str, str]:
        """Return the environment for skopeo: the caller's (proxies, certificates), without its choice of
        credentials."""
        env = dict(os.environ)
        env.pop("REGISTRY_AUTH_FILE", None)
        return env
