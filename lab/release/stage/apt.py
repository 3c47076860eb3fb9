"""Debian packages and sources for the release, by a private apt that follows the host's own sources.

The host's configuration is read, never written: the addresses that it names go into a private sources file under the
cache, so no address is known to this repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.release.stage import progress
from lab.release.stage.errors import CommandFailed, NoAptSource
from lab.release.stage.store import Store

SUITE = "bookworm"
HOST_APT = Path("/etc/apt")


@dataclass(frozen=True)
class AptSource:
    """One address with its suites, as apt's deb822 form has it."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""

    def stanza(self, types: str) -> str:
        """Return the deb822 stanza with ``Types:`` as given (``deb``, ``deb-src``)."""
        lines = [
            f"Types: {types}",
            f"URIs: {' '.join(self.uris)}",
            f"Suites: {' '.join(self.suites)}",
            f"Components: {' '.join(self.components)}",
        ]
        if self.signed_by:
            lines.append(f"Signed-By: {self.signed_by}")
        return "\n".join(lines) + "\n"


def parse_deb822(text: str) -> list[AptSource]:
    """Return the enabled binary sources of a ``.sources`` file. Embedded keys (multi-line Signed-By) are kept as they
    are."""
    sources = []
    for block in re.split(r"\n[ \t]*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and key:
                fields[key] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                key = name.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").strip().lower() in ("no", "false", "0"):
            continue
        if "deb" in fields.get("types", "").split() and fields.get("uris"):
            sources.append(
                AptSource(
                    tuple(fields["uris"].split()),
                    tuple(fields.get("suites", "").split()),
                    tuple(fields.get("components", "").split()),
                    fields.get("signed-by", ""),
                )
            )
    return sources


_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$")


def parse_list(text: str) -> list[AptSource]:
    """Return the binary sources of a one-line-style ``.list`` file."""
    sources = []
    for raw in text.splitlines():
        match = _ONE_LINE.fullmatch(raw.split("#", 1)[0].strip())
        if match:
            options = dict(o.split("=", 1) for o in (match["options"] or "").split() if "=" in o)
            components = tuple(match["components"].split())
            sources.append(AptSource((match["uri"],), (match["suite"],), components, options.get("signed-by", "")))
    return sources


def debian_sources(suite: str = SUITE, host: Path = HOST_APT) -> list[AptSource]:
    """Return the host's sources of a Debian suite and its updates and security, component main only.

    Raises NoAptSource when the suite itself is in none of them.
    """
    wanted = {suite, f"{suite}-updates", f"{suite}-security", f"{suite}/updates"}
    every: list[AptSource] = []
    for path in sorted([host / "sources.list", *(host / "sources.list.d").glob("*")]):
        if path.suffix == ".sources":
            every += parse_deb822(path.read_text())
        elif path.suffix == ".list" and path.is_file():
            every += parse_list(path.read_text())
    kept = []
    for source in every:
        suites = tuple(s for s in source.suites if s in wanted)
        if suites and "main" in source.components:
            kept.append(replace(source, suites=suites, components=("main",)))
    if not any(suite in source.suites for source in kept):
        raise NoAptSource(suite, host)
    return kept


@dataclass(frozen=True)
class Apt:
    """A private apt: own sources, status, lists and archives; the host's transport settings (proxy, certificates)."""

    root: Path
    store: Store

    def options(self) -> list[str]:
        """Options that make apt-get and apt-cache work in this private tree."""
        options = [
            f"Dir::Etc::sourcelist={self.root}/sources.list",
            f"Dir::Etc::sourceparts={self.root}/sources.list.d",
            f"Dir::Etc::preferencesparts={self.root}/none",
            f"Dir::Etc::preferences={self.root}/none.pref",
            f"Dir::State={self.root}/state",
            f"Dir::State::lists={self.root}/lists",
            f"Dir::State::status={self.root}/status",
            f"Dir::Cache={self.root}/cache",
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
            f"Dir::Cache::archives={self.root}/archives",
            "APT::Get::List-Cleanup=false",
            "APT::Install-Recommends=false",
            "APT::Sandbox::User=root",
            "APT::Architecture=amd64",
            "APT::Architectures=amd64",
            "Acquire::Retries=3",
            "Acquire::Languages=none",
            "APT::Keep-Downloaded-Packages=true",
        ]
        argv: list[str] = []
        for option in options:
            argv += ["-o", option]
        return argv

    def environment(self) -> dict[str, str]:
        """Environment for apt commands: untranslated, with this tree's configuration instead of the host's parts."""
        return {**os.environ, "LC_ALL": "C.UTF-8", "APT_CONFIG": str(self.root / "apt.conf")}

    def get(self, argv: Sequence[str], label: str, cwd: Path | None = None) -> None:
        """apt-get with this tree's options."""
        command = [progress.need("apt-get", "apt"), *self.options(), "-q", "-y", *argv]
        progress.run(command, label=label, log=self.store.log(label), cwd=cwd, env=self.environment())

    def query(self, argv: Sequence[str]) -> str:
        """Return the standard output of apt-get, for simulations and listings."""
        command = [progress.need("apt-get", "apt"), *self.options(), "-q", *argv]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment(), check=False)
        if done.returncode:
            raise CommandFailed("apt-get", done.returncode, self.store.logs, done.stderr[-2000:])
        return done.stdout

    def download(self, packages: Iterable[str], label: str) -> list[Path]:
        """Download packages with all they depend on that ``status`` does not have; the .deb files, sorted by name."""
        listing = self.query(["--print-uris", "-y", "install", *sorted(packages)])
        names = [match[1] for match in re.finditer(r"^'[^']+' (\S+\.deb) ", listing, re.MULTILINE)]
        self.get(["--download-only", "install", *sorted(packages)], label)
        return sorted(self.root / "archives" / name for name in names)


def transport_settings() -> str:
    """Return the host's ``Acquire`` settings (proxy, certificates, date checks) in apt.conf form; its hooks stay
    behind."""
    dump = subprocess.run([progress.need("apt-config", "apt"), "dump"], capture_output=True, text=True, check=True)
    return "".join(line + "\n" for line in dump.stdout.splitlines() if line.startswith("Acquire::"))


def open_apt(store: Store, types: str = "deb", status: Path | None = None, root: Path | None = None) -> Apt:
    """Return a private apt with fresh lists under ``root`` (a scratch directory of the store when not given).

    ``status`` is the dpkg status that it resolves against; without one, that of an empty system.
    """
    root = root or store.scratch("apt")
    for name in ("sources.list.d", "none", "state", "lists/partial", "cache", "archives/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "sources.list").touch()
    # A copy: apt puts its lock files beside the status file.
    (root / "status").write_bytes(status.read_bytes() if status else b"")
    # APT_CONFIG is read before Dir::Etc::Parts, so it can turn the host's parts off.
    (root / "apt.conf").write_text(f'Dir::Etc::Parts "{root}/none";\n' + transport_settings())
    stanzas = "\n".join(source.stanza(types) for source in debian_sources())
    (root / "sources.list.d" / "debian.sources").write_text(stanzas)
    apt = Apt(root, store)
    apt.get(["update"], f"apt-update-{types}")
    return apt


def close_apt(apt: Apt) -> None:
    """Remove the private tree."""
    shutil.rmtree(apt.root, ignore_errors=True)
