"""What befalls a cluster once it is installed: quorum lost and won back, a full disk, two that answer for one VIP."""

import time

import pytest

from lab.faults import DiskFull, Duplicate, Partition
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, all_is_well, console_answers, etcd_is_whole

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

SEVERAL = params(lambda row: row.thorough and not row.topology.startswith("sno-"))
ANY = params(lambda row: row.thorough)
# So long nothing may be written without a majority; etcd's election takes a second or two.
WITHOUT_QUORUM_SECONDS = 20
WRITES_SECONDS = 60


def majority(installation: Installation) -> tuple[str, ...]:
    """Just so many voting members of etcd that the rest has no quorum."""
    members = [*installation.topology.masters, *installation.topology.arbiters]
    return tuple(spec.name for spec in members[: (len(members) + 1) // 2])


def writes(installation: Installation) -> bool:
    """Whether a write through the API succeeds; a refusal or a time-out is none."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return installation.write()
    except (ApiException, HTTPError, OSError):
        return False


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_quorum_is_lost_and_won_back(installation: Installation) -> None:
    """With a majority off nothing is written; with it on again all is as before, without anybody's help."""
    boots = installation.ready_boots()
    lost = majority(installation)
    with installation.lab.phase(f"no quorum without {', '.join(lost)}"):
        for name in lost:
            installation.lab.nodes[name].power.off()
        end = time.monotonic() + WITHOUT_QUORUM_SECONDS
        wait_until(lambda: not writes(installation), WITHOUT_QUORUM_SECONDS, "writes to fail without a majority")
        while time.monotonic() < end:
            assert not writes(installation), "something was written without a majority of etcd's members"
    for name in lost:
        installation.lab.nodes[name].power.on()
    all_is_well(installation, boots, set(lost))
    assert installation.write()


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_two_halves_do_not_both_serve(installation: Installation) -> None:
    """A control plane node that is cut off holds on to no virtual IP: writes succeed with the others, and with all when
    it is back."""
    vip = installation.topology.api_vip
    assert vip is not None
    holder = installation.holder(vip, 6443)
    with installation.lab.fault(Partition((holder,))):
        wait_until(lambda: writes(installation), WRITES_SECONDS, f"a write without {holder}, which held the API's VIP")
        assert installation.holder(vip, 6443) != holder
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
    wait_until(lambda: writes(installation), WRITES_SECONDS, "a write with all of them")


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_a_stranger_that_takes_the_api_vip_for_a_while_leaves_no_harm(installation: Installation) -> None:
    vip = installation.topology.api_vip
    assert vip is not None
    with installation.lab.fault(Duplicate(vip)):
        # Whoever asks from the lab's own host asks the stranger now.
        wait_until(lambda: not writes(installation), WRITES_SECONDS, "the stranger to be asked in the VIP's place")
    wait_until(lambda: writes(installation), WRITES_SECONDS, "the cluster to answer at its VIP again")
    assert etcd_is_whole(installation)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_disk_that_was_full_for_a_while_leaves_no_harm(installation: Installation) -> None:
    """The kubelet may evict pods, and etcd may refuse; with room again all comes back by itself."""
    node = installation.topology.masters[-1].name
    with installation.lab.fault(DiskFull(node, "/var", 16)):
        host = installation.lab.nodes[node].ssh()
        assert host.run("sudo sh -c 'head -c 64M /dev/zero > /var/one-more'").rc != 0, "the disk is not full"
        host.run("sudo rm -f /var/one-more")
    wait_until(installation.nodes_ready, BACK_SECONDS, "all nodes to be Ready again")
    wait_until(
        lambda: installation.unavailable_operators() == [],
        BACK_SECONDS,
        "all operators to be Available again",
        installation.unavailable_operators,
    )
    wait_until(lambda: writes(installation), WRITES_SECONDS, "a write after the disk has room again")
    wait_until(lambda: console_answers(installation), WRITES_SECONDS, "the console to answer")
