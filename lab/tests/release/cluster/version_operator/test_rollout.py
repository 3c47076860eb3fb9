"""A release's parts on the nodes: of which there is not yet all, and static pods against their manifests."""

import copy

import pytest
import yaml

from lab.release.cluster.kube.payload import Images
from lab.release.cluster.nodes.revisions import Wanted
from lab.release.cluster.pods import staticpods
from lab.release.cluster.version_operator.rollout import outdated, placing_pod, workload_lag
from lab.testing.scaling import CONFIG

TAGS = ("etcd", "hyperkube", "machine-config-operator", "agent-installer-csr-approver", "cluster-version-operator")


def wanted(release):
    images = {tag: f"r@sha256:{tag}-{release}" for tag in TAGS}
    return Wanted(CONFIG, Images(release, images), images["cluster-version-operator"])


def node(number):
    addresses = [{"type": "InternalIP", "address": f"127.77.0.{number}"}]
    return {"metadata": {"name": f"m{number}"}, "status": {"addresses": addresses}}


def stored(value):
    """Return an object as Kubernetes' API gives it back: without what is false or empty, which JSON omits."""
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items() if item not in (False, [], {})}
    return [stored(item) for item in value] if isinstance(value, list) else value


def mirrors(release, number, peers=""):
    """Return what runs on a node of that release, with some of the API's defaults."""
    release_wanted = wanted(release)
    found = []
    for stage in staticpods.control_plane(
        CONFIG, release_wanted.release_image, f"127.77.0.{number}", f"m{number}", peers=peers
    ):
        for pod in stage.pods:
            obj = stored(yaml.safe_load(pod.manifest(release_wanted.images, "0123")))
            obj["metadata"]["name"] += f"-m{number}"
            obj["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x"}
            obj["spec"]["nodeName"] = f"m{number}"
            container = obj["spec"]["containers"][0]
            container["terminationMessagePath"] = "/dev/termination-log"
            if "readinessProbe" in container:
                container["readinessProbe"] |= {"successThreshold": 1}
            found.append(obj)
    return found


NAMESPACES = [
    "openshift-etcd",
    "openshift-kube-apiserver",
    "openshift-kube-controller-manager",
    "openshift-kube-scheduler",
    "openshift-machine-config-operator",
    "assisted-installer",
    "openshift-cluster-version",
]
PEERS = "m1=https://127.77.0.1:2380,m2=https://127.77.0.2:2380"


def test_static_pods_of_this_release_are_left_alone_and_others_are_not():
    pods = [*mirrors("a", 1), *mirrors("a", 2, PEERS)]
    nodes = [node(2), node(1)]
    assert outdated(wanted("a"), nodes, pods, NAMESPACES) == []
    found = outdated(wanted("b"), nodes, pods, NAMESPACES)
    assert [name for name, *_ in found] == ["m1"] * 7 + ["m2"] * 7
    assert {pod.name for _, pod, _ in outdated(wanted("b"), nodes, pods, NAMESPACES[:1])} == {"etcd"}


def test_etcd_stays_a_member_of_the_cluster_that_it_joined():
    found = outdated(wanted("b"), [node(2)], mirrors("a", 2, PEERS), ["openshift-etcd"])
    [(_, pod, _)] = found
    assert f"--initial-cluster={PEERS}" in pod.command
    assert "--initial-cluster-state=existing" in pod.command


def test_another_flag_makes_a_pod_another_releases():
    pods = mirrors("a", 1)
    scheduler = next(pod for pod in pods if pod["metadata"]["name"] == "kube-scheduler-m1")
    scheduler["spec"]["containers"][0]["command"].append("--v=4")
    assert [pod.name for _, pod, _ in outdated(wanted("a"), [node(1)], pods, NAMESPACES)] == ["kube-scheduler"]


def test_the_pod_that_places_a_manifest_runs_from_the_image_that_is_to_run():
    pod = staticpods.kube_scheduler(CONFIG)
    place = placing_pod("m1", pod, "text", "r@sha256:new")
    assert place["spec"]["containers"][0]["image"] == "r@sha256:new"
    assert place["metadata"]["name"] != placing_pod("m1", pod, "", "r@sha256:new")["metadata"]["name"]


DEPLOYMENT = {
    "metadata": {"namespace": "n", "name": "d", "generation": 2},
    "spec": {"replicas": 2},
    "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"observedGeneration": 1}, "has not been looked at yet"),
        ({"updatedReplicas": 1}, "1 of 2 pods are of this release"),
        ({"replicas": 3}, "2 of 2 pods are of this release"),
        ({"availableReplicas": None}, "0 of 2 pods are available"),
    ],
)
def test_a_deployment_has_reached_its_template_or_says_how_far_it_is(changes, text):
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["status"] |= changes
    assert workload_lag("Deployment", deployment).endswith(text)
    assert bool(workload_lag("Deployment", deployment)) == bool(text)


@pytest.mark.parametrize(
    ("counts", "text"), [((3, 3, 3), ""), ((3, 2, 3), "2 of 3 pods are of this"), ((3, 3, 1), "1 of 3 pods are avail")]
)
def test_a_daemon_set_likewise(counts, text):
    keys = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    status = {"observedGeneration": 2, **dict(zip(keys, counts, strict=True))}
    assert text in workload_lag("DaemonSet", {**DEPLOYMENT, "spec": {}, "status": status})
