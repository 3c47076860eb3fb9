"""Machines that a user boots: Ignition configs, a bootstrap machine that leaves, the user's load balancer (UPI)."""

import json
from collections.abc import Callable

import pytest

from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

pytestmark = pytest.mark.weekly
every = pytest.mark.parametrize(
    "installation",
    ["sno-ipv4-static-uefi-upi", "sno-ipv4-dhcp-uefi-pxe-upi", "compact-ipv4-static-uefi-upi", "ha-ipv4-dhcp-uefi-upi"],
    indirect=True,
)


@every
def test_the_bootstrap_machine_has_left(installation: Installation) -> None:
    assert "bootstrap" not in installation.lab.nodes
    assert "coreos-installer install" in (installation.lab.artifacts / "console/bootstrap.txt").read_text()
    config = (installation.lab.layout.root / "load-balancer.cfg").read_text()
    assert "server bootstrap " not in config
    names = {node["metadata"]["name"] for node in installation.kubectl_json("get", "nodes")["items"]}
    assert names == set(installation.lab.nodes)

    def conditions() -> dict[str, str]:
        status = installation.kubectl_json("get", "etcds.operator.openshift.io", "cluster")["status"]
        return {item["type"]: item["status"] for item in status["conditions"]}

    wait_until(
        lambda: conditions().get("EtcdBootstrapMemberRemoved") == "True",
        120,
        "the bootstrap machine's etcd member to be removed",
        conditions,
    )


@every
def test_the_cluster_is_whole(installation: Installation) -> None:
    assert installation.nodes_ready()
    assert installation.unwell_operators() == []
    assert installation.write(timeout=30)
    status, body = installation.get(installation.deployment.console_url)
    assert status == 200
    assert installation.topology.cluster_name in body


@every
def test_machines_installed_themselves(installation: Installation) -> None:
    for machine in installation.lab.nodes.values():
        host = machine.ssh()
        assert host.check_output("hostname") == machine.name
        assert host.check_output("findmnt -no SOURCE /").startswith(machine.spec.root_device)
        assert host.check_output("systemctl --failed --no-legend --plain") == ""


@every
def test_workers_were_approved_by_hand(
    installation: Installation, record_property: Callable[[str, object], None]
) -> None:
    phases = json.loads((installation.lab.artifacts / "phases.json").read_text())
    record_property("phases", json.dumps(phases))
    workers = {node.name for node in installation.topology.workers}
    by_hand = set()
    for request in installation.kubectl_json("get", "csr")["items"]:
        messages = [item.get("message", "") for item in (request.get("status") or {}).get("conditions") or []]
        if any("kubectl certificate approve" in text for text in messages):
            by_hand.add(request["metadata"]["name"])
    assert len(by_hand) >= len(workers)
