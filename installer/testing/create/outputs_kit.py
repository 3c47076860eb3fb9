"""Asset directories of tests: a release to make an image of, inputs, and what a command has left there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.cli import main
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.testing.create.image_kit import asset_directory, components
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import Registry, registry

MANIFESTS = [
    f"cluster-manifests/{name}.yaml"
    for name in (
        "agent-cluster-install",
        "cluster-deployment",
        "cluster-image-set",
        "infraenv",
        "nmstateconfig",
        "pull-secret",
    )
]
MIRROR = ["mirror/ca-bundle.crt", "mirror/registries.conf"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, str, Path]]:
    """Provide a registry with a release in it, the release's pullspec, and its base ISO."""
    folder = tmp_path_factory.mktemp("payload")
    iso = build(folder, "2023-07.x86_64")
    with registry(folder / "registry") as server:
        yield server, server.push_release(components(server, iso)), iso


@pytest.fixture
def directory(lab: tuple[Registry, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a directory with inputs for the release, which the environment names. A module's tests share their
    caches."""
    server, release, _iso = lab
    return asset_directory(server, release, tmp_path, monkeypatch, cache=server.folder / "cache")


def create(target: str, directory: Path) -> int:
    """Run `node0 agent create TARGET` on the directory; its exit code."""
    return main(["agent", "create", target, "--dir", str(directory)])


def names(directory: Path) -> list[str]:
    """List the directory's entries, hidden files apart."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file() and p.name[0] != ".")


def kernel_line(path: Path) -> list[str]:
    """Return the kernel arguments in an ISO's kargs area."""
    with path.open("rb") as file:
        iso = Iso(file, path)
        area = kargs_area(iso)
        assert area is not None
        return current_kargs(iso, area).split()
