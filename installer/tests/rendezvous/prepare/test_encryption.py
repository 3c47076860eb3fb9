"""Disk encryption: what is refused, and the MachineConfigs that a cluster's manifests get."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from installer.assisted.enums import Result, Role
from installer.assisted.errors import BadRequest, PrepareError
from installer.rendezvous.prepare import diskencryption
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Manifest
from installer.rendezvous.validations import hardware as checks_hardware
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import host_view

TANG = [{"url": "http://tang.test.node0.example:7500", "thumbprint": "PLjNyRdGw03zlRoGjQYMahSZGu9"}]
# An installer that shows what it was given beside the install-config.
INSTALLER = """#!/usr/bin/env python3
import json, pathlib, sys
work = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
if sys.argv[2] == "manifests":
    (work / "manifests").mkdir(); (work / "openshift").mkdir()
    scheduler = "kind: Scheduler\\nspec:\\n  mastersSchedulable: false\\n  policy: {name: ''}\\n"
    (work / "manifests/cluster-scheduler-02-config.yml").write_text(scheduler)
else:
    given = {path.name: path.read_text() for path in (*(work / "openshift").iterdir(), *(work / "manifests").iterdir())}
    (work / "bootstrap.ign").write_text(json.dumps({"ignition": {"version": "3.2.0"}, "given": given}))
    (work / "master.ign").write_text(json.dumps({"ignition": {"version": "3.2.0"}}))
