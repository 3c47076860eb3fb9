"""Asset directories of tests: a release to make an image of, inputs, and what a command has left there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from installer.cli import main
from installer.image.iso.embed import current_kargs, kargs_area
from installer.image.iso.iso9660 import Iso
from installer.testing.create.image_kit import components
from installer.testing.create.inputs_kit import AGENT, SNO, text
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import MISSING, Registry, registry

#: Programs that it takes to make a release, and that are not here.
NEEDED = [*MISSING, *(["xorriso"] if shutil.which("xorriso") is None else [])]
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


@contextmanager
def payload(folder: Path) -> Iterator[tuple[Registry, str, Path]]:
    """A registry with a release in it, the release's pullspec, and its base ISO; files go into `folder`."""
    iso = build(folder, "2023-07.x86_64")
    with registry(folder / "registry") as server:
        yield server, server.push_release(components(server, iso)), iso


def inputs(
    folder: Path, server: Registry, install: Mapping[str, Any] | None = None, agent: Mapping[str, Any] | None = None
) -> None:
    """Write the configs of one node that pulls from `server`; `install` and `agent` are fields to set in them."""
    source = {"source": server.sources[0].source, "mirrors": [server.repository]}
    common = {"pullSecret": server.pull_secret, "imageDigestSources": [source], "additionalTrustBundle": server.ca_pem}
    (folder / "install-config.yaml").write_text(text({**SNO, **common, **(install or {})}))
    (folder / "agent-config.yaml").write_text(text({**AGENT, **(agent or {})}))


def asset_directory(release: tuple[Registry, str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with inputs for the release (of `payload`), which the environment names. Tests share their caches."""
    server, pullspec, _iso = release
    monkeypatch.setenv("XDG_CACHE_HOME", str(server.folder / "cache"))
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", pullspec)
    monkeypatch.delenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", raising=False)
    directory = folder / "dir"
    directory.mkdir()
    inputs(directory, server)
    return directory


def create(target: str, directory: Path) -> int:
    """Run `node0 agent create TARGET` on the directory; its exit code."""
    return main(["agent", "create", target, "--dir", str(directory)])


def names(directory: Path) -> list[str]:
    """What lies in the directory, hidden files apart."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file() and p.name[0] != ".")


def kernel_line(path: Path) -> list[str]:
    """The kernel arguments in an ISO's kargs area."""
    with path.open("rb") as file:
        iso = Iso(file, path)
        area = kargs_area(iso)
        assert area is not None
        return current_kargs(iso, area).split()
