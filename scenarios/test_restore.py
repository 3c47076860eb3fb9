"""Scenarios of a control plane that only one node is left of: back to a backup, and a quorum won back without one."""

import time

import pytest

from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing import byhand
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, etcd_is_whole, writes

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

THREE = params(lambda row: row.thorough and row.topology.startswith("compact-ipv4-static"))
ONE = params(lambda row: row.thorough and row.topology.startswith("sno-"))
#: From the script's start; what a restore may take in all.
WRITE_SECONDS = 120
BACKUP = "/home/core/backup"


def left_alone(installation: Installation) -> tuple[str, dict[str, dict[str, str]]]:
    """Switch all control plane nodes off but one; return that, and the keyfiles of the others."""
    survivor, *lost = (spec.name for spec in installation.topology.masters)
    networks = {name: byhand.network_of(installation, name) for name in lost}
    for name in lost:
        installation.lab.nodes[name].power.off()
    return survivor, networks


def first_write(installation: Installation, survivor: str, script: str) -> None:
    """Run a script on the survivor; the API takes a write soon after that."""
    with installation.lab.phase(script.split()[0]):
        began = time.monotonic()
        installation.lab.nodes[survivor].ssh().check_output(f"sudo /usr/local/bin/{script}")
        left = WRITE_SECONDS - (time.monotonic() - began)
        wait_until(lambda: writes(installation), left, f"a write within {WRITE_SECONDS} s of the start of {script}")


def replace(installation: Installation, networks: dict[str, dict[str, str]]) -> None:
    """Delete the lost nodes, and have new ones of the same names join."""
    for name in networks:
        installation.kubectl("delete", "node", name)
    for name, network in networks.items():
        byhand.empty_disks(installation, name)
        with installation.lab.phase(f"{name} replaced"):
            byhand.join(installation, name, "master", network)
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
    wait_until(
        lambda: installation.unwell_operators() == [],
        BACK_SECONDS,
        "all operators to be well again",
        installation.unwell_operators,
    )


def names(installation: Installation) -> set[str]:
    """Return the ConfigMaps of the namespace default."""
    return {entry["metadata"]["name"] for entry in installation.kubectl_json("get", "configmaps")["items"]}


@pytest.mark.parametrize("installation", ONE, indirect=True)
def test_one_node_goes_back_to_a_backup(installation: Installation) -> None:
    """All that watches the API goes on without a restart: a pod of a new Deployment runs."""
    [node] = (spec.name for spec in installation.topology.masters)
    image = installation.kubectl_json("-n", "openshift-network-diagnostics", "get", "daemonset", "network-check-target")
    installation.kubectl("create", "configmap", "before-the-backup")
    installation.lab.nodes[node].ssh().check_output(f"sudo /usr/local/bin/cluster-backup.sh {BACKUP}")
    installation.kubectl("create", "configmap", "after-the-backup")
    first_write(installation, node, f"cluster-restore.sh {BACKUP}")
    assert names(installation) >= {"before-the-backup"}
    assert "after-the-backup" not in names(installation)
    container = image["spec"]["template"]["spec"]["containers"][0]
    installation.kubectl("create", "deployment", "restored", f"--image={container['image']}", "--", "sleep", "3600")
    wait_until(lambda: installation.pods("default", "restored-"), BACK_SECONDS, "a pod of a new Deployment")
    wait_until(lambda: installation.unwell_operators() == [], BACK_SECONDS, "all operators to be well")


@pytest.mark.parametrize("installation", THREE, indirect=True)
def test_a_backup_is_restored_on_the_one_survivor_of_three(installation: Installation) -> None:
    installation.kubectl("create", "configmap", "before-the-backup")
    first = installation.topology.masters[0].name
    installation.lab.nodes[first].ssh().check_output(f"sudo /usr/local/bin/cluster-backup.sh {BACKUP}")
    installation.kubectl("create", "configmap", "after-the-backup")
    survivor, networks = left_alone(installation)
    first_write(installation, survivor, f"cluster-restore.sh {BACKUP}")
    assert names(installation) >= {"before-the-backup"}
    assert "after-the-backup" not in names(installation)
    replace(installation, networks)


@pytest.mark.parametrize("installation", THREE, indirect=True)
def test_a_quorum_that_is_lost_for_good_is_won_back(installation: Installation) -> None:
    installation.kubectl("create", "configmap", "the-last-one")
    survivor, networks = left_alone(installation)
    wait_until(lambda: not writes(installation), WRITE_SECONDS, "writes to fail without a majority")
    first_write(installation, survivor, "quorum-restore.sh")
    assert "the-last-one" in names(installation)
    replace(installation, networks)
