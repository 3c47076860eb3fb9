"""A cluster's proxy: image pulls go through it, connections within the cluster do not."""

from __future__ import annotations

from typing import Any

import yaml

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube import resources
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.pods import staticpods
from lab.testing.ignition import read_data_url

PROXY = {
    "httpProxy": "http://u:p@192.0.2.1:3128",
    "httpsProxy": "http://192.0.2.1:3129",
    "noProxy": ".d.example,,10.1.2.3",
}


def config_of(proxy: dict[str, str]) -> InstallConfig:
    document = {
        "metadata": {"name": "c"},
        "baseDomain": "d.example",
        "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
        "proxy": proxy,
    }
    return parse(yaml.safe_dump(document))


def runtime(config: InstallConfig) -> tuple[dict[str, tuple[str, int]], dict[str, Any]]:
    """Files (text and mode) and the unit of the container runtime's MachineConfig."""
    [runtime_config] = [
        c["spec"]["config"]
        for c in machineconfig.standard(config, Images("1", {"pod": "p@sha256:0"}), "worker")
        if c["metadata"]["name"] == "01-worker-container-runtime"
    ]
    files = {
        f["path"]: (read_data_url(f["contents"]["source"], None).decode(), f["mode"])
        for f in runtime_config["storage"]["files"]
    }
    [unit] = runtime_config["systemd"]["units"]
    return files, unit


def test_what_pulls_images_goes_through_the_proxy() -> None:
    files, unit = runtime(config_of(PROXY))
    text, mode = files["/etc/mco/proxy.env"]
    assert mode == 0o600
    values = dict(line.split("=", 1) for line in text.splitlines())
    assert values["HTTP_PROXY"] == PROXY["httpProxy"]
    assert values["HTTPS_PROXY"] == PROXY["httpsProxy"]
    direct = values["NO_PROXY"].split(",")
    assert direct[:2] == [".d.example", "10.1.2.3"]
    assert {"localhost", ".svc", "api-int.c.d.example", "192.0.2.0/24", "172.30.0.0/16", "10.128.0.0/14"} <= set(direct)
    assert "" not in direct
    assert [d["contents"] for d in unit["dropins"]] == ["[Service]\nEnvironmentFile=/etc/mco/proxy.env\n"]


def test_without_a_proxy_there_is_nothing_of_it() -> None:
    for proxy in ({}, {"noProxy": "x"}):
        files, unit = runtime(config_of(proxy))
        assert "/etc/mco/proxy.env" not in files
        assert "dropins" not in unit


def test_everything_may_be_direct() -> None:
    assert config_of(PROXY | {"noProxy": "*"}).no_proxy == "*"


def test_the_object_says_what_was_asked_for_and_what_is_in_force() -> None:
    proxy_object = resources.proxy(config_of(PROXY))
    assert proxy_object["spec"]["noProxy"] == PROXY["noProxy"]
    assert proxy_object["status"] == PROXY | {"noProxy": config_of(PROXY).no_proxy}
    assert resources.proxy(config_of({}))["status"] == {}


def test_the_temporary_control_plane_knows_no_proxy() -> None:
    etcd = staticpods.etcd("192.0.2.9", "n").podman(Images("1", {"etcd": "e@sha256:0"}))
    assert "--http-proxy=false" in etcd.split("--entrypoint")[0].split()
