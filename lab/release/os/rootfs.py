"""First stage: a plain Debian root from the host's archive, by mmdebstrap."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.release.os import packages
from lab.release.stage import progress
from lab.release.stage.apt import debian_sources, transport_settings
from lab.release.stage.keys import host_packages
from lab.release.stage.store import Store

#: Files are stamped with this time (2026-01-01) wherever a tool asks for one, so that equal inputs give equal images.
SOURCE_DATE_EPOCH = "1767225600"


def build_rootfs(store: Store) -> Path:
    """Return the stage that holds ``root/``: a configured Debian root without any trace of its archive.

    Its key is what is asked for, not what the archive has: newer versions come with a changed list or an empty cache.

    Raises:
        NoAptSource: this machine has no source for the suite.
        CommandFailed: mmdebstrap failed.
        ToolMissing: there is no mmdebstrap.
    """
    filters, tools = packages.dpkg_filters(), host_packages("mmdebstrap")
    inputs = Inputs(packages.SUITE, packages.package_names(), filters, packages.REMOVED, tools)
    return store.stage("os-rootfs", inputs, _bootstrap)


@dataclass(frozen=True)
class Inputs:
    """Inputs of the root: packages asked for, dpkg's path filters, patterns of what is removed afterwards."""

    suite: str
    packages: tuple[str, ...]
    filters: tuple[str, ...]
    removed: tuple[str, ...]
    tools: Mapping[str, str]


def _bootstrap(store: Store, inputs: Inputs, out: Path) -> None:
    root = out / "root"
    work = store.scratch("os-mmdebstrap")
    try:
        # mmdebstrap reads both files; they name the mirror, so they live in the scratch directory only.
        sources = work / "debian.sources"
        sources.write_text("\n".join(source.stanza("deb") for source in debian_sources(inputs.suite)))
        settings = work / "apt.conf"
        settings.write_text(transport_settings() + 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\n')
        command = [
            progress.need("mmdebstrap", "mmdebstrap"),
            "--mode=root",
            "--variant=minbase",
            # Without usr-is-merged's mark, its package pulls perl; the hook makes the merged layout from the start.
            '--essential-hook=mkdir -p "$1"/usr/share/doc/usr-is-merged',
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--include={','.join(inputs.packages)}",
            f"--aptopt={settings}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt={option}" for option in inputs.filters),
            inputs.suite,
            str(root),
            str(sources),
        ]
        # INITRD=No keeps dracut's kernel hook from building an initramfs that nobody boots.
        environment = {
            **os.environ,
            "INITRD": "No",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
            "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
        }
        progress.run(command, label="mmdebstrap", log=store.log("os-mmdebstrap"), env=environment)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _keep_package_list(root)
    _trim(root, inputs.removed)


def _keep_package_list(root: Path) -> None:
    """Write name and version of every package to /usr/share/node0/packages.txt: dpkg's own database does not stay."""
    lines = []
    for stanza in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if line[:1] not in (" ", "") and ": " in line)
        if fields.get("Status", "").endswith(" installed"):
            lines.append(f"{fields['Package']} {fields['Version']}\n")
    target = root / "usr/share/node0/packages.txt"
    target.parent.mkdir(parents=True)
    target.write_text("".join(sorted(lines)))


def _trim(root: Path, removed: Iterable[str]) -> None:
    """Remove apt's and dpkg's data (they name the mirror; nothing installs packages later) and what nobody reads."""
    for name in ("etc/apt", "etc/dpkg", "var/lib/apt", "var/cache/apt", "var/lib/dpkg", "var/cache/debconf"):
        shutil.rmtree(root / name, ignore_errors=True)
    for pattern in removed:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (root / "var/log").rglob("*"):
        if path.is_file():
            path.unlink()
