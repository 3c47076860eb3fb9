"""An installed cluster is upgraded, under load: to a good release and back, and not to one that is bad or unsigned."""

import time

import pytest

from lab import updates
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS
from scenarios.testing.upgrade import (
    ACKNOWLEDGED_SECONDS,
    UPGRADED_SECONDS,
    Watch,
    cluster_version,
    condition,
    next_release,
    patch,
    sign,
    wait_for,
)

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

ANY = params(lambda row: row.thorough and row.topology.startswith(("sno-ipv4-static-uefi", "compact-ipv4-static-uefi")))
VERSION_OPERATOR = "openshift-cluster-version"


def kill_version_operator(installation: Installation, node: str) -> None:
    """End the version operator of a node by its container's id, as the kernel does when memory runs out."""
    words = ("-n", VERSION_OPERATOR, "get", "pod", f"cluster-version-operator-{node}")
    # Its own patience is 10 s, which a busy machine takes to answer.
    ctr = "sudo ctr --connect-timeout 120s --namespace k8s.io"

    def killed() -> bool:
        """Kill what runs: a container that is about to start, or has just been replaced, cannot be."""
        [container] = installation.kubectl_json(*words)["status"]["containerStatuses"]
        name = container["containerID"].removeprefix("containerd://")
        done = installation.lab.nodes[node].ssh().run(f"{ctr} tasks kill --signal SIGKILL {name}")
        return bool(done.rc == 0)

    wait_until(killed, ACKNOWLEDGED_SECONDS, f"the version operator of {node} to run, and to be killed")


def images(installation: Installation) -> set[str]:
    """Return the images of the payload that run in the cluster."""
    pods = installation.kubectl_json("get", "pods", "--all-namespaces")["items"]
    return {
        container["image"]
        for pod in pods
        if pod["status"]["phase"] == "Running"
        for container in pod["spec"]["containers"]
    }


def machine_os(installation: Installation) -> dict[str, tuple[str, str]]:
    """Return by node the version of the machine OS that runs, and of which deployment its kernel was started."""
    seen = {}
    for name, machine in installation.lab.nodes.items():
        done = machine.ssh().run(". /etc/os-release && echo $OSTREE_VERSION && cat /proc/cmdline")
        version, arguments = done.stdout.split("\n", 1)
        words = dict(word.partition("=")[::2] for word in arguments.split())
        seen[name] = version, words.get("ostree", "")
    return seen


def wanted_os(installation: Installation) -> str:
    """Return the version of the machine OS of the cluster's release."""
    words = ("-n", "openshift-machine-config-operator", "get", "configmap", "machine-config-osimageurl")
    return str(installation.kubectl_json(*words)["data"]["osVersion"])


