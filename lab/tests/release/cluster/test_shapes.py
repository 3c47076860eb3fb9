"""The lab release's manifests for control planes of two, four and five nodes, and for an arbiter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.release.cluster import tls
from lab.release.cluster.bootkube import command as bootkube
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.machine_config_server.command import bootstrap_source
from lab.release.cluster.openshift_install import command as install
from lab.release.cluster.pods import staticpods
from lab.release.cluster.pods.assets import Cluster, Host
from lab.testing.ignition import read_data_url

RELEASE = "release.example/n/r@sha256:1"
TAGS = ("etcd", "pod", "hyperkube", "machine-config-operator", "keepalived-ipfailover", "rhel-coreos")
IMAGES = Images("4.18.0", {tag: f"r.example/n@sha256:{tag}" for tag in TAGS})


def config(masters: int, arbiters: int = 0, **more: Any) -> dict[str, Any]:
    """Return an install-config on bare metal."""
    return {
        "apiVersion": "v1",
        "metadata": {"name": "c"},
        "baseDomain": "d.example",
        "controlPlane": {"name": "master", "replicas": masters},
        "compute": [{"name": "worker", "replicas": 0}],
        **({"arbiter": {"name": "arbiter", "replicas": arbiters}} if arbiters else {}),
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
        "platform": {"baremetal": {"apiVIPs": ["192.0.2.5"], "ingressVIPs": ["192.0.2.4"]}},
        "pullSecret": '{"auths":{}}',
        **more,
    }


def read(masters: int, arbiters: int = 0) -> InstallConfig:
    return parse(yaml.safe_dump(config(masters, arbiters)))


def create(directory: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv(install.RELEASE_ENV, RELEASE)
    (directory / "install-config.yaml").write_text(yaml.safe_dump(document))
    return install.main(["create", "ignition-configs", "--dir", str(directory)])


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    """Provide the directory that is created for so many masters and arbiters, of which each has keys of its own."""

    @cache
    def make(masters: int, arbiters: int) -> Path:
        directory = tmp_path_factory.mktemp(f"{masters}-{arbiters}")
        with pytest.MonkeyPatch.context() as patched:
            # As the field writes it where arbiters are a preview.
            assert create(directory, config(masters, arbiters, featureSet="TechPreviewNoUpgrade"), patched) == 0
        return directory

    return make


@pytest.mark.parametrize(
    ("masters", "arbiters", "pools"),
    [(2, 1, ["arbiter", "master", "worker"]), (4, 0, ["master", "worker"]), (5, 0, ["master", "worker"])],
)
def test_a_pointer_for_each_pool(
    masters: int, arbiters: int, pools: list[str], created: Callable[[int, int], Path]
) -> None:
    configs = {path.stem: json.loads(path.read_text()) for path in created(masters, arbiters).glob("*.ign")}
    assert sorted(configs) == sorted([*pools, "bootstrap"])
    for pool in pools:
        [source] = configs[pool]["ignition"]["config"]["merge"]
        assert source["source"] == f"https://192.0.2.5:22623/config/{pool}"


def test_two_masters_need_an_arbiter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(tmp_path, config(2), monkeypatch) == 1
    assert "controlPlane.replicas: must be 3 or more, or 2 with an arbiter" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.ign"))


def test_or_each_others_bmcs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = config(2)
    document["controlPlane"]["fencing"] = {
        "credentials": [
            {
                "hostName": f"m{n}",
                "address": f"redfish+https://192.0.2.1:8000/{n}",
                "username": "u",
                "password": "Fenc3-W",
            }
            for n in range(2)
        ]
    }
    assert create(tmp_path, document, monkeypatch) == 0
    assert sorted(path.stem for path in tmp_path.glob("*.ign")) == ["bootstrap", "master", "worker"]
    parsed = parse(yaml.safe_dump(document))
    assert (parsed.fenced, parsed.nodes, parsed.etcd_members, parsed.first_api_servers, parsed.enough_members) == (
        True, 2, 2, 1, 2,
    )  # fmt: skip
    texts = {path.name: path.read_text() for path in (tmp_path / "manifests").iterdir()}
    assert "controlPlaneTopology: DualReplica" in texts["cluster-infrastructure-02-config.yml"]
    assert not [name for name, text in texts.items() if "Fenc3-W" in text]


def test_the_cluster_says_of_what_kind_its_control_plane_is(created: Callable[[int, int], Path]) -> None:
    [text] = [p.read_text() for p in (created(2, 1) / "manifests").iterdir() if "kind: Infrastructure" in p.read_text()]
    [infrastructure] = [obj for obj in yaml.safe_load_all(text) if obj["kind"] == "Infrastructure"]
    assert infrastructure["status"]["controlPlaneTopology"] == "HighlyAvailableArbiter"


@pytest.mark.parametrize(
    ("masters", "arbiters", "nodes", "members"), [(2, 1, 3, 3), (3, 0, 3, 3), (4, 0, 4, 4), (5, 0, 5, 5)]
)
def test_how_many_nodes_and_members_of_etcd_there_are_to_be(
    masters: int, arbiters: int, nodes: int, members: int
) -> None:
    parsed = read(masters, arbiters)
    assert (parsed.nodes, parsed.etcd_members, parsed.single_node) == (nodes, members, False)


@pytest.mark.parametrize(("masters", "arbiters", "servers"), [(2, 1, 1), (3, 0, 2), (5, 0, 2)])
def test_the_bootstrap_is_complete_with_the_api_servers_that_there_can_be(
    masters: int, arbiters: int, servers: int, created: Callable[[int, int], Path]
) -> None:
    files = json.loads((created(masters, arbiters) / "bootstrap.ign").read_text())["storage"]["files"]
    [script] = [entry for entry in files if entry["path"] == "/usr/local/bin/report-progress.sh"]
    text = read_data_url(script["contents"]["source"], None).decode()
    assert f"((count >= {servers}))" in text


@pytest.fixture(scope="module")
def arbitrated() -> tuple[Cluster, list[Object]]:
    """Provide a cluster of two masters and an arbiter, and its MachineConfigs and pools."""
    parsed = read(2, 1)
    cluster = Cluster(parsed, tls.complete(parsed, {}), RELEASE, IMAGES)
    return cluster, bootkube.machine_configs(cluster, [])


def test_an_arbiter_has_a_pool_of_its_own_and_holds_no_virtual_address(
    arbitrated: tuple[Cluster, list[Object]],
) -> None:
    _, machines = arbitrated
    assert [m["metadata"]["name"] for m in machines if m["kind"] == "MachineConfigPool"] == [
        "master",
        "arbiter",
        "worker",
    ]
    mine = [m["metadata"]["name"] for m in machines if m["metadata"].get("labels") == {machineconfig.ROLE: "arbiter"}]
    assert [name for name in mine if not name.startswith("rendered-")] == [
        "00-arbiter",
        "01-arbiter-container-runtime",
        "01-arbiter-kubelet",
    ]


def test_the_bootstraps_server_serves_masters_and_arbiters_alone(
    arbitrated: tuple[Cluster, list[Object]], tmp_path: Path
) -> None:
    cluster, machines = arbitrated
    host = Host(tmp_path, tmp_path, tmp_path, ("192.0.2.10",), "m0", "debian", "eth0")
    for name, text in bootkube.static_pod_files(cluster, host, machines).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    source = bootstrap_source(tmp_path / "machine-config-server")
    for pool in ("master", "arbiter"):
        config = source(pool)
        assert config is not None
        paths = [entry["path"] for entry in config["storage"]["files"]]
        assert ("/etc/kubernetes/manifests/keepalived.yaml" in paths) is (pool == "master")
    with pytest.raises(ClusterError, match="refusing"):
        source("worker")


def test_virtual_addresses_of_a_load_balancer_are_held_by_no_node(tmp_path: Path) -> None:
    document = config(3)
    document["platform"]["baremetal"]["loadBalancer"] = {"type": "UserManaged"}
    parsed = parse(yaml.safe_dump(document))
    cluster = Cluster(parsed, tls.complete(parsed, {}), RELEASE, IMAGES)
    machines = bootkube.machine_configs(cluster, [])
    assert not [m for m in machines if "keepalived" in m["metadata"]["name"]]
    host = Host(tmp_path, tmp_path, tmp_path, ("192.0.2.10",), "m0", "debian", "eth0")
    assert not [name for name in bootkube.static_pod_files(cluster, host, machines) if "keepalived" in name]
    # The machine-config server is reached at the address all the same.
    assert parsed.api_host == "192.0.2.5"


def test_what_is_killed_of_the_temporary_control_plane_is_started_again() -> None:
    """As a kubelet would: without its etcd, the bootstrap waited until its time was over."""
    options = staticpods.etcd("192.0.2.9", "n").podman(IMAGES).split("--entrypoint")[0]
    assert re.search(r"--restart on-failure:\d\d ", options)


def test_one_master_has_a_bootstrap_machine_unless_it_bootstraps_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = {**config(1), "platform": {"none": {}}}
    assert create(tmp_path, alone, monkeypatch) == 0
    assert sorted(path.stem for path in tmp_path.glob("*.ign")) == ["bootstrap", "master", "worker"]
    parsed = parse(yaml.safe_dump(alone))
    assert (parsed.single_node, parsed.in_place, parsed.first_api_servers, parsed.enough_members) == (
        True, False, 1, 2,
    )  # fmt: skip
    disk = {"bootstrapInPlace": {"installationDisk": "/dev/vda"}}
    assert parse(yaml.safe_dump(alone | disk)).in_place
    (tmp_path / "again").mkdir()
    assert create(tmp_path / "again", alone | disk, monkeypatch) == 1
    assert "bootstrapInPlace: is for create single-node-ignition-config" in capsys.readouterr().err
    assert not list((tmp_path / "again").glob("*.ign"))
