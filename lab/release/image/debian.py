"""Debian's share of the images: the base layer that all of them stand on, and layers of further packages.

The base is the packages marked Essential plus Python and what the agent looks at hardware with: no apt, no
documentation, no translations. A package layer holds just the packages that the base lacks, unpacked
without running their scripts; everything a program of ours needs from them is in their files.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.release.image.layer import Compression, Layer, LayerWriter
from lab.release.stage import progress
from lab.release.stage.apt import SUITE, close_apt, debian_sources, open_apt, transport_settings
from lab.release.stage.errors import RecipeMismatch
from lab.release.stage.keys import Built, Unkeyed, host_packages
from lab.release.stage.store import Store

BASE_PACKAGES = (
    "ca-certificates",
    "dmidecode",
    "iproute2",
    "iputils-arping",
    "iputils-ping",
    "mount",
    "openssl",
    "procps",
    "python3",
    # Instead of usrmerge, which would bring all of Perl.
    "usr-is-merged",
    "util-linux-extra",
)

DPKG_STATUS = "dpkg-status"
MERGED_USR_HOOKS = Path("/usr/share/mmdebstrap/hooks/merged-usr")

# Left out of every layer: nobody reads or translates in a container, nothing is installed there later, and nothing
# of ours is written in Perl, which Debian's package tools bring along (libperl.so stays: keepalived is linked to it).
UNWANTED = (
    "dev/*",
    "etc/machine-id",
    "etc/hostname",
    "etc/resolv.conf",
    "run/*",
    "tmp/*",
    "usr/bin/perl*",
    "usr/games/*",
    "usr/include/*",
    "usr/lib/python3*/ensurepip/*",
    "usr/lib/python3*/idlelib/*",
    "usr/lib/python3*/lib2to3/*",
    "usr/lib/python3*/pydoc_data/*",
    "usr/lib/python3*/test/*",
    "usr/lib/python3*/turtledemo/*",
    "usr/lib/python3*/*.opt-[12].pyc",
    "usr/lib/x86_64-linux-gnu/gconv/*",
    "usr/lib/x86_64-linux-gnu/perl*",
    "usr/share/bash-completion/*",
    "usr/share/bug/*",
    "usr/share/doc-base/*",
    "usr/share/doc/*",
    "usr/share/info/*",
    "usr/share/lintian/*",
    "usr/share/locale/*",
    "usr/share/man/*",
    "usr/share/misc/pci.ids",
    "usr/share/perl*",
    "usr/share/snmp/*",
    "usr/share/zoneinfo/*",
    "var/cache/*",
    "var/lib/apt/*",
    "var/lib/dpkg/*",
    "var/log/*",
)
# Licences stay, whatever else of the documentation goes.
_KEPT = re.compile(r"^usr/share/doc/[^/]+/copyright$")
_UNWANTED = re.compile("|".join(fnmatch.translate(pattern) for pattern in UNWANTED))


@dataclass(frozen=True)
class Packages:
    """Debian packages for one layer; ``skip`` are patterns of dependencies that the program runs without."""

    names: tuple[str, ...]
    skip: tuple[str, ...] = ()

    def takes(self, deb: str) -> bool:
        """Return whether a .deb file's package is to be unpacked."""
        return not any(fnmatch.fnmatchcase(deb.split("_", 1)[0], pattern) for pattern in self.skip)


def wanted(name: str) -> bool:
    """Return whether a path (relative, after the /usr merge) of a package belongs into an image."""
    return _KEPT.fullmatch(name) is not None or _UNWANTED.match(name) is None


@dataclass(frozen=True)
class BaseInputs:
    """Inputs of the base layer; ``tools`` by version."""

    suite: str
    packages: tuple[str, ...]
    tools: Mapping[str, str]


def base(store: Store) -> Path:
    """Stage with the base layer and, beside it, the dpkg status that package layers resolve against."""
    inputs = BaseInputs(SUITE, BASE_PACKAGES, host_packages("mmdebstrap"))
    return store.stage("base", inputs, _build_base)