def exists(installation: Installation, kind: str, name: str, namespace: str = "default") -> bool:
    """Return whether there is such an object."""
    words = ("-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "name")
    return bool(installation.kubectl(*words).strip())


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_an_unsigned_release_is_refused_and_told(installation: Installation) -> None:
    release = next_release("next-minor")
    before = cluster_version(installation)["status"]["desired"]
    patch(installation, desiredUpdate={"version": None, "image": release.pullspec})
    try:
        wait_until(
            lambda: condition(installation, "ReleaseAccepted").get("status") == "False",
            ACKNOWLEDGED_SECONDS,
            "the release to be refused",
            lambda: condition(installation, "ReleaseAccepted"),
        )
        refused = condition(installation, "ReleaseAccepted")
        assert refused["reason"] == "RetrievePayload"
        assert f"unable to verify {release.digest} against keyrings: verifier-public-key-" in refused["message"]
        assert cluster_version(installation)["status"]["desired"] == before
    finally:
        patch(installation, desiredUpdate=None)
    wait_until(
        lambda: condition(installation, "ReleaseAccepted").get("status") == "True",
        ACKNOWLEDGED_SECONDS,
        "the refusal to be forgotten",
    )


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_minor_version_waits_for_what_is_overridden(installation: Installation) -> None:
    release = next_release("next-minor")
    sign(installation, release.pullspec)
    override = {"kind": "Deployment", "group": "apps", "namespace": "none", "name": "none", "unmanaged": True}
    patch(installation, overrides=[override], desiredUpdate={"version": None, "image": release.pullspec})
    try:
        wait_until(
            lambda: condition(installation, "ReleaseAccepted").get("reason") == "PreconditionChecks",
            ACKNOWLEDGED_SECONDS,
            "the precondition to be told",
            lambda: condition(installation, "ReleaseAccepted"),
        )
        assert "ClusterVersionOverridesSet" in condition(installation, "ReleaseAccepted")["message"]
        assert condition(installation, "Upgradeable")["reason"] == "ClusterVersionOverridesSet"
    finally:
        patch(installation, overrides=None, desiredUpdate=None)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_cluster_is_upgraded_by_version_and_goes_back(installation: Installation) -> None:
    """The version operator is killed in the middle; what users see is watched throughout."""
    release, old = next_release("next"), cluster_version(installation)["status"]["desired"]
    installed = machine_os(installation)
    assert set(installed.values()) == {(wanted_os(installation), "")}
    several = len(installation.topology.masters) > 1
    sign(installation, old["image"], release.pullspec)
    url = updates.publish(
        installation.lab.layout, [(old["version"], old["image"]), (release.version, release.pullspec)]
    )
    patch(installation, upstream=url)
    wait_until(
        lambda: cluster_version(installation)["status"]["availableUpdates"] is not None,
        ACKNOWLEDGED_SECONDS,
        "the update service's answer",
        lambda: condition(installation, "RetrievedUpdates"),
    )
    watch, began = Watch(installation), time.monotonic()
    try:
        with watch.watching(), installation.lab.phase(f"to {release.version}"):
            patch(installation, desiredUpdate={"version": release.version, "image": None})
            wait_until(
                lambda: release.version in condition(installation, "Progressing").get("message", ""),
                ACKNOWLEDGED_SECONDS,
                "the update to be acknowledged",
            )
            wait_until(
                lambda: " of " in condition(installation, "Progressing").get("message", ""),
                ACKNOWLEDGED_SECONDS,
                "the new version operator to begin",
            )
            for spec in installation.topology.masters:
                kill_version_operator(installation, spec.name)
            wait_for(installation, release.version)
    finally:
        print(f"to {release.version}: {time.monotonic() - began:.0f} s\n{watch.report()}")
    entry = cluster_version(installation)["status"]["history"][0]
    assert (entry["state"], entry["verified"]) == ("Completed", True)
    operators = installation.kubectl_json("get", "clusteroperators")["items"]
    reached = {o["metadata"]["name"]: [v["version"] for v in o["status"]["versions"]] for o in operators}
    assert {name for name, versions in reached.items() if versions != [release.version]} == set()
    changed = {installation.release.components[tag] for tag in ("etcd", "hyperkube", "console", "unbound")}
    assert images(installation) & changed == set(), "something still runs from the release before"
    assert exists(installation, "configmap", "release-notes", "openshift-config-managed"), "added"
    assert not exists(installation, "clusterrolebinding", "console"), "removed"
    upgraded = machine_os(installation)
    assert {version for version, _ in upgraded.values()} == {wanted_os(installation)}
    assert wanted_os(installation).endswith(".4.18.1")
    assert all(deployment for _, deployment in upgraded.values()), "of their own kernel and initramfs"
    if not several:  # the one node has just started anew
        wait_until(lambda: installation.unwell_operators() == [], BACK_SECONDS, "all operators to be well")
    else:
        assert installation.unwell_operators() == []
        assert {name: p.failed for name, p in watch.probes.items() if p.longest_row > 1} == {}
    with installation.lab.phase(f"back to {old['version']}"):
        patch(installation, desiredUpdate={"version": old["version"], "image": None})
        wait_for(installation, old["version"])
    assert changed <= images(installation)
    assert {v for v, _ in machine_os(installation).values()} == {v for v, _ in installed.values()}
    assert exists(installation, "clusterrolebinding", "console")
    assert len(cluster_version(installation)["status"]["history"]) >= 3


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_bad_release_stops_at_its_operator_and_the_cluster_serves_on(installation: Installation) -> None:
    release, old = next_release("next-broken"), cluster_version(installation)["status"]["desired"]
    sign(installation, old["image"], release.pullspec)
    patch(installation, desiredUpdate={"version": None, "image": release.pullspec})
    wait_until(
        lambda: "console" in condition(installation, "Failing").get("message", ""),
        BACK_SECONDS,
        "the operator to be named",
        lambda: condition(installation, "Progressing"),
    )
    failing = condition(installation, "Failing")
    assert failing["reason"] in ("ClusterOperatorDegraded", "ClusterOperatorNotAvailable"), failing
    assert installation.nodes_ready()
    assert installation.write(timeout=15)
    dns = next(
        o for o in installation.kubectl_json("get", "clusteroperators")["items"] if o["metadata"]["name"] == "dns"
    )
    assert [v["version"] for v in dns["status"]["versions"]] == [old["version"]], "what comes after was begun"
    patch(installation, desiredUpdate={"version": None, "image": old["image"]})
    wait_for(installation, old["version"])
    assert installation.unwell_operators() == []


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_machine_os_that_does_not_come_up_is_left_by_its_node_and_told(installation: Installation) -> None:
    """One node boots it three times in vain, and is back with the one before; no other node is touched."""
    release, old = next_release("next-broken-os"), cluster_version(installation)["status"]["desired"]
    before = {version for version, _ in machine_os(installation).values()}
    sign(installation, old["image"], release.pullspec)
    patch(installation, desiredUpdate={"version": None, "image": release.pullspec})

    def degraded() -> str:
        try:
            pool = installation.kubectl_json("get", "machineconfigpool", "master")
        except AssertionError:  # the API of one node is away meanwhile
            return ""
        found = {c["type"]: c for c in pool["status"]["conditions"]}
        return str(found["Degraded"]["message"])

    wait_until(lambda: "rolled back" in degraded(), UPGRADED_SECONDS + BACK_SECONDS, "the pool to tell", degraded)
    assert "3 boots in vain: 50-kubelet.sh: kubelet.service has ended" in degraded()
    assert {version for version, _ in machine_os(installation).values()} == before
    wait_until(
        lambda: "machine-config" in condition(installation, "Failing").get("message", ""),
        BACK_SECONDS,
        "the operator to be named",
    )
    wait_until(installation.nodes_ready, BACK_SECONDS, "all nodes to be Ready")
    assert installation.write(timeout=15)
    patch(installation, desiredUpdate={"version": None, "image": old["image"]})
    wait_for(installation, old["version"])
    assert installation.unwell_operators() == []
