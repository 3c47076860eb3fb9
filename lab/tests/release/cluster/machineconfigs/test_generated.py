"""KubeletConfigs and ContainerRuntimeConfigs: the files that they become, and what they may not ask for."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import yaml

from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.machineconfigs import generated
from lab.testing.ignition import read_data_url

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POOL = machineconfig.machine_config_pool("worker")
LABEL = f"pools.operator.{machineconfig.PREFIX}/worker"
BASE = machineconfig.machine_config(
    "01-worker-kubelet",
    "worker",
    ignition.config(
        [
            ignition.file("/etc/kubernetes/kubelet.conf", "maxPods: 250\nclusterDNS: ['172.30.0.10']\n"),
            ignition.file("/etc/containerd/config.toml", "version = 2\n", 0o600),
        ]
    ),
)


def made(kind: str, name: str = "mine", created: str = "1", label: str = LABEL, **fields: Any) -> dict[str, Any]:
    content = {kind[0].lower() + kind[1:]: fields}
    meta = {"name": name, "creationTimestamp": created}
    return {
        "kind": kind,
        "metadata": meta,
        "spec": {"machineConfigPoolSelector": {"matchLabels": {label: ""}}, **content},
    }


def files(config: dict[str, Any]) -> dict[str, tuple[str, int]]:
    entries = config["spec"]["config"]["storage"]["files"]
    return {e["path"]: (read_data_url(e["contents"]["source"]).decode(), e["mode"]) for e in entries}


def test_each_changes_its_file_of_the_pools_that_it_selects_and_the_youngest_is_merged_last() -> None:
    objects = [
        made("KubeletConfig", "b", "2", maxPods=20),
        made("KubeletConfig", "a", "1", maxPods=10, kubeReserved={"cpu": "1"}),
        made("KubeletConfig", "c", "3", LABEL.replace("worker", "master"), maxPods=30),
        made("ContainerRuntimeConfig", logLevel="debug"),
    ]
    configs = generated.generated(POOL, [BASE], objects)
    names = [config["metadata"]["name"] for config in configs]
    kubelet = [f"99-worker-generated-kubelet{ending}" for ending in ("", "-1")]
    assert names == [*kubelet, "99-worker-generated-containerruntime"]
    [first, second, runtime] = map(files, configs)
    assert yaml.safe_load(first["/etc/kubernetes/kubelet.conf"][0]) == {
        "maxPods": 10,
        "kubeReserved": {"cpu": "1"},
        "clusterDNS": ["172.30.0.10"],
    }
    assert runtime == {"/etc/containerd/config.toml": ('version = 2\n\n[debug]\n  level = "debug"\n', 0o600)}
    assert generated.generated(POOL, [BASE, *configs], objects) == configs, "they are not built upon themselves"
    rendered = machineconfig.rendered("worker", machineconfig.selected(POOL, [BASE, *configs]), "")
    assert files(rendered)["/etc/kubernetes/kubelet.conf"] == second["/etc/kubernetes/kubelet.conf"]


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (
            made("KubeletConfig", clusterDNS=["1.1.1.1"], maxPods="x"),
            ["clusterDNS: is not allowed", "maxPods: 'x': must"],
        ),
        (made("KubeletConfig", maxPodz=1), ["spec.kubeletConfig.maxPodz: is not supported"]),
        (made("KubeletConfig", syncFrequency="5"), ["syncFrequency"]),
        (made("KubeletConfig", evictionHard={"memory.available": 5}), ["evictionHard"]),
        (made("ContainerRuntimeConfig", pidsLimit=5, defaultRuntime="runc"), ["pidsLimit: is not", "crun alone"]),
        (made("ContainerRuntimeConfig", logLevel="loud"), ["logLevel: 'loud': must be one of"]),
    ],
)
def test_what_cannot_be_done_is_told_on_the_object_and_becomes_nothing(obj: dict[str, Any], words: list[str]) -> None:
    assert generated.generated(POOL, [BASE], [obj]) == []
    [condition] = generated.status(obj, [POOL], NOW)["conditions"]
    assert (condition["type"], condition["status"]) == ("Failure", "False")
    assert all(word in condition["message"] for word in words), condition["message"]


def test_one_that_is_right_says_so_and_one_that_selects_nothing_does_not() -> None:
    good = made("KubeletConfig", maxPods=10)
    assert [c["type"] for c in generated.status(good, [POOL], NOW)["conditions"]] == ["Success"]
    [failed] = generated.status(made("KubeletConfig", label="x", maxPods=10), [POOL], NOW)["conditions"]
    assert "selects no MachineConfigPool" in failed["message"]