"""


def cluster(**encryption: Any) -> Cluster:
    return msgspec.convert(
        {
            "id": "c",
            "name": "ostest",
            "created_at": "",
            "updated_at": "",
            "base_dns_domain": "x.example",
            "status_updated_at": "",
            "pull_secret": "{}",
            "disk_encryption": encryption,
        },
        Cluster,
    )


def manifests_of(**encryption: Any) -> dict[str, Any]:
    manifests = diskencryption.manifests(cluster(**encryption))
    assert {item.folder for item in manifests} <= {"openshift"}
    return {item.file_name: yaml.safe_load(item.content) for item in manifests}


def test_nothing_is_made_when_nothing_is_asked_for() -> None:
    assert manifests_of() == manifests_of(enable_on="none", mode="tang") == {}


def test_the_tpm_opens_the_root_of_masters_and_workers() -> None:
    manifests = manifests_of(enable_on="all")
    assert list(manifests) == ["99-openshift-master-tpm-encryption.yaml", "99-openshift-worker-tpm-encryption.yaml"]
    for role, config in zip(("master", "worker"), manifests.values(), strict=True):
        assert (config["kind"], config["metadata"]["name"]) == ("MachineConfig", f"{role}-tpm")
        assert config["metadata"]["labels"] == {"machineconfiguration.openshift.io/role": role}
        [luks] = config["spec"]["config"]["storage"]["luks"]
        assert luks["clevis"] == {"tpm2": True}
        assert (luks["device"], luks["wipeVolume"]) == ("/dev/disk/by-partlabel/root", True)
        [filesystem] = config["spec"]["config"]["storage"]["filesystems"]
        assert (filesystem["device"], filesystem["label"]) == (f"/dev/mapper/{luks['name']}", "root")
        assert "kernelArguments" not in config["spec"]


def test_tang_needs_the_network_in_the_initramfs() -> None:
    manifests = manifests_of(enable_on="arbiters,workers", mode="tang", tang_servers=json.dumps(TANG))
    assert list(manifests) == ["99-openshift-arbiter-tang-encryption.yaml", "99-openshift-worker-tang-encryption.yaml"]
    spec = manifests["99-openshift-worker-tang-encryption.yaml"]["spec"]
    assert spec["config"]["storage"]["luks"][0]["clevis"] == {"tang": TANG}
    assert spec["kernelArguments"] == ["rd.neednet=1"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"enable_on": "all", "mode": "tang"}, "tang_servers isn't set|at least one server"),
        ({"mode": "tang"}, "Setting Tang mode but tang_servers isn't set"),
        ({"enable_on": "all", "mode": "tang", "tang_servers": "["}, "not JSON"),
        ({"enable_on": "all", "mode": "tang", "tang_servers": "[{}]"}, r"tang_servers\[0\]\.url"),
        ({"enable_on": "all", "mode": "tang", "tang_servers": '[{"url": "http://x"}]'}, r"\[0\]\.thumbprint"),
        ({"enable_on": "all", "mode": "tang", "tang_servers": '[{"url": "x", "thumbprint": "y"}]'}, "not an http"),
        ({"mode": "tang", "tang_servers": '[{"url": "http://%zz", "thumbprint": "y"}]'}, "tang: a url of http"),
        ({"mode": "tang", "tang_servers": json.dumps(TANG * 2)}, "urls of tang must differ"),
    ],
)
def test_tang_servers_that_no_manifest_could_be_made_from_are_refused(wanted: Any, names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        diskencryption.check(wanted)


@pytest.mark.parametrize("enable_on", ["some", "masters,masters"])
def test_roles_that_an_older_store_may_hold_are_refused(enable_on: str) -> None:
    with pytest.raises(BadRequest, match=f"enable_on '{enable_on}'"):
        diskencryption.manifests(cluster(enable_on=enable_on))


@pytest.mark.parametrize("wanted", [{}, {"enable_on": "none", "mode": "tpmv2"}, {"enable_on": "masters,workers"}])
def test_what_can_be_made_is_taken(wanted: Any) -> None:
    diskencryption.check(wanted)


def job(tmp_path: Path, made_for: Cluster, *manifests: Manifest) -> prepare.Job:
    binary = tmp_path / "openshift-install"
    binary.write_text(INSTALLER)
    binary.chmod(0o755)
    settings = Settings(work_dir=tmp_path, installer_binary=binary, registries_conf=tmp_path / "none")
    return prepare.Job(cluster=made_for, infra_envs=(), hosts=(), manifests=manifests, settings=settings)


def test_the_payloads_installer_finds_them_and_the_users_own_win(tmp_path: Path) -> None:
    name = "99-openshift-worker-tpm-encryption.yaml"
    own = Manifest(folder="openshift", file_name=name, content=b"kind: Mine\n")
    files = prepare.generate(job(tmp_path, cluster(enable_on="all"), own))
    contents = json.loads(files["bootstrap.ign"])["given"]
    assert yaml.safe_load(contents["99-openshift-master-tpm-encryption.yaml"])["metadata"]["name"] == "master-tpm"
    assert contents[name] == "kind: Mine\n"


@pytest.mark.parametrize("schedulable", [True, False])
def test_a_control_plane_that_is_to_run_the_users_work(tmp_path: Path, schedulable: bool) -> None:
    files = prepare.generate(job(tmp_path, msgspec.structs.replace(cluster(), schedulable_masters=schedulable)))
    contents = json.loads(files["bootstrap.ign"])["given"]
    scheduler = yaml.safe_load(contents["cluster-scheduler-02-config.yml"])
    assert scheduler == {"kind": "Scheduler", "spec": {"mastersSchedulable": schedulable, "policy": {"name": ""}}}


def test_a_store_with_servers_that_cannot_be_read_fails_with_the_reason(tmp_path: Path) -> None:
    wanted = cluster(enable_on="all", mode="tang", tang_servers="nonsense")
    with pytest.raises(PrepareError, match="tang_servers is not JSON"):
        prepare.generate(job(tmp_path, wanted))


OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
WORKER = {"role": Role.WORKER}
TPM = {"tpm_version": "2.0"}
NONE = Verdict(Result.SUPPRESSED, "")
TPM_GOOD = Verdict(OK, "Installation disk can be encrypted using tpmv2")
OLD = Verdict(BAD, "The host's TPM version is not supported, expected-version: 2.0, actual-version: 1.2")
NO_TPM = Verdict(BAD, "TPM version could not be found, make sure TPM is enabled in host's BIOS")
UNASKED = Verdict(PENDING, "Disk encryption check was not performed yet")
TANG_BAD = Verdict(BAD, "Could not validate that all Tang servers are reachable and working")


@pytest.mark.parametrize(
    ("wanted", "host", "reported", "expected"),
    [
        ({}, {}, TPM, NONE),
        ({"enable_on": "none"}, {}, TPM, NONE),
        ({"enable_on": "workers"}, {}, TPM, NONE),
        ({"enable_on": "masters"}, WORKER, TPM, NONE),
        ({"enable_on": "all"}, {}, TPM, TPM_GOOD),
        ({"enable_on": "masters"}, {}, TPM, TPM_GOOD),
        ({"enable_on": "workers,masters", "mode": "tpmv2"}, {}, TPM, TPM_GOOD),
        ({"enable_on": "all"}, {}, {"tpm_version": "1.2"}, OLD),
        ({"enable_on": "all"}, {}, {"tpm_version": "none"}, NO_TPM),
        ({"enable_on": "workers"}, {"role": Role.AUTO}, TPM, Verdict(PENDING, "Missing role assignment")),
        ({"enable_on": "all", "mode": "tang"}, {}, TPM, UNASKED),
        ({"enable_on": "all", "mode": "tang"}, {"tang_connectivity": '{"is_success": false}'}, TPM, TANG_BAD),
        ({"enable_on": "all", "mode": "tang"}, {"tang_connectivity": "{}"}, TPM, TANG_BAD),
        (
            {"enable_on": "all", "mode": "tang"},
            {"tang_connectivity": '{"is_success": true}'},
            {},
            Verdict(OK, "Installation disk can be encrypted using tang"),
        ),
    ],
)
def test_what_a_host_is_told_of_encryption(
    wanted: dict[str, str], host: dict[str, Any], reported: dict[str, Any], expected: Verdict
) -> None:
    view = host_view(cluster={"disk_encryption": wanted}, host=host, reported=reported)
    assert checks_hardware.disk_encryption(view) == expected
    unseen = dataclasses.replace(view, inventory=None)
    asked = wanted.get("enable_on", "none") != "none"
    assert checks_hardware.disk_encryption(unseen) == (Verdict(PENDING, "Missing host inventory") if asked else NONE)
