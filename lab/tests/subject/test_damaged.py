"""Directories with a release that somebody has cut, mixed up or made up: one line, whatever is in them."""

import gzip
import hashlib
import io
import json
import random
import shutil
import tarfile

import pytest

from lab.errors import SubjectError
from lab.release.image.oci import MANIFEST_TYPE
from lab.subject.mirroring import Cache, from_directory
from lab.subject.payload import check, read_payload
from lab.subject.sources import Directory
from lab.subject.stores import OciLayout
from lab.tests.subject.kit import VERSION, make

DEEP = b"[" * 100_000


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return (OCI layout, digests by tag) of a release that is whole."""
    return make(tmp_path_factory.mktemp("release"))


class Copy:
    """A copy of it, to be damaged."""

    def __init__(self, made, root):
        layout, self.digests = made
        self.root = root
        shutil.copytree(layout.root, root)

    def blob(self, digest):
        return self.root / "blobs/sha256" / digest.partition(":")[2]

    def put(self, data):
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blob(digest).write_bytes(data)
        return digest

    def release(self, manifest):
        """Have this for the release's manifest; the name that it then has."""
        return f"quay.example/x/y@{self.put(manifest)}"

    def layer(self, data):
        """Have this for the release's only layer; the name that it then has."""
        manifest = json.loads(self.blob(self.digests["release"]).read_bytes())
        manifest["layers"] = [{**manifest["layers"][0], "digest": self.put(data), "size": len(data)}]
        return self.release(json.dumps(manifest).encode())

    def part(self, tag):
        """Return the file of the first layer of one of its images."""
        return self.blob(json.loads(self.blob(self.digests[tag]).read_bytes())["layers"][0]["digest"])


@pytest.fixture
def copy(made, tmp_path):
    return Copy(made, tmp_path / "given")


def problem_of(copy, name=None):
    """Return the error for a directory: of the release of this name, else of what is found."""
    return line(lambda: from_directory(Cache(copy.root.parent / "subjects"), copy.root, name))


def problem_when_read(copy, name):
    """Return the error for the release of this name when it has been copied."""
    return line(lambda: check(read_payload(OciLayout(copy.root), name.rpartition("@")[2], "x"), "x"))


def line(call):
    """Return the one line that a call raises."""
    with pytest.raises(SubjectError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("manifest", "rule"),
    [
        (b"not JSON", "is not JSON"),
        (DEEP, "is not JSON"),
        (b"[]", "is no manifest"),
        (b"{}", "is no manifest: Object missing required field `config`"),
        (b'{"config": {"digest": "sha256:../../etc"}, "layers": []}', "is no manifest: Expected `str` matching regex"),
        (b'{"manifests": 3}', "is no index: Expected `array`, got `int`"),
        (b'{"manifests": ["x"]}', "is no index: Expected `object`, got `str`"),
        (b'{"manifests": [{"platform": {}}]}', "is no index: Object missing required field `digest`"),
        (b'{"manifests": []}', "is no index: Expected `array` of length >= 1"),
    ],
)
def test_a_manifest_that_is_none(copy, manifest, rule):
    source = Directory(OciLayout(copy.root), "x")
    assert rule in line(lambda: source.copy(copy.release(manifest), f"oci:{copy.root.parent}/nowhere"))


# Without its time, which would be in a test's id: workers that collect in different seconds would have other tests.
CUT = gzip.compress(bytes(9000), mtime=0)[:-20]


@pytest.mark.parametrize("times", [1, 3])
def test_an_index_of_itself(copy, times):
    """Nothing proves a directory's digests before it is read."""
    digest = f"sha256:{'0' * 64}"
    copy.blob(digest).write_text(json.dumps({"manifests": [{"digest": digest}] * times}))
    name = f"quay.example/x/y@{digest}"
    assert f"{digest} is an index of itself" in problem_when_read(copy, name)
    assert name in line(lambda: Directory(OciLayout(copy.root), "x").copy(name, f"oci:{copy.root.parent}/nowhere"))


@pytest.mark.parametrize("data", [b"", b"garbage" * 100, CUT, b"\x28\xb5\x2f\xfdgarbage"])
def test_a_layer_that_is_damaged(copy, capfd, data):
    assert "the release image is not whole: a layer of it cannot be unpacked: " in problem_when_read(
        copy, copy.layer(data)
    )
    assert "stdin" not in capfd.readouterr().err


