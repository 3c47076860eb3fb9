"""`node0 create` with the lab release's own installer: what a user gets, edits, and gets again."""

from __future__ import annotations

import base64
import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
import yaml

from installer.cli import main
from installer.testing.create.directory_kit import snapshot
from installer.testing.create.inputs_kit import COMPACT, SNO
from installer.testing.create.registry_kit import MISSING, Registry, registry
from lab.release.components import INSTALL_MODULE
from lab.release.image.code import CHECKOUT

pytestmark = pytest.mark.slow

PROGRAM = f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m {INSTALL_MODULE} "$@"\n'.encode()
THREE = {**COMPACT, "platform": {"none": {}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    with registry(tmp_path_factory.mktemp("registry") / "r") as running:
        yield running


@pytest.fixture(autouse=True)
def release(server: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = server.push([{"usr/bin/openshift-install": PROGRAM}], "installer")
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", server.push_release({"installer": image}))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "dir").mkdir()
    return tmp_path / "dir"


def write(directory: Path, server: Registry, base: dict[str, Any], **changes: Any) -> None:
    config = copy.deepcopy(base) | {
        "pullSecret": server.pull_secret,
        "additionalTrustBundle": server.ca_pem,
        "imageDigestSources": [{"source": s.source, "mirrors": list(s.mirrors)} for s in server.sources],
        **changes,
    }
    (directory / "install-config.yaml").write_text(yaml.safe_dump(config))


def create(target: str, directory: Path) -> int:
    return main(["create", target, "--dir", str(directory)])


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


def test_manifests_are_edited_and_consumed(
    server: Registry, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(directory, server, THREE)
    assert create("manifests", directory) == 0
    assert names(directory) == {"manifests", "openshift"}
    scheduler = directory / "manifests/cluster-scheduler-02-config.yml"
    scheduler.write_text(scheduler.read_text() + "# mine\n")
    (directory / "openshift/99-mine.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}\n")
    removed = sorted((directory / "manifests").glob("*user-data*"))
    for path in removed:
        path.unlink()
    capsys.readouterr()
    assert create("ignition-configs", directory) == 0
    assert names(directory) == {"auth", "bootstrap.ign", "master.ign", "worker.ign", "metadata.json"}
    said = capsys.readouterr().err
    for asset in ("Common Manifests", "Openshift Manifests"):
        assert f"Consuming {asset} from target directory" in said
    assert f"Ignition-Configs created in: {directory} and {directory}/auth" in said
    assert "bootstrap.ign can be used for 719h" in said
    assert bootstrap_file(directory, "99-mine.yaml")
    assert "# mine" in bootstrap_file(directory, scheduler.name)
    assert removed
    assert not [path for path in removed if path.name in (directory / "bootstrap.ign").read_text()]
    # Nothing is left on the disk to make them from, and the cluster stays the same.
    first = json.loads((directory / "metadata.json").read_text())
    kubeconfig = (directory / "auth/kubeconfig").read_text()
    assert create("ignition-configs", directory) == 0
    assert json.loads((directory / "metadata.json").read_text()) == first
    assert (directory / "auth/kubeconfig").read_text() == kubeconfig
    assert "99-mine.yaml" in (directory / "bootstrap.ign").read_text()


def test_manifests_that_were_there_first_win(server: Registry, directory: Path) -> None:
    write(directory, server, THREE)
    (directory / "manifests").mkdir()
    mine = "# mine\n{apiVersion: config.openshift.io/v1, kind: Scheduler, metadata: {name: cluster}}\n"
    (directory / "manifests/cluster-scheduler-02-config.yml").write_text(mine)
    assert create("ignition-configs", directory) == 0
    assert "# mine" in bootstrap_file(directory, "cluster-scheduler-02-config.yml")
    assert not (directory / "manifests").exists()


def bootstrap_file(directory: Path, name: str) -> str:
    for entry in json.loads((directory / "bootstrap.ign").read_text())["storage"]["files"]:
        if entry["path"].endswith(f"/{name}"):
            head, _, body = entry["contents"]["source"].partition(",")
            return (base64.b64decode(body) if "base64" in head else unquote_to_bytes(body)).decode()
    raise AssertionError(name)


def test_another_install_config_makes_all_anew_but_what_the_user_added(
    server: Registry, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(directory, server, THREE)
    assert create("manifests", directory) == 0
    (directory / "openshift/99-mine.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}\n")
    write(directory, server, THREE, metadata={"name": "another"})
    assert create("ignition-configs", directory) == 0
    assert "Discarding the Common Manifests" in capsys.readouterr().err
    assert json.loads((directory / "metadata.json").read_text())["clusterName"] == "another"
    assert "another.test.node0.example" in bootstrap_file(directory, "cluster-dns-02-config.yml")
    assert bootstrap_file(directory, "99-mine.yaml")


def test_single_node(server: Registry, directory: Path) -> None:
    write(directory, server, SNO, bootstrapInPlace={"installationDisk": "/dev/vda"})
    assert create("single-node-ignition-config", directory) == 0
    assert "bootstrap-in-place-for-live-iso.ign" in names(directory)


@pytest.mark.parametrize(
    ("target", "base", "changes", "code", "text"),
    [
        ("manifests", THREE, {"platform": {"nowhere": {}}}, 3, 'unknown field "nowhere" in platform'),
        ("ignition-configs", THREE, {"sshKey": "no key"}, 1, "sshKey: Invalid value"),
        ("single-node-ignition-config", THREE, {}, 1, "bootstrap in place requires a single ControlPlane replica"),
        ("single-node-ignition-config", SNO, {}, 1, "bootstrapInPlace: Required value"),
    ],
)
def test_what_is_refused_changes_nothing(
    server: Registry,
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    base: dict[str, Any],
    changes: dict[str, Any],
    code: int,
    text: str,
) -> None:
    write(directory, server, base, **changes)
    before = snapshot(directory)
    assert create(target, directory) == code
    assert text in capsys.readouterr().err.splitlines()[-1]
    assert snapshot(directory) == before
