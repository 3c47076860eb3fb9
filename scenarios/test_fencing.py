"""Two nodes fence each other: the one that is lost is switched off and on through its BMC, and the other serves on."""

import json
import time
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.cleanup import afterwards
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation

pytestmark = pytest.mark.parametrize(
    "installation", params(lambda row: row.topology.startswith("fencing-")), indirect=True
)

# From the loss to the first write: ten seconds until the node counts as lost, its BMC, ten until etcd is looked at, and
# its start as a cluster of one.
ALONE_SECONDS = 240
BACK_SECONDS = 900
API_PORT = 6443


def members(installation: Installation, node: str) -> dict[str, bool]:
    """etcd's members by name and whether each votes, as a node's member has them."""
    words = ("-n", "openshift-etcd", "exec", f"etcd-{node}", "--", "etcdctl", "member", "list", "--write-out=json")
    listed = json.loads(installation.kubectl(*words))["members"]
    return {m.get("name", "?"): not m.get("isLearner", False) for m in listed}


def pacemaker(installation: Installation, node: str) -> ElementTree.Element:
    """Return pacemaker's view of the cluster from a node."""
    host = installation.lab.nodes[node].ssh()
    return ElementTree.fromstring(host.check_output("sudo podman exec pacemaker crm_mon -1 --output-as=xml"))


def online(status: ElementTree.Element) -> set[str]:
    """Return the nodes that pacemaker sees."""
    return {node.attrib["name"] for node in status.findall("nodes/node") if node.get("online") == "true"}


def runs(status: ElementTree.Element, agent: str) -> dict[str, set[str]]:
    """Return the nodes where pacemaker runs the resources of an agent, by their names."""
    by_name: dict[str, set[str]] = {}
    for resource in status.iter("resource"):
        if resource.attrib["resource_agent"] == agent and resource.get("role") == "Started":
            by_name.setdefault(resource.attrib["id"], set()).update(n.attrib["name"] for n in resource.iter("node"))
    return by_name


def resets(installation: Installation, node: str, since: int) -> Iterator[Any]:
    """Yield the power commands that a node's BMC has been given, from that line of its log on."""
    lines = (installation.lab.layout.log / "bmc-requests.jsonl").read_text().splitlines()[since:]
    reset_path = f"/Systems/{installation.lab.nodes[node].uuid}/Actions/ComputerSystem.Reset"
    for entry in map(json.loads, lines):
        if entry["method"] == "POST" and entry["path"].endswith(reset_path):
            yield entry


def requests_so_far(installation: Installation) -> int:
    """Count the lines of the BMCs' log."""
    return len((installation.lab.layout.log / "bmc-requests.jsonl").read_text().splitlines())


def fenced(installation: Installation, lost: str, by: str, since: int) -> list[str]:
    """List another node's orders to the BMC of the lost one."""
    address = installation.lab.nodes[by].spec.ip
    return [e["body"]["ResetType"] for e in resets(installation, lost, since) if e["from"] == address]


def is_whole(installation: Installation, boots: dict[str, str], lost: str) -> bool:
    """Return whether the lost node is back in a new boot, and both run etcd and vote."""
    names = set(boots)
    now = installation.ready_boots()
    return (
        set(now) == names
        and now[lost] != boots[lost]
        and all(members(installation, node) == dict.fromkeys(names, True) for node in names)
    )


def regained(installation: Installation, boots: dict[str, str], lost: str) -> None:
    """Wait until all is as it was before the loss."""
    with installation.lab.phase(f"{lost} back"):
        wait_until(
            lambda: is_whole(installation, boots, lost), BACK_SECONDS, f"{lost} to vote again", installation.ready_boots
        )
        wait_until(
            lambda: installation.unwell_operators() == [],
            BACK_SECONDS,
            "all operators to be well again",
            installation.unwell_operators,
        )
    status = pacemaker(installation, lost)
    assert online(status) == set(boots)
    assert runs(status, "ocf:node0:podman-etcd") == {"etcd": set(boots)}


def two(installation: Installation) -> tuple[str, str]:
    """Return the node that holds the API's address, and the other."""
    holder = installation.holder(str(installation.topology.api_vip), API_PORT)
    return holder, next(spec.name for spec in installation.topology.masters if spec.name != holder)


def test_pacemaker_runs_etcd_on_both_nodes_and_watches_both_bmcs(installation: Installation) -> None:
    names = {spec.name for spec in installation.topology.masters}
    for name in sorted(names):
        status = pacemaker(installation, name)
        assert online(status) == names
        assert runs(status, "ocf:node0:podman-etcd") == {"etcd": names}
        assert set(runs(status, "stonith:fence_redfish")) == {f"{node}_redfish" for node in names}
        assert members(installation, name) == dict.fromkeys(names, True)


@pytest.mark.disruptive
def test_a_node_that_is_cut_off_is_fenced_and_the_other_serves_alone(installation: Installation) -> None:
    """It stays cut off after it was reset: all that is answered meanwhile, the other node answers by itself."""
    lost, left = two(installation)
    boots, since, cable = installation.ready_boots(), requests_so_far(installation), installation.lab.nodes[lost].link
    begin = time.monotonic()
    with afterwards((f"plug {lost} in again", lambda: cable.set_up(True))):
        with installation.lab.phase(f"API without {lost}"):
            cable.set_up(False)
            wait_until(installation.write, ALONE_SECONDS, f"a write through the API VIP without {lost}", poll=1)
        assert fenced(installation, lost, left, since) == ["ForceOff", "On"], f"{time.monotonic() - begin:.0f} s"
        assert online(pacemaker(installation, left)) == {left}
        assert members(installation, left) == {left: True}
        assert installation.write()
    regained(installation, boots, lost)


@pytest.mark.disruptive
def test_a_node_that_loses_its_power_is_switched_on_again_by_the_other(installation: Installation) -> None:
    left, lost = two(installation)
    boots, since = installation.ready_boots(), requests_so_far(installation)
    installation.lab.nodes[lost].power.off()
    with installation.lab.phase(f"API without {lost}"):
        wait_until(
            lambda: "On" in fenced(installation, lost, left, since),
            ALONE_SECONDS,
            f"{left} to switch {lost} on",
            poll=1,
        )
        wait_until(installation.write, ALONE_SECONDS, f"a write through the API VIP without {lost}", poll=1)
    regained(installation, boots, lost)
