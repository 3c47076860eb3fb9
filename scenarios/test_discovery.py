"""Hosts are discovered first and configured afterwards: a service outside of the cluster, and the public client."""

import json

import pytest

from scenarios.testing.page import card, watching
from scenarios.testing.service import Discovered

pytestmark = [
    pytest.mark.nightly,
    # The generated client's own deprecations.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
every = pytest.mark.parametrize(
    "discovered", ["sno-ipv4-dhcp-uefi-discovery", "sno-ipv4-static-uefi-discovery_minimal"], indirect=True
)
# Stages of a node of its own (installer.md §5.6); short ones may fall between two looks.
STAGES = ("Waiting for bootkube", "Writing image to disk", "Rebooting", "Done")


@every
def test_the_service_saw_every_stage_to_the_end(discovered: Discovered):
    assert [stage for stage in discovered.seen if stage in STAGES] == list(STAGES)
    host, cluster = discovered.host(), discovered.cluster()
    assert (host.status, host.progress.current_stage) == ("installed", "Done")
    assert cluster.progress.total_percentage == 100
    operators = {item.name: (item.status, item.version) for item in cluster.monitored_operators}
    assert operators["console"] == operators["cvo"] == ("available", discovered.release.version)


@every
def test_the_node_has_the_name_the_role_and_the_disk_that_were_chosen(discovered: Discovered):
    [node] = discovered.kubectl_json("get", "nodes")["items"]
    assert node["metadata"]["name"] == discovered.host_name
    assert "node-role.kubernetes.io/master" in node["metadata"]["labels"]
    assert discovered.nodes_ready()
    assert discovered.unavailable_operators() == []
    [machine] = discovered.lab.nodes.values()
    host = machine.ssh()
    assert host.check_output("hostname") == discovered.host_name
    assert host.check_output("findmnt -no SOURCE /").startswith(machine.spec.root_device)
    assert host.check_output("systemctl --failed --no-legend --plain") == ""


@every
def test_the_network_is_the_infra_envs(discovered: Discovered):
    [spec] = discovered.topology.nodes
    [machine] = discovered.lab.nodes.values()
    links = json.loads(machine.ssh().check_output("ip -json address"))
    nic = next(link for link in links if link.get("address") == spec.mac)
    [own] = [item for item in nic["addr_info"] if item["family"] == "inet" and item["local"] == spec.ip]
    assert bool(own.get("dynamic")) is (discovered.topology.addressing == "dhcp")


@every
def test_the_services_kubeconfig_reaches_api_and_console(discovered: Discovered):
    assert discovered.api_ready()
    assert discovered.write(timeout=30)
    status, body = discovered.get(discovered.deployment.console_url)
    assert status == 200
    assert discovered.topology.cluster_name in body


@every
def test_the_page_shows_the_installed_cluster(discovered: Discovered):
    screens = discovered.lab.artifacts / "screens"
    screens.mkdir(exist_ok=True)
    with watching(discovered.lab, discovered.topology.gateway, discovered.service.ca_pem) as page:
        page.until(f"{card(discovered.host_name)}.includes('installed')")
        page.picture(screens / "page.png")
        assert f"Cluster {discovered.topology.cluster_domain}" in page.text()
        assert page.complaints == []
