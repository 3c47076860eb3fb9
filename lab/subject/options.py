"""Options for the release and the installer: those that `pytest scenarios/`, `node0-lab deploy` and `node0-lab up`
share."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer.common.redact import without_login
from lab.errors import SubjectError
from lab.release.stage.errors import ReleaseError
from lab.release.stage.store import default_cache
from lab.subject import credentials, hardware
from lab.subject.hardware import Hardware
from lab.subject.installer import checked, default_installer, is_ours
from lab.subject.mirroring import Cache, from_directory, from_registry, parse_name
from lab.subject.model import Subject, of_lab
from lab.subject.sources import Upstream
from lab.topology import Topology

#: Options and what they mean; each takes one value.
OPTIONS: Mapping[str, tuple[str, str]] = {
    "release": ("PULLSPEC", "the release to install, copied from its registry (default: the lab release)"),
    "release-dir": ("DIR", "take the release from an OCI layout, a registry's storage, or what oc or oc-mirror left"),
    "pull-secret": ("FILE", "credentials for --release and --installer, as downloaded for OpenShift"),
    "ca": ("FILE", "certificates to trust for --release and --installer, PEM"),
    "installer": (
        "PATH|IMAGE",
        "the installer to run, for example openshift-install, or an image that has it (default: that of the release if "
        "it runs by itself, else node0); docs/subjects.md",
    ),
}


def add_options(add: Callable[..., Any], only: Collection[str] = tuple(OPTIONS)) -> None:
    """Add them, by `add_argument` of argparse or `addoption` of pytest."""
    for name in only:
        metavar, text = OPTIONS[name]
        add(f"--{name}", metavar=metavar, help=text, type=stated)


def stated(value: str) -> str:
    """Return an option's value. A variable that is not set (`--release "$PULLSPEC"`) would mean the default."""
    if not value:
        raise ArgumentTypeError("must not be empty")
    return value


@dataclass(frozen=True)
class Chosen:
    """A release, and the installer's command line."""

    subject: Subject
    installer: tuple[str, ...]

    @property
    def limits(self) -> Mapping[str, Hardware]:
        """The lower bounds of machines by their role: as the release's service demands, or OpenShift's own limits,
        which openshift-install's ISO brings with it. Raises SubjectError."""
        limits = hardware.requirements(self.subject.hardware, self.subject.version, self.subject.pullspec)
        return limits if is_ours(self.installer) else hardware.OPENSHIFT

    def sized(self, topology: Topology) -> Topology:
        """Return the topology with machines at least as large as that. Raises SubjectError."""
        return hardware.sized(topology, self.limits)


def choose(get: Callable[[str], str | None]) -> Chosen:
    """Resolve the options; `get` returns an option's value by its name without dashes in front.

    The release is copied to this machine, or the lab release built. Raises SubjectError.
    """
    upstream = Upstream(credentials.pull_secret(get("pull-secret")), credentials.ca(get("ca")))
    installer = get("installer")
    if installer and not _is_image(installer):
        # The cheapest mistake first: copying a release takes minutes.
        checked(Path(installer), f"--installer {installer}")
    subject = _release(get("release"), get("release-dir"), upstream)
    return Chosen(subject, tuple(installer_of(installer, subject, upstream)))


def _release(name: str | None, directory: str | None, upstream: Upstream) -> Subject:
    if name is None and directory is None:
        return built_lab_release()
    cache = Cache(default_cache() / "subjects")
    try:
        if directory is not None:
            return from_directory(cache, Path(directory), name)
        assert name is not None
        return _built(name) or from_registry(cache, name, upstream)
    except ReleaseError as error:
        raise SubjectError("--release-dir" if directory else "--release", str(error)) from error


def here() -> list[str]:
    """Return the digests of the releases that were copied to this machine, or built on it."""
    from lab.release.build import built_digests

    return sorted({*Cache(default_cache() / "subjects").digests, *built_digests()})


def built_lab_release() -> Subject:
    """Return the lab release, built when its inputs have changed."""
    from lab.release.build import build_release

    return of_lab(build_release())


def _built(name: str) -> Subject | None:
    """Return a lab release that was built on this machine, by its pullspec: no registry of that name exists."""
    from lab.release.build import built_release

    release = built_release(parse_name(name, f"--release {without_login(name)}").digest)
    return of_lab(release) if release is not None else None


def _is_image(installer: str) -> bool:
    return installer.startswith("docker://") or ("@sha256:" in installer and not Path(installer).exists())


def installer_of(option: str | None, subject: Subject, upstream: Upstream) -> list[str]:
    """Return the command line of `--installer`, without it of the release's own, else of node0. Raises SubjectError."""
    if option is None:
        return [str(subject.installer)] if subject.installer else default_installer()
    if not _is_image(option):
        return [str(Path(option).absolute())]
    source = f"--installer {without_login(option)}"
    name = parse_name(option, source)
    digest = name.digest or upstream.digest(str(name))
    cache = Cache(default_cache() / "subjects")
    cache.copy("installer", f"{name.repository}@{digest}", upstream)
    extracted = cache.installer(digest, source)
    if extracted is None:
        raise SubjectError(source, "its openshift-install is a script that does not run without the image")
    return [str(extracted)]
