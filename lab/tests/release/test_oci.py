"""Layers and images: the same content gives the same digest, and what comes out is what OCI readers expect."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.release.image.layer import EPOCH, Compression, Layer, LayerWriter, merged
from lab.release.image.oci import Image, Layout
from lab.release.stage.errors import ReleaseError
from lab.release.verify import image_layers

NAMES = st.from_regex(r"[a-z]{1,4}(/[a-z]{1,4}){0,2}", fullmatch=True)


def write(directory: Path, entries: dict[str, bytes], compression: Compression = Compression.GZIP) -> Layer:
    directory.mkdir(parents=True, exist_ok=True)
    writer = LayerWriter()
    for name, data in entries.items():
        writer.add_bytes(name, data)
    return writer.finish(directory, compression)


def members(layer: Layer) -> dict[str, tarfile.TarInfo]:
    raw = layer.blob.read_bytes()
    if layer.media_type.endswith("zstd"):
        raw = subprocess.run(["zstd", "-dc"], input=raw, capture_output=True, check=True).stdout
    else:
        raw = gzip.decompress(raw)
    assert layer.diff_id == "sha256:" + hashlib.sha256(raw).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return {member.name: member for member in archive}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(files=st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=6), seed=st.randoms())
def test_digest_depends_on_content_alone(tmp_path: Path, files: dict[str, bytes], seed: object) -> None:
    # A path cannot be file and folder at once.
    files = {n: d for n, d in files.items() if not any(o.startswith(n + "/") for o in files)}
    shuffled = list(files.items())
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    first, two = write(tmp_path / "a", files), write(tmp_path / "b", dict(shuffled))
    assert first.digest == two.digest == "sha256:" + hashlib.sha256(first.blob.read_bytes()).hexdigest()


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression_holds_the_same_tar(tmp_path: Path, compression: Compression) -> None:
    layer = write(tmp_path, {"usr/bin/x": b"#!"}, compression)
    entries = members(layer)
    assert list(entries) == ["usr", "usr/bin", "usr/bin/x"]
    assert {member.mtime for member in entries.values()} == {EPOCH}
    assert layer == Layer.load(tmp_path)
    assert layer.size == layer.blob.stat().st_size


def test_a_package_follows_the_usr_merge(tmp_path: Path) -> None:
    archive = tmp_path / "deb.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("./lib", "./usr/bin"):
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        info = tarfile.TarInfo("./lib/libx.so.1")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"elf"))
        link = tarfile.TarInfo("./bin/also")
        link.type, link.linkname = tarfile.LNKTYPE, "./lib/libx.so.1"
        tar.addfile(link)
    writer = LayerWriter()
    writer.add_tar(archive, lambda name: True, directories=False)
    (tmp_path / "out").mkdir()
    entries = members(writer.finish(tmp_path / "out", Compression.GZIP))
    assert entries["usr/lib/libx.so.1"].size == 3
    # The link comes after its file, though its name sorts before it.
    assert list(entries)[-1] == "usr/bin/also"
    assert entries["usr/bin/also"].linkname == "usr/lib/libx.so.1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("./lib/x", "usr/lib/x"), ("./bin", "bin"), ("lib64/ld.so", "usr/lib64/ld.so"), ("./etc/x", "etc/x"), ("./", "")],
)
def test_merged(name: str, expected: str) -> None:
    assert merged(name) == expected


def test_layout_shares_layers_and_names_exactly_what_was_written(tmp_path: Path) -> None:
    base, top = write(tmp_path / "base", {"a": b"1"}), write(tmp_path / "top", {"b": b"2"})
    layout = Layout(tmp_path / "oci")
    labels = {"io.openshift.release": "1"}
    written = layout.write([Image("x", (base,)), Image("y", (base, top), ("/y",), labels=labels)])
    again = Layout(tmp_path / "other").write([Image("y", (base, top), ("/y",), labels=labels)])
    assert written[1].digest == again[0].digest
    blobs = {path.name for path in (tmp_path / "oci" / "blobs" / "sha256").iterdir()}
    assert len(blobs) == 6  # two layers, two configs, two manifests
    assert all(
        hashlib.sha256((tmp_path / "oci/blobs/sha256" / name).read_bytes()).hexdigest() == name for name in blobs
    )
    assert image_layers(layout.root, "y") == [
        (layer.media_type, layout.root / "blobs" / layer.digest.replace(":", "/")) for layer in (base, top)
    ]
    layout.write([Image("x", (base,))])
    with pytest.raises(ReleaseError, match="'y'"):
        image_layers(layout.root, "y")
    config = json.loads((tmp_path / "other/blobs" / written[1].digest.replace(":", "/")).read_text())["config"]
    stored = json.loads((tmp_path / "other/blobs" / config["digest"].replace(":", "/")).read_text())
    assert stored["rootfs"]["diff_ids"] == [base.diff_id, top.diff_id]
    assert stored["config"]["Labels"] == labels
