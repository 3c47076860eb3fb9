"""The release image's documents, the registry's configuration, and the packaging of our own code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.release import components, payload
from lab.release.image import code
from lab.release.image.debian import Packages, wanted
from lab.release.image.layer import Compression, LayerWriter
from lab.release.image.oci import Image
from lab.release.registry import SOURCE, RegistryConfig, has_manifest
from lab.release.stage.errors import RecipeMismatch
from lab.release.stage.store import Store

SEMVER = re.compile(r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)-node0\.(0|[1-9]\d*|\d*[a-z][0-9a-z]*)$")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_versions_are_semver_and_follow_their_inputs(inputs: dict[str, str]) -> None:
    version = payload.release_version(inputs)
    assert SEMVER.fullmatch(version)
    assert version == payload.release_version(dict(reversed(inputs.items())))
    assert version != payload.release_version({**inputs, "another": "x"})


def test_image_references_have_the_shape_that_oc_checks() -> None:
    digests = {
        "pod": "sha256:" + "1" * 64,
        "hyperkube": "sha256:" + "2" * 64,
        "rhel-coreos": "sha256:" + "3" * 64,
    }
    document = payload.image_references("4.18.0-node0.abc", digests, "abcd")
    assert (document["kind"], document["apiVersion"]) == ("ImageStream", "image.openshift.io/v1")
    assert document["metadata"]["name"] == "4.18.0-node0.abc"
    tags = document["spec"]["tags"]
    assert [tag["name"] for tag in tags] == ["hyperkube", "pod", "rhel-coreos"]
    assert tags[0]["from"] == {"kind": "DockerImage", "name": f"{SOURCE}@{digests['hyperkube']}"}
    assert tags[0]["annotations"]["io.openshift.build.versions"] == "kubernetes=1.20.2"
    assert tags[2]["annotations"]["io.openshift.build.versions"] == "machine-os=abcd"


def test_the_table_has_every_tag_of_the_flow() -> None:
    tags = [component.tag for component in components.COMPONENTS]
    assert len(tags) == len(set(tags))
    wanted_tags = {"agent-installer-api-server", "agent-installer-node-agent", "agent-installer-orchestrator"}
    wanted_tags |= {
        "agent-installer-csr-approver",
        "agent-installer-hub",
        "cli",
        "etcd",
        "hyperkube",
        "machine-config-operator",
    }
    wanted_tags |= {"haproxy-router", "console", "keepalived-ipfailover", "agent-installer-utils", "pacemaker"}
    wanted_tags |= {"kube-proxy", "network-check-target", "node-network", "unbound"}
    assert wanted_tags == set(tags)
    for component in components.COMPONENTS:
        assert set(component.packages) <= set(components.PACKAGES)


def test_manifests_get_a_run_level_and_their_folder(tmp_path: Path) -> None:
    for name in ("0000_10_x.yaml", "late.yaml", "README.md", "cvo/a.yaml", "bootstrap/pod.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert sorted(payload.manifest_files(tmp_path)) == [
        "bootstrap/pod.yaml",
        "manifests/a.yaml",
        "release-manifests/0000_10_x.yaml",
        "release-manifests/0000_50_late.yaml",
    ]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "x.yaml").write_text("{}")
    with pytest.raises(RecipeMismatch, match="odd"):
        payload.manifest_files(tmp_path)


def test_the_release_layer_is_the_last_and_holds_its_documents(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writer = LayerWriter()
    writer.add_bytes("usr/bin/x", b"")
    (tmp_path / "l").mkdir()
    base = writer.finish(tmp_path / "l", Compression.GZIP)
    digests = {"pod": "sha256:" + "1" * 64}
    contents = payload.Contents({"0000_10_x.yaml": "version: 0.0.1-snapshot"}, "4.18.1")
    operator = Image("cvo", (base,), ("/cvo",))
    version, image = payload.release_image(store, operator, "sha256:" + "9" * 64, digests, contents=contents)
    assert version.startswith("4.18.1-node0.")
    names = subprocess.run(
        ["tar", "-tzf", str(image.layers[-1].blob)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert image.layers[0] == base
    assert {name.split("/")[0] for name in names} == {"release-manifests"}
    assert {"release-manifests/image-references", "release-manifests/release-metadata"} <= set(names)
    assert image.labels == {
        "io.openshift.release": version,
        "io.openshift.release.base-image-digest": "sha256:" + "9" * 64,
    }


def test_hardware_thresholds_fit_the_labs_machines() -> None:
    (entry,) = json.loads(components.hardware_requirements())
    assert entry["version"] == "default"
    assert entry["sno"]["cpu_cores"] <= 2
    assert entry["sno"]["ram_mib"] <= 4096
    assert "network_latency_threshold_ms" in entry["master"]


def test_registry_configuration(tmp_path: Path) -> None:
    config = RegistryConfig(
        storage=tmp_path / "s",
        address="127.0.0.1:5000",
        certificate=tmp_path / "c",
        key=tmp_path / "k",
        htpasswd=tmp_path / "h",
    )
    document = yaml.safe_load(config.render())
    assert document["http"]["tls"] == {"certificate": str(tmp_path / "c"), "key": str(tmp_path / "k")}
    assert document["auth"]["htpasswd"]["path"] == str(tmp_path / "h")
    assert document["storage"]["maintenance"]["readonly"] == {"enabled": True}
    file = tmp_path / "registry.yaml"
    file.write_text("")
    file.chmod(0o644)
    config.write(file)
    assert file.stat().st_mode & 0o777 == 0o600
    plain = yaml.safe_load(RegistryConfig(storage=tmp_path, address="127.0.0.1:5000").render())
    assert "tls" not in plain["http"]
    assert "auth" not in plain


def test_a_manifest_counts_only_with_its_tag(tmp_path: Path) -> None:
    digest = "sha256:" + "a" * 64
    manifests = tmp_path / "docker/registry/v2/repositories/node0/lab-release/_manifests"
    revision = manifests / "revisions/sha256" / ("a" * 64)
    current = manifests / "tags/x/current"
    for folder in (revision, current):
        folder.mkdir(parents=True)
        (folder / "link").write_text(digest)
    assert has_manifest(tmp_path, digest, "x")
    assert not has_manifest(tmp_path, digest, "y")
    assert not has_manifest(tmp_path, "sha256:" + "b" * 64, "x")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usr/share/doc/bash/copyright", True),
        ("usr/share/doc/bash/README", False),
        ("usr/share/locale/de/LC_MESSAGES/x.mo", False),
        ("usr/bin/python3.11", True),
        ("usr/bin/perl5.36.0", False),
        ("usr/lib/python3.11/test/x.py", False),
        ("usr/lib/python3.11/json/__init__.py", True),
        ("dev/null", False),
    ],
)
def test_what_is_left_out(name: str, expected: bool) -> None:
    assert wanted(name) is expected


def test_skipped_dependencies_match_the_packages_name_alone() -> None:
    packages = Packages(("skopeo",), ("gpg*",))
    assert not packages.takes("gpg-agent_2.2_amd64.deb")
    assert packages.takes("libgpgme11_1.18_amd64.deb")


def test_code_is_the_folders_and_empty_parents(tmp_path: Path) -> None:
    for name in ("lab/__init__.py", "lab/release/cluster/x.py", "lab/release/cluster/tests/test_x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import libvirt\n")
    files = code.source_files(("lab/release/cluster",), tmp_path)
    assert files == {
        "lab/__init__.py": None,
        "lab/release/__init__.py": None,
        "lab/release/cluster/x.py": tmp_path / "lab/release/cluster/x.py",
    }


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="images hold Python 3.11; byte code is made by the same")
def test_the_zipapp_runs_by_itself_and_is_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lab" / "release" / "cluster"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "go.py").write_text("import sys\nif __name__ == '__main__':\n    print('went', *sys.argv[1:])\n")
    monkeypatch.setattr(code, "CHECKOUT", tmp_path)
    monkeypatch.setattr(code.source_files, "__defaults__", (tmp_path,))
    first, two = (
        code.zipapp(Store(tmp_path / name), "lab.release.cluster.go", ("lab/release/cluster",)) for name in "ab"
    )
    assert first.read_bytes() == two.read_bytes()
    assert first.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    completed = subprocess.run([sys.executable, str(first), "far"], capture_output=True, text=True, check=True, cwd="/")
    assert completed.stdout == "went far\n"
