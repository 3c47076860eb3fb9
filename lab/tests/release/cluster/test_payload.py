"""Reading payloads: image-references, filters, order; and the payload that this repository itself is."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster import installconfig
from lab.release.cluster.errors import ManifestError, PayloadError, UnknownTag
from lab.release.cluster.kube import payload
from lab.release.components import COMPONENTS, OS_TAG

VERSION = "4.18.0-node0.abcdef12"
MANIFESTS = Path(payload.__file__).parents[1] / "manifests"


def write_payload(root, manifests=None, version=VERSION, metadata_version=None):
    directory = root / "release-manifests"
    directory.mkdir(parents=True)
    (root / "manifests").mkdir()
    tags = [{"name": t, "from": {"kind": "DockerImage", "name": f"r@sha256:{t}"}} for t in ("etcd", "pod")]
    stream = {"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}}
    (directory / "image-references").write_text(json.dumps({**stream, "spec": {"tags": tags}}))
    metadata = {"kind": "cincinnati-metadata-v0", "version": metadata_version or version}
    (directory / "release-metadata").write_text(json.dumps(metadata))
    for name, obj in (manifests or {}).items():
        (directory / name).write_text(obj if isinstance(obj, str) else yaml.safe_dump(obj))
    return root


def config_map(name, **notes):
    meta = {"name": name, "namespace": "ns", "annotations": {payload.PROFILE: "true", **notes}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def test_manifests_come_by_level_then_component_then_file(tmp_path):
    root = write_payload(
        tmp_path,
        {
            "0000_50_b_01.yaml": config_map("third"),
            "0000_10_z_01.yaml": config_map("first"),
            "0000_50_a_02.yaml": config_map("second"),
            "0000_50_out_01.yaml": config_map("out", **{payload.PROFILE: "false"}),
            "README.txt": "not a manifest",
        },
    )
    manifests = payload.load_manifests(root, "release@sha256:1")
    assert [m.object["metadata"]["name"] for m in manifests] == ["first", "second", "third"]
    assert manifests[0].name == 'configmap "ns/first"'


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, True),
        ({payload.PROFILE: "yes"}, False),
        ({payload.FEATURE_SET: "Default"}, True),
        ({payload.FEATURE_SET: "TechPreviewNoUpgrade"}, False),
        ({payload.FEATURE_SET: "Default,Unheard"}, False),
        ({payload.CAPABILITY: "Console+Ingress"}, True),
        ({payload.CAPABILITY: "Console+Insights"}, False),
    ],
)
def test_annotations_decide(notes, expected):
    assert payload.included(config_map("x", **notes)) is expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"\xff\xfe", "is not UTF-8"),
        (b"kind: X\napiVersion: v1\nmetadata: {name: x, annotations: [a]}", "X x: malformed metadata"),
        (b"kind: X\napiVersion: v1\nmetadata: {name: x, namespace: 5}", "X x: malformed metadata"),
        (b"kind: [1]\napiVersion: v1\nmetadata: {name: x}", "without apiVersion, kind or metadata.name"),
        (b"kind: List\nitems: 5", "without apiVersion, kind or metadata.name"),
    ],
)
def test_a_manifest_that_is_none_is_told_by_its_file(tmp_path, text, rule):
    root = write_payload(tmp_path)
    (root / "manifests" / "0000_50_x_01.yaml").write_bytes(text)
    with pytest.raises(ManifestError, match=rf"0000_50_x_01.yaml: .*{rule}"):
        payload.load_manifests(root, "r")


@pytest.mark.parametrize("version", ["next", "4.\u0661.0", f"4.1.{'9' * 5000}"])
def test_a_release_s_version_is_a_semantic_one(tmp_path, version):
    with pytest.raises(PayloadError, match="release-metadata says version"):
        payload.load_images(write_payload(tmp_path, version=version))


@pytest.mark.parametrize("name", ["image-references", "release-metadata"])
@pytest.mark.parametrize("raw", [b"\xff", b"[" * 200_000, b"[]"])
def test_what_describes_a_release_and_is_malformed_is_told(tmp_path, name, raw):
    root = write_payload(tmp_path)
    (root / "release-manifests" / name).write_bytes(raw)
    with pytest.raises(PayloadError, match=f"{name} is malformed"):
        payload.load_images(root)


def test_no_annotations_at_all_excludes():
    assert not payload.included({"metadata": {"name": "x"}})


def test_placeholders_and_the_snapshot_version_are_replaced():
    images = payload.Images(VERSION, {"etcd": "r@sha256:e"})
    text = "a: {{.ReleaseImage}}\nb: {{ .Images.etcd }}\nc: 0.0.1-snapshot"
    assert payload.fill(text, images, "rel") == f"a: rel\nb: r@sha256:e\nc: {VERSION}"
    with pytest.raises(UnknownTag):
        payload.fill("{{.Images.nope}}", images, "rel")
    with pytest.raises(ManifestError, match="unknown placeholder"):
        payload.fill("{{.Whatever}}", images, "rel")


def test_a_bootstrap_leaves_out_what_needs_to_know_the_cluster(tmp_path):
    text = "\n---\n".join(
        yaml.safe_dump({**config_map(name), "data": {"x": value}})
        for name, value in (("plain", "{{.ReleaseImage}}"), ("network", "{{.Cluster.ClusterNetworks}} --- x"))
    )
    root = write_payload(tmp_path, {"0000_70_a_01.yaml": "# a comment\n" + text})
    assert [m.object["data"] for m in payload.load_manifests(root, "rel")] == [{"x": "rel"}]
    filled = payload.load_manifests(root, "rel", {"ClusterNetworks": "fd01::/48,10.128.0.0/14"})
    assert [m.object["data"]["x"] for m in filled] == ["rel", "fd01::/48,10.128.0.0/14 --- x"]
    with pytest.raises(ManifestError, match=r"unknown placeholder \{\{\.Cluster\.ClusterNetworks\}\}"):
        payload.load_manifests(root, "rel", {})


CONFIG = installconfig.parse(
    "baseDomain: example.test\nmetadata: {name: c}\ncontrolPlane: {replicas: 1}\n"
    "networking:\n  clusterNetwork: [{cidr: 'fd01::/48', hostPrefix: 64}, {cidr: 10.128.0.0/14}]\n"
    "  serviceNetwork: ['fd02::/112', 172.30.0.0/16]\n"
)


def test_the_clusters_values_are_those_of_its_configuration():
    assert payload.cluster_values(CONFIG, "apps.elsewhere.test") == {
        "APIInternalHost": "api-int.c.example.test",
        "AppsDomain": "apps.elsewhere.test",
        "ClusterNetworks": "fd01::/48,10.128.0.0/14",
        "ConsoleReplicas": "1",
        "DNSAddress": "fd02::a",
        "DualStack": "true",
        "IPFamilyPolicy": "PreferDualStack",
        "PodNetworks": "fd01::/48,10.128.0.0/14",
        "ServiceNetworks": "fd02::/112,172.30.0.0/16",
    }


def test_versions_must_agree(tmp_path):
    write_payload(tmp_path, metadata_version="4.18.1")
    with pytest.raises(PayloadError, match=r"4\.18\.1"):
        payload.load_images(tmp_path)


def test_a_payload_without_references_says_so(tmp_path):
    with pytest.raises(PayloadError, match="did not contain a image-references file"):
        payload.load_images(tmp_path)


@given(st.text(max_size=60))
def test_any_text_is_objects_or_a_manifest_error(text):
    try:
        objects = payload.read_objects(text, "f")
    except ManifestError:
        return
    assert all(obj["metadata"]["name"] for obj in objects)


def test_our_own_manifests_are_all_admitted_and_complete():
    names = set()
    tags = [*(component.tag for component in COMPONENTS), OS_TAG]
    images = payload.Images(VERSION, {tag: f"r@sha256:{tag}" for tag in tags})
    values = payload.cluster_values(CONFIG, "apps.c.example.test")
    for path in sorted(MANIFESTS.rglob("*.yaml")):
        for obj in payload.read_objects(payload.fill(path.read_text(), images, "rel", values), path.name):
            assert payload.included(obj), path.name
            names.add((obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]))
    for kind in ("ServiceAccount", "RoleBinding", "Role"):
        for _, namespace, _ in [n for n in names if n[0] == kind]:
            assert namespace == "kube-system" or ("Namespace", None, namespace) in names
