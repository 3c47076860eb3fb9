"""A registry with a release to make images from, an asset directory, and what an ISO carries."""

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from installer.common.iso9660 import Iso
from installer.image.iso.embed import embedded_ignition
from installer.testing.create.embed_kit import make_iso
from installer.testing.create.inputs_kit import AGENT, SNO, text
from installer.testing.create.registry_kit import MISSING, SOURCE, Registry, registry

#: Programs that it takes to make a release, and that are not here.
NEEDED = [*MISSING, *(["xorriso"] if shutil.which("xorriso") is None else [])]

COMPONENTS = (
    "agent-installer-api-server",
    "agent-installer-node-agent",
    "agent-installer-orchestrator",
    "agent-installer-csr-approver",
)


def base_iso_files(iso: Path) -> dict[str, bytes]:
    """Make the files of machine-os-images: the base ISO and its checksum."""
    data = iso.read_bytes()
    return {
        "coreos/coreos-x86_64.iso": data,
        "coreos/coreos-x86_64.iso.sha256": hashlib.sha256(data).hexdigest().encode(),
    }


def named_components() -> dict[str, str]:
    """Pullspecs of the images that `create` only names, so that no registry has to have them."""
    return {name: f"{SOURCE}@sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in COMPONENTS}


def components(server: Registry, iso: Path) -> dict[str, str]:
    """Return the images of a release by tag: machine-os-images with the base ISO, which is pushed, and others by
    name."""
    return {**named_components(), "machine-os-images": server.push([base_iso_files(iso)], "mos", "zstd")}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, str, str]]:
    """Provide a registry with a release, the pullspec of that release, and of one whose base ISO is not what it
    says."""
    folder = tmp_path_factory.mktemp("payload")
    iso = make_iso(folder, igninfo={"file": "images/ignition.img"})
    with registry(folder / "registry") as server:
        images = components(server, iso)
        wrong = server.push([{**base_iso_files(iso), "coreos/coreos-x86_64.iso.sha256": b"0" * 64}], "wrong", "zstd")
        yield (
            server,
            server.push_release(images),
            server.push_release({**images, "machine-os-images": wrong}, tag="bad"),
        )


def inputs(
    folder: Path, server: Registry, install: Mapping[str, Any] | None = None, agent: Mapping[str, Any] | None = None
) -> None:
    """Write the configs of one node that pulls from `server`; `install` and `agent` are fields to set in them."""
    source = {"source": server.sources[0].source, "mirrors": [server.repository]}
    common = {"pullSecret": server.pull_secret, "imageDigestSources": [source], "additionalTrustBundle": server.ca_pem}
    (folder / "install-config.yaml").write_text(text({**SNO, **common, **(install or {})}))
    (folder / "agent-config.yaml").write_text(text({**AGENT, **(agent or {})}))


def asset_directory(
    server: Registry, release: str, parent: Path, monkeypatch: pytest.MonkeyPatch, *, cache: Path
) -> Path:
    """Return a new directory in `parent` with the inputs of one node; the environment names the release and the
    cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", release)
    monkeypatch.delenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", raising=False)
    folder = parent / "dir"
    folder.mkdir()
    inputs(folder, server)
    return folder


@pytest.fixture
def directory(lab: tuple[Registry, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an asset directory with the inputs of one node, installed from the registry's release; its caches are
    empty."""
    return asset_directory(*lab[:2], tmp_path, monkeypatch, cache=tmp_path / "cache")


def content(iso: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """(Ignition config, its files by path) of an ISO."""
    with iso.open("rb") as file:
        config = json.loads(embedded_ignition(Iso(file, iso)) or b"")
    files = {}
    for entry in config["storage"]["files"]:
        raw = base64.b64decode(entry["contents"]["source"].partition("base64,")[2])
        files[entry["path"]] = raw.decode(errors="surrogateescape")  # agent-redact is a program
    return config, files
