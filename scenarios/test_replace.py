"""Scenarios of control plane nodes that are lost for good and replaced, and of one without its etcd."""

import shlex
import time

import pytest

from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing import byhand
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, etcd_is_whole, etcdctl

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

THREE = params(lambda row: row.thorough and row.topology.startswith("compact-ipv4-static"))
REMOVED_SECONDS = 300
REASON = "ClusterMemberRemovalController_Error"
#: How long a node's API server has to do without the etcd beside it, and in which time an answer has to come.
WITHOUT_SECONDS, ANSWER_SECONDS = 30, 15
#: A read and a write, by a client with a certificate, of the API server of the node that runs it.
ASK = """
cd /etc/kubernetes/static-pod-resources/kube-controller-manager-certs
ask() { curl --silent --show-error --fail --output /dev/null --max-time %d --cacert service-ca-bundle.crt \\
    --cert client.crt --key client.key "$@"; }
ask https://localhost:6443/readyz
ask https://localhost:6443/api/v1/namespaces/default
ask --header 'Content-Type: application/json' --data '{"metadata": {"generateName": "without-etcd-"}}' \\
    https://localhost:6443/api/v1/namespaces/default/configmaps
"""


def members(installation: Installation) -> list[str]:
    """Return the names of etcd's members."""
    return sorted(m.get("name", "") for m in etcdctl(installation, "member", "list")["members"])


def degraded(installation: Installation) -> tuple[str, str]:
    """Return reason and message of the operator etcd's condition Degraded; nothing while it is False."""
    operator = installation.kubectl_json("get", "clusteroperator", "etcd")
    condition = next(c for c in operator["status"]["conditions"] if c["type"] == "Degraded")
    return (condition["reason"], condition["message"]) if condition["status"] == "True" else ("", "")


def made_for(installation: Installation, node: str) -> list[str]:
    """Return the objects that the operator has made for one node."""
    words = ("-n", "openshift-etcd", "get", "secrets,configmaps,pods", "--output", "name")
    found = installation.kubectl(*words).split()
    return [name for name in found if node in name and not name.startswith(f"pod/etcd-{node}")]


@pytest.mark.parametrize("installation", THREE, indirect=True)
def test_a_lost_control_plane_node_is_replaced_by_one_of_its_name(installation: Installation) -> None:
    """Its member leaves as soon as the Node is deleted; the new machine gets its Ignition config of the cluster."""
    victim, other = (spec.name for spec in installation.topology.masters[:0:-1])
    network = byhand.network_of(installation, victim)
    before = {m["name"]: m["ID"] for m in etcdctl(installation, "member", "list")["members"]}
    installation.lab.nodes[victim].power.off()
    installation.kubectl("delete", "node", victim)
    with installation.lab.phase("member removed"):
        wait_until(
            lambda: victim not in members(installation),
            REMOVED_SECONDS,
            f"etcd without {victim}",
            lambda: members(installation),
        )
        wait_until(
            lambda: not made_for(installation, victim), REMOVED_SECONDS, f"nothing of {victim}'s in openshift-etcd"
        )
    # Of the two that are left, none can go.
    assert other in members(installation)
    byhand.empty_disks(installation, victim)
    with installation.lab.phase("node replaced"):
        byhand.join(installation, victim, "master", network)
        wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
    after = {m["name"]: m["ID"] for m in etcdctl(installation, "member", "list")["members"]}
    assert after[victim] != before[victim]
    wait_until(
        lambda: installation.unwell_operators() == [],
        BACK_SECONDS,
        "all operators to be well again",
        installation.unwell_operators,
    )
    assert installation.write()


@pytest.mark.parametrize("installation", THREE, indirect=True)
def test_a_member_that_the_quorum_needs_stays_although_its_node_is_deleted(installation: Installation) -> None:
    """With one node off, a second one's Node is deleted while it runs: without its member nothing could be written."""
    silent, deleted = (spec.name for spec in installation.topology.masters[:0:-1])
    before = members(installation)
    installation.lab.nodes[silent].power.off()
    try:
        wait_until(lambda: silent not in installation.ready_boots(), BACK_SECONDS, f"{silent} not to be Ready")
        installation.kubectl("delete", "node", deleted)
        wait_until(
            lambda: degraded(installation)[0] == REASON,
            REMOVED_SECONDS,
            f"the operator etcd to say that {deleted} has to stay",
            lambda: degraded(installation),
        )
        assert silent in degraded(installation)[1]
        assert members(installation) == before
        assert installation.write()
    finally:
        # Its kubelet makes the Node again when it starts.
        installation.lab.nodes[silent].power.on()
        installation.lab.nodes[deleted].power.cycle()
    wait_until(installation.nodes_ready, BACK_SECONDS, "all nodes to be Ready again")
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")


@pytest.mark.parametrize("installation", THREE, indirect=True)
def test_an_api_server_serves_on_without_the_etcd_of_its_node(installation: Installation) -> None:
    """It asks the members of the other nodes."""
    host = installation.lab.nodes[installation.topology.masters[-1].name].ssh()
    script = f"sudo sh -ec {shlex.quote(ASK % ANSWER_SECONDS)}"
    host.check_output(script)
    host.check_output("sudo /usr/local/bin/disable-etcd.sh")
    try:
        end, answered = time.monotonic() + WITHOUT_SECONDS, 0
        while time.monotonic() < end or not answered:
            host.check_output(script)
            answered += 1
    finally:
        host.check_output("sudo mv /home/core/assets/manifests-stopped/etcd-pod.yaml /etc/kubernetes/manifests/")
    print(f"{answered} rounds of requests answered")
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
