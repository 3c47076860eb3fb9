"""The lab release as a release of somebody else's: other repositories, another digest, in an OCI layout.

python -m lab.testing.renamed DIRECTORY        # then: pytest scenarios/ --release-dir DIRECTORY
"""

from __future__ import annotations

import json
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from lab.release.build import Release, latest_release
from lab.release.image.layer import Compression, LayerWriter
from lab.subject.contents import extract, layers, manifest, parts
from lab.subject.stores import RegistryStorage

PARTS = "quay.example/openshift-release-dev/ocp-v4.0-art-dev"


def rename(release: Release, target: Path) -> str:
    """Write the OCI layout, which must not exist yet; the digest of its release image.

    Its parts are those of the lab release, byte for byte; the release image names them in the repository `PARTS`.
    """
    store, blobs = RegistryStorage(release.registry_storage), target / "blobs/sha256"
    blobs.mkdir(parents=True)

    def link(digest: str) -> None:
        source, there = store.blob(digest), blobs / digest.partition(":")[2]
        assert source is not None, f"{digest} of the lab release is missing"
        if not there.exists():
            there.symlink_to(source)

    def write(data: bytes, digest: str) -> int:
        return (blobs / digest.partition(":")[2]).write_bytes(data)

    writer = LayerWriter()
    with tempfile.TemporaryDirectory() as folder:
        writer.add_directory("release-manifests", 0o777)
        for path in extract(layers(store, release.digest)[-1:], "release-manifests/*", Path(folder)):
            text = path.read_text().replace(f"{release.source}@", f"{PARTS}@")
            writer.add_bytes(f"release-manifests/{path.name}", text)
    layer = writer.finish(target, Compression.GZIP)
    layer.blob.replace(blobs / layer.digest.partition(":")[2])
    document = manifest(store, release.digest)
    config = json.loads((store.blob(document["config"]["digest"]) or Path()).read_bytes())
    config["rootfs"]["diff_ids"][-1] = layer.diff_id
    data = json.dumps(config).encode()
    digest = f"sha256:{sha256(data).hexdigest()}"
    document["config"] |= {"digest": digest, "size": write(data, digest)}
    size = (blobs / layer.digest.partition(":")[2]).stat().st_size
    document["layers"][-1] = {"mediaType": layer.media_type, "digest": layer.digest, "size": size}
    for below in document["layers"][:-1]:
        link(below["digest"])
    data = json.dumps(document).encode()
    digest = f"sha256:{sha256(data).hexdigest()}"
    entries = [(f"{release.version}-x86_64", digest, write(data, digest))]
    for tag, name in release.components.items():
        part = name.rpartition("@")[2]
        for found in parts(store, part):
            link(found)
        entries.append((f"{release.version}-x86_64-{tag}", part, (blobs / part.partition(":")[2]).stat().st_size))
    (target / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    kind, name = document["mediaType"], "org.opencontainers.image.ref.name"
    index = [{"mediaType": kind, "digest": d, "size": s, "annotations": {name: t}} for t, d, s in entries]
    (target / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": index}))
    return digest


if __name__ == "__main__":
    print(rename(latest_release(), Path(sys.argv[1])))