def _build_base(store: Store, inputs: BaseInputs, out: Path) -> None:
    work = store.scratch("mmdebstrap")
    try:
        sources = work / "debian.sources"
        sources.write_text("\n".join(source.stanza("deb") for source in debian_sources()))
        settings = work / "apt.conf"
        settings.write_text(transport_settings())
        archive = work / "base.tar"
        argv = [
            progress.need("mmdebstrap", "mmdebstrap"),
            "--variant=essential",
            "--mode=root",
            f"--hook-dir={MERGED_USR_HOOKS}",
            "--format=tar",
            f"--include={','.join(inputs.packages)}",
            f"--aptopt={settings}",
            "--aptopt=APT::Install-Recommends false",
            # Files are re-dated later, so Python's caches must not be tied to dates; without them every start of a
            # container would compile its imports anew, which takes seconds under software emulation.
            '--customize-hook=chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash '
            "-x '/(test|lib2to3|idlelib)/' /usr/lib/python3.11 /usr/lib/python3/dist-packages",
            '--customize-hook=rm -rf "$1"/usr/share/zoneinfo',
            inputs.suite,
            str(archive),
            str(sources),
        ]
        progress.run(argv, label="mmdebstrap", log=store.log("mmdebstrap"))
        writer = LayerWriter()
        with tarfile.open(archive) as tar:
            status = tar.extractfile(next(m for m in tar if m.name.strip("./") == "var/lib/dpkg/status"))
            assert status is not None
            (out / DPKG_STATUS).write_bytes(status.read())
        writer.add_tar(archive, wanted, directories=True)
        # What mmdebstrap's tar holds empty, or not at all, and programs expect.
        for name, mode in (("tmp", 0o1777), ("run", 0o755), ("var/log", 0o755), ("var/cache", 0o755)):
            writer.add_directory(name, mode)
        writer.add_bytes("usr/share/node0/base.packages", _package_list(out / DPKG_STATUS))
        writer.finish(out, Compression.ZSTD)
    finally:
        subprocess.run(["rm", "-rf", str(work)], check=False)


def _package_list(status: Path) -> str:
    pairs = re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", status.read_text(), re.MULTILINE)
    return "".join(f"{name} {version}\n" for name, version in sorted(pairs))


@dataclass(frozen=True)
class DebInputs:
    """Package files on top of a base, by group."""

    base: Built
    groups: Mapping[str, Packages]


@dataclass(frozen=True)
class PackageInputs:
    """One group's layer: what it holds, and the files of all groups, which are downloaded at once when they have to."""

    group: str
    base: Built
    packages: Packages
    # All groups' files, in the key by what this group makes of them alone.
    all_groups: Unkeyed[Mapping[str, Packages]]


def package_layers(store: Store, groups: Mapping[str, Packages]) -> dict[str, Layer]:
    """One layer for each named group of packages, with the dependencies that the base does not have."""
    under = Built(base(store))
    wishes = {name: PackageInputs(name, under, packages, Unkeyed(groups)) for name, packages in groups.items()}
    return {n: Layer.load(store.stage(f"packages-{n}", wish, _package_layer)) for n, wish in wishes.items()}


def download(store: Store, inputs: DebInputs, out: Path) -> None:
    """Put each group's package files, all that it needs, into a folder of its name."""
    apt = open_apt(store, "deb", status=inputs.base.path / DPKG_STATUS)
    try:
        for name, packages in inputs.groups.items():
            (out / name).mkdir()
            for deb in apt.download(packages.names, f"download-{name}"):
                if packages.takes(deb.name):
                    deb.rename(out / name / deb.name)
                else:
                    # apt tells of what it would fetch: what is here already, the next group would not be told of.
                    deb.unlink()
    finally:
        close_apt(apt)


def _package_layer(store: Store, inputs: PackageInputs, out: Path) -> None:
    debs = store.stage("debs", DebInputs(inputs.base, inputs.all_groups.value), download)
    _unpack(store, sorted((debs / inputs.group).glob("*.deb")), inputs.group, out)


def _unpack(store: Store, debs: Sequence[Path], group: str, out: Path) -> None:
    if not debs:
        raise RecipeMismatch(f"package group {group!r} adds nothing to the base")
    work = store.scratch(f"unpack-{group}")
    try:
        writer = LayerWriter()
        for deb in debs:
            archive = work / f"{deb.stem}.tar"
            argv = [progress.need("dpkg-deb", "dpkg"), "--fsys-tarfile", str(deb)]
            progress.run(argv, label=f"unpack-{group}", log=store.log(f"unpack-{group}"), stdout=archive)
            writer.add_tar(archive, wanted, directories=False)
        writer.add_bytes(f"usr/share/node0/{group}.packages", "".join(f"{deb.name}\n" for deb in debs))
        writer.finish(out, Compression.ZSTD)
    finally:
        subprocess.run(["rm", "-rf", str(work)], check=False)
