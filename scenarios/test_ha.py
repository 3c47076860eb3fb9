"""A cluster of several nodes survives the loss of one, and recovers from the loss of all of them."""

import time

import pytest

from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import all_is_well, console_answers, etcd_is_whole, etcdctl

pytestmark = pytest.mark.parametrize(
    "installation", params(lambda row: row.thorough and not row.topology.startswith("sno-")), indirect=True
)

API_SECONDS = 30  # seconds from the power cut to the first write that succeeds
CONSOLE_SECONDS = 60
API_PORT = 6443
HTTPS_PORT = 443


def lose(installation: Installation, name: str) -> None:
    """Cut a node's power; API and console must still answer within their limits."""
    lab = installation.lab
    begin = time.monotonic()
    with lab.phase(f"API without {name}"):
        lab.nodes[name].power.off()
        left = API_SECONDS - (time.monotonic() - begin)
        wait_until(installation.write, left, f"a write through the API VIP without {name}", poll=0.5)
        took = time.monotonic() - begin
    assert took <= API_SECONDS, f"the first write without {name} succeeded only after {took:.1f} s"
    with lab.phase(f"console without {name}"):
        left = CONSOLE_SECONDS - (time.monotonic() - begin)
        wait_until(lambda: console_answers(installation), left, f"the console without {name}", poll=0.5)


def lose_and_regain(installation: Installation, name: str, held: tuple[str | None, int] | None = None) -> None:
    """Take one node away and back; the virtual IP that it `held` (address, port) moves as soon as it is away."""
    boots = installation.ready_boots()
    lose(installation, name)
    if held is not None:
        assert installation.holder(*held) != name
    installation.lab.nodes[name].power.on()
    all_is_well(installation, boots, {name})


def test_every_master_is_a_voting_member_of_etcd(installation: Installation):
    assert etcd_is_whole(installation), etcdctl(installation, "member", "list")


@pytest.mark.disruptive
def test_the_master_that_holds_the_api_vip_may_be_lost(installation: Installation):
    held = (installation.topology.api_vip, API_PORT)
    lose_and_regain(installation, installation.holder(*held), held)


@pytest.mark.disruptive
def test_a_master_that_does_not_hold_the_api_vip_may_be_lost(installation: Installation):
    holder = installation.holder(installation.topology.api_vip, API_PORT)
    lose_and_regain(installation, next(s.name for s in installation.topology.masters if s.name != holder))


@pytest.mark.disruptive
def test_the_node_that_holds_the_ingress_vip_may_be_lost(installation: Installation):
    held = (installation.topology.ingress_vip, HTTPS_PORT)
    lose_and_regain(installation, installation.holder(*held), held)


@pytest.mark.disruptive
def test_the_cluster_comes_back_when_all_nodes_lose_power_at_once(installation: Installation):
    boots = installation.ready_boots()
    for node in installation.lab.nodes.values():
        node.power.off()
    for node in installation.lab.nodes.values():
        node.power.on()
    all_is_well(installation, boots, set(boots))
    assert installation.write()
    # The operator's status may date from before the loss: nobody was there to update it.
    wait_until(lambda: console_answers(installation), CONSOLE_SECONDS, "the console of the cluster that came back")