def packed(references, metadata=None):
    """Return a release's layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w:gz") as archive:
        for name, text in (("image-references", references), ("release-metadata", metadata)):
            if text is not None:
                member = tarfile.TarInfo(f"release-manifests/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
    return layer.getvalue()


@pytest.mark.parametrize("damage", [b"", bytes(range(256)) * 20], ids=["cut", "overwritten"])
def test_an_archive_that_is_damaged(tmp_path, damage):
    whole = packed(random.Random(1).randbytes(100_000).hex().encode())
    (tmp_path / "mirror_000001.tar").write_bytes(whole[:50_000] + damage)
    assert "mirror_000001.tar cannot be unpacked: " in line(
        lambda: from_directory(Cache(tmp_path / "subjects"), tmp_path, None)
    )


@pytest.mark.parametrize(
    ("references", "metadata", "rule"),
    [
        (b"x", None, "image-references is not JSON"),
        (DEEP, None, "image-references is not JSON"),
        (b"[]", None, "image-references is not a mapping"),
        (b'{"spec": null}', None, "image-references is no ImageStream"),
        (b'{"spec": {"tags": [1]}}', None, "image-references is no ImageStream"),
        (b'{"spec": {"tags": []}, "metadata": [1]}', None, "release-metadata has no version"),
        (b'{"spec": {"tags": []}}', b'{"version": {"a": 1}, "metadata": []}', "release-metadata has no version"),
        (b'{"spec": {"tags": []}}', b"[]", "release-metadata is not a mapping"),
    ],
)
def test_a_release_that_says_nothing_of_itself(copy, references, metadata, rule):
    assert rule in problem_when_read(copy, copy.layer(packed(references, metadata)))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"x", "index.json: JSON is malformed"),
        (DEEP, "index.json: Expected `object`, got `array`"),
        (b'{"manifests": [null]}', "index.json: Expected `object`, got `null`"),
        (b'{"manifests": [{"annotations": [1], "digest": "sha256:1"}]}', "index.json: Expected `object | null`"),
    ],
)
def test_an_index_that_is_none(copy, text, rule):
    (copy.root / "index.json").write_bytes(text)
    assert (
        problem_of(copy)
        == f"--release-dir {copy.root}: cannot be read: {problem_of(copy).partition('cannot be read: ')[2]}"
    )
    assert rule in problem_of(copy)


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["etcd", "installer", "agent-installer-api-server"])
def test_a_release_that_was_mirrored_by_half(copy, tag):
    """Some of it may be in the cache by then; the next time the rest is copied."""
    part = copy.part(tag)
    content = part.read_bytes()
    part.unlink()
    assert f"is not whole there: sha256:{part.name} is missing" in problem_of(copy)
    part.write_bytes(b"cut")
    assert "Digest did not match" in problem_of(copy)
    part.write_bytes(content)
    cache = Cache(copy.root.parent / "subjects")
    assert from_directory(cache, copy.root, None).version == VERSION


def platforms(copy, *architectures):
    """Have a manifest list for the release; the name that it then has."""
    entries = [
        {
            "mediaType": MANIFEST_TYPE,
            "size": copy.blob(digest).stat().st_size,
            "digest": digest,
            "platform": {"os": "linux", "architecture": architecture},
        }
        for digest, architecture in architectures
    ]
    return copy.release(json.dumps({"schemaVersion": 2, "manifests": entries}).encode())


def test_of_a_manifest_list_this_machine_s_image_is_read(copy):
    """With a tag besides, the digest counts. One without an image for amd64 says what it is for."""
    arm = json.loads(copy.blob(copy.digests["release"]).read_bytes())
    config = json.loads(copy.blob(arm["config"]["digest"]).read_bytes()) | {"architecture": "arm64"}
    data = json.dumps(config).encode()
    arm["config"] = {**arm["config"], "digest": copy.put(data), "size": len(data)}
    arm["layers"] = [{**arm["layers"][0], "digest": copy.put(packed(b'{"spec": {"tags": []}}'))}]
    arm["layers"][0]["size"] = copy.blob(arm["layers"][0]["digest"]).stat().st_size
    digest = copy.put(json.dumps(arm).encode())
    both = [(digest, "arm64")]
    assert "it is for arm64, the lab's machines are amd64" in problem_of(copy, f"quay.example/x/y@{digest}")
    both.append((copy.digests["release"], "amd64"))
    name = platforms(copy, *both).replace("@", ":4.1-multi@")
    subject = from_directory(Cache(copy.root.parent / "subjects"), copy.root, name)
    assert (subject.version, subject.digest) == (VERSION, name.rpartition("@")[2])
