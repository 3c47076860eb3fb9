"""A release of OpenShift's layout that is not ours: other repositories, tags and manifests; its images are tiny."""

import hashlib
import json
import struct
import urllib.request

from lab.release.image.layer import Compression, LayerWriter
from lab.release.image.oci import MANIFEST_TYPE, Image, Layout
from lab.subject.payload import NEEDED

VERSION = "4.20.1"
LIMITS = [{"version": "default", "master": {"cpu_cores": 4, "ram_mib": 16384, "disk_size_gb": 100}}]


def program(machine=62):
    """Return a program that answers `version` as openshift-install does; its head says which processor it is for (62:
    amd64, which it is for)."""
    base, head = 0x400000, 64 + 56
    said = b"openshift-install 4.20.1\nrelease image quay.example/ocp/release:4.20.1\n"
    # mov eax, 1 (write); mov edi, 1; mov esi, TEXT; mov edx, LENGTH; syscall; mov eax, 60 (exit); xor edi, edi; syscall
    code, length = "b801000000 bf01000000 be{} ba{} 0f05 b83c000000 31ff 0f05", 31
    where, many = (struct.pack("<I", number).hex() for number in (base + head + length, len(said)))
    size = head + length + len(said)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + head, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    return ident + elf + segment + bytes.fromhex(code.format(where, many)) + said


def layer(folder, files):
    """Return a layer with these files."""
    folder.mkdir(parents=True)
    writer = LayerWriter()
    for name, data in files.items():
        writer.add_bytes(name, data)
    return writer.finish(folder, Compression.GZIP)


def make(top, *, host="quay.example", tags=(*NEEDED, "etcd"), version=VERSION, architecture="amd64", installer=None):
    """Return an OCI layout with a release and its parts; (layout, digests by tag, the release's among them as
    `release`)."""
    files = {
        "installer": {"usr/bin/openshift-install": program() if installer is None else installer},
        "agent-installer-api-server": {"data/default_hw_requirements.json": json.dumps(LIMITS)},
    }
    # What nothing reads is one image with many tags: each image is a process to copy.
    plain = layer(top / "layers/plain", {"plain.txt": "plain"})
    read = {tag: layer(top / "layers" / tag, files.get(tag, {f"{tag}.txt": tag})) for tag in (*files, "etcd")}
    images = [Image(tag, (read.get(tag, plain),)) for tag in tags]
    layout = Layout(top / "oci")
    digests = {one.tag: one.digest for one in layout.write(images)}
    repository = f"{host}/openshift-release-dev/ocp-v4.0-art-dev"
    named = [{"name": t, "from": {"kind": "DockerImage", "name": f"{repository}@{d}"}} for t, d in digests.items()]
    manifests = {
        "release-manifests/image-references": json.dumps(
            {"kind": "ImageStream", "metadata": {"name": version}, "spec": {"tags": named}}
        ),
        "release-manifests/release-metadata": json.dumps(
            {"version": version, "metadata": {"release.openshift.io/architecture": architecture}}
        ),
    }
    release = Image(
        f"{version}-x86_64", (layer(top / "layers/release", manifests),), labels={"io.openshift.release": version}
    )
    written = layout.write([*images, release])
    return layout, {one.tag.replace(f"{version}-x86_64", "release"): one.digest for one in written}


def push(layout, names, address):
    """Push the layout's images of these digests, by `REPOSITORY:TAG`, to a registry."""
    for name, digest in names.items():
        repository, _, tag = name.partition(":")
        top = f"http://{address}/v2/{repository}"
        content = blob(layout, digest)
        manifest = json.loads(content)
        for part in (manifest["config"], *manifest["layers"]):
            with _answer("POST", f"{top}/blobs/uploads/") as started:
                upload = f"{started.headers['Location']}&digest={part['digest']}"
            _answer("PUT", upload, blob(layout, part["digest"]), {"Content-Type": "application/octet-stream"}).close()
        _answer("PUT", f"{top}/manifests/{tag}", content, {"Content-Type": MANIFEST_TYPE}).close()


def served(address, repository, name):
    """Return the digest of a manifest that a registry has under this name; raises HTTPError where it has none."""
    url = f"http://{address}/v2/{repository}/manifests/{name}"
    with _answer("GET", url, headers={"Accept": MANIFEST_TYPE}) as answer:
        return f"sha256:{hashlib.sha256(answer.read()).hexdigest()}"


def blob(layout, digest):
    """Return the layout's file of a digest."""
    return (layout.root / "blobs/sha256" / digest.partition(":")[2]).read_bytes()


def _answer(method, url, data=None, headers=None):
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return direct.open(urllib.request.Request(url, data, headers or {}, method=method), timeout=60)


def as_oc_files(layout, digests, target):
    """Return the layout's images as `oc adm release mirror --to-dir` leaves them: v2/openshift/release, a link a
    tag."""
    folder = target / "v2/openshift/release"
    (folder / "manifests").mkdir(parents=True)
    (folder / "blobs").mkdir()
    for blob in (layout.root / "blobs/sha256").iterdir():
        (folder / "blobs" / f"sha256:{blob.name}").write_bytes(blob.read_bytes())
    for digest in set(digests.values()):
        (folder / "manifests" / digest).hardlink_to(folder / "blobs" / digest)
    for tag, digest in digests.items():
        suffix = "" if tag == "release" else f"-{tag}"
        (folder / "manifests" / f"{VERSION}-x86_64{suffix}").symlink_to(digest)
