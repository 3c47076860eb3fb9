"""Blank machines become a cluster: an image that names nothing, answers on consoles, and the service's API."""

import pytest

from lab.deploy import Deployment
from scenarios.testing import interactive
from scenarios.testing.interactive import (
    asked,
    cut_off_and_take_back,
    discover,
    follow,
    install_by_api,
    install_by_browser,
    lead,
    misled,
    reached,
    restart_with_a_form_open,
    service_on,
    set_static,
)

pytestmark = [
    pytest.mark.weekly,
    # The generated client's own deprecations.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize(
    "deployment",
    [
        *("sno-ipv4-dhcp-uefi-interactive", "sno-ipv4-static-uefi-interactive"),
        *("compact-ipv4-dhcp-uefi-interactive", "compact-ipv4-static-uefi-interactive"),
    ],
    indirect=True,
)
def test_blank_machines_become_a_cluster(deployment: Deployment) -> None:
    lab, topology = deployment.lab, deployment.topology
    folder = interactive.create_image(deployment)
    deployment.boot(image=interactive.iso_in(folder))
    first, *others = [lab.nodes[spec.name] for spec in topology.nodes]
    with lab.phase("answers on the consoles"):
        terminals = {node.name: asked(node) for node in (first, *others)}
        for node in (first, *others):
            if topology.addressing == "static":
                set_static(terminals[node.name], deployment, node)
            reached(terminals[node.name])
        if topology.addressing == "static":
            cut_off_and_take_back(terminals[first.name])
            misled(terminals[first.name], deployment)
        lead(terminals[first.name], first)
        for node in others:
            follow(terminals[node.name], first.spec.ip)
    service = service_on(deployment, folder, first.spec.ip)
    if topology.addressing == "dhcp" and not others:
        with lab.phase("restart"):
            restart_with_a_form_open(service, first)
    discover(service)
    # Those without DHCP by the browser alone, the others by the API that the browser uses.
    by_browser = topology.addressing == "static"
    installation = install_by_browser(service, first.spec.ip) if by_browser else install_by_api(service)
    for node in lab.nodes.values():
        host = node.ssh()
        assert host.check_output("hostname") == node.name
        assert host.check_output("findmnt -no SOURCE /").startswith(node.spec.root_device)
        assert host.check_output("systemctl --failed --no-legend --plain") == ""
        files = host.check_output("sudo ls /etc/NetworkManager/system-connections")
        assert ("agent-tui-" in files) is (topology.addressing == "static"), files
    assert installation.write(timeout=30)
    assert installation.get(deployment.console_url)[0] == 200
