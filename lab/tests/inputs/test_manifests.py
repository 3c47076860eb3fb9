"""Additions of the lab to cluster-manifests/ and mirror/."""

import json
import stat
import tomllib
from dataclasses import replace

import msgspec
import pytest
import yaml

from lab import topology
from lab.errors import TopologyError
from lab.inputs import ztp
from lab.inputs.configs import Access

ACCESS = Access('{"auths": {"lab:5000": {"auth": "bGFi"}}}', "LAB CA\n", "ssh-ed25519 LAB", (("r.x/y", "lab:5000/y"),))
SHAPE = topology.sno()
TANG = topology.read({**topology.written(SHAPE), "tang": True})


@pytest.fixture
def folder(tmp_path):
    """Return a directory with manifests, whose specs the test may change."""
    write(tmp_path, "agent-cluster-install", {"sshPublicKey": "ssh-rsa USER"})
    write(tmp_path, "infraenv", {"cpuArchitecture": "x86_64"})
    write(tmp_path, "cluster-image-set", {"releaseImage": "old"})
    secret = {"stringData": {".dockerconfigjson": '{"auths": {"quay.io": {"auth": "eDp5"}}}'}}
    (tmp_path / ztp.PULL_SECRET).write_text(yaml.safe_dump(secret))
    return tmp_path


def write(folder, name, spec):
    path = folder / f"cluster-manifests/{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"spec": spec}))


def read(folder, name):
    return yaml.safe_load((folder / f"cluster-manifests/{name}.yaml").read_text())


def test_each_change_is_a_line_and_as_is_leaves_clocks_alone(folder):
    write(folder, "infraenv", {"additionalNTPSources": ["10.0.0.9"]})
    lines = ztp.adapt(folder, SHAPE, ACCESS, "r.x/y@sha256:1", as_is=True)
    assert read(folder, "infraenv")["spec"]["additionalNTPSources"] == ["10.0.0.9"]
    assert not (folder / "agent-config.yaml").exists()
    assert lines[0] == (
        f"{ztp.PULL_SECRET}: stringData..dockerconfigjson: credentials for quay.io → credentials for quay.io, lab:5000"
    )
    assert f"{ztp.IMAGE_SET}: spec.releaseImage: old → r.x/y@sha256:1" in lines
    assert not any("NTP" in line for line in lines)
    again = ztp.adapt(folder, SHAPE, ACCESS, "r.x/y@sha256:1")
    assert f"{ztp.INFRA_ENV}: spec.additionalNTPSources: 10.0.0.9 → 10.0.0.9, {SHAPE.gateway}" in again


def test_the_lab_adds_what_a_disconnected_cluster_needs(folder):
    assert ztp.release_image(folder) == "old"
    (folder / "mirror").mkdir()
    (folder / "mirror/registries.conf").write_text('[[registry]]\nlocation = "quay.io/a"\n')
    ztp.adapt(folder, SHAPE, ACCESS, "r.x/y@sha256:1")
    auths = json.loads(read(folder, "pull-secret")["stringData"][".dockerconfigjson"])["auths"]
    assert set(auths) == {"quay.io", "lab:5000"}
    assert stat.S_IMODE((folder / ztp.PULL_SECRET).stat().st_mode) == 0o600
    assert ztp.release_image(folder) == "r.x/y@sha256:1"
    assert read(folder, "agent-cluster-install")["spec"]["sshPublicKey"] == "ssh-rsa USER\nssh-ed25519 LAB"
    environment = read(folder, "infraenv")["spec"]
    # The installer takes the second key where the first is empty.
    assert environment["sshAuthorizedKey"] == "ssh-rsa USER\nssh-ed25519 LAB"
    assert environment["additionalNTPSources"] == [SHAPE.gateway]
    assert "LAB CA" in environment["additionalTrustBundle"]
    registries = (folder / "mirror/registries.conf").read_text()
    assert registries.index('location = "r.x/y"') < registries.index("lab:5000/y") < registries.index("quay.io/a")
    assert registries.count("[[registry]]") == 2
    assert (folder / "mirror/ca-bundle.crt").read_text() == "LAB CA\n"
    assert not (folder / "agent-config.yaml").exists()


@pytest.mark.parametrize("shape", [SHAPE, TANG])
def test_encrypted_disks_get_the_labs_own_tang_server(folder, shape):
    encryption = {"enableOn": "all", "mode": "tang", "tangServers": "theirs"}
    write(folder, "agent-cluster-install", {"diskEncryption": encryption})
    ztp.adapt(folder, shape, replace(ACCESS, tang_servers="[ours]"), "r")
    ours = {"tangServers": "[ours]"} if shape.tang else {}
    assert read(folder, "agent-cluster-install")["spec"]["diskEncryption"] == {**encryption, **ours}


def test_a_bundle_of_the_infraenv_is_not_hidden(folder):
    write(folder, "infraenv", {"additionalTrustBundle": "USER CA\n"})
    ztp.adapt(folder, SHAPE, ACCESS, "r")
    assert (folder / "mirror/ca-bundle.crt").read_text() == "USER CA\nLAB CA\n"
    assert tomllib.loads((folder / "mirror/registries.conf").read_text())["registry"][0]["location"] == "r.x/y"


def test_a_config_image_is_refused_before_anything_starts(folder):
    assert ztp.check(folder, SHAPE) == []
    [line] = ztp.check(folder, msgspec.structs.replace(SHAPE, boot="config-image"))
    assert line.startswith("boot: config-image is made from install-config.yaml")


def test_a_bad_pull_secret_is_refused_without_its_text(folder):
    (folder / ztp.PULL_SECRET).write_text(yaml.safe_dump({"stringData": {".dockerconfigjson": "s3cret{"}}))
    with pytest.raises(TopologyError, match=r"pull-secret.yaml: stringData") as error:
        ztp.adapt(folder, SHAPE, ACCESS, "r")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(("text", "rule"), [("a: [", "line 1"), ("- 1", "must be a mapping")])
def test_a_manifest_that_cannot_be_read_is_named(folder, text, rule):
    (folder / ztp.IMAGE_SET).write_text(text)
    with pytest.raises(TopologyError, match=rf"cluster-image-set.yaml: .*{rule}"):
        ztp.release_image(folder)
