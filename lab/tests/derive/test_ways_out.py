"""Hosts that would come up and reach nobody, or be held up by the service, are told before a lab is made of them."""

import copy

import pytest

from lab.derive import derive
from lab.errors import ConfigsError

INSTALL = {
    "metadata": {"name": "c"},
    "baseDomain": "d.e",
    "controlPlane": {"replicas": 1},
    "compute": [{"replicas": 0}],
    "networking": {"machineNetwork": [{"cidr": "10.20.30.0/24"}]},
    "platform": {"none": {}},
}


def interface(name, address, length=24):
    family = {"enabled": True, "dhcp": False, "address": [{"ip": address, "prefix-length": length}]}
    return {"name": name, "type": "ethernet", "state": "up", "ipv4": family}


def out(hop, device="eno1"):
    return {"destination": "0.0.0.0/0", "next-hop-address": hop, "next-hop-interface": device}


OUT = out("10.20.30.1")


def agent(*interfaces, routes=(OUT,), servers=("10.20.30.2",)):
    cards = [{"name": f"eno{n}", "macAddress": f"00:1b:21:3c:00:0{n}"} for n in (1, 2)]
    document = {
        "interfaces": list(interfaces or [interface("eno1", "10.20.30.80")]),
        "routes": {"config": list(routes)},
        "dns-resolver": {"config": {"server": list(servers)}},
    }
    host = {"hostname": "a", "interfaces": cards, "networkConfig": document}
    return {"rendezvousIP": "10.20.30.80", "hosts": [host]}


def problems_of(files, install=INSTALL):
    with pytest.raises(ConfigsError) as caught:
        derive(install, files)
    return [f"{source}: {line}" for source, line in caught.value.problems]


CONFIG = "agent-config.yaml: hosts[0].networkConfig"


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (
            agent(routes=[out("10.20.3.1")]),
            [f"{CONFIG}.routes.config[0].next-hop-address: 10.20.3.1 is in none of the host's networks, 10.20.30.0/24: "
             "it cannot be reached"],
        ),
        (
            agent(interface("eno1", "10.20.30.80", 32)),
            [f"{CONFIG}.routes.config[0].next-hop-address: 10.20.30.1 is in none of the host's networks, "
             "10.20.30.80/32: it cannot be reached"],
        ),
        (
            agent(routes=[]),
            [f"{CONFIG}.routes.config: no default route, and the host does not ask for one: it would never be ready "
             "(has-default-route)"],
        ),
        (
            agent(servers=[]),
            [f"{CONFIG}.dns-resolver.config.server: no DNS server, and the host does not ask for one: it would find no "
             "registry"],
        ),
        (
            agent(servers=["10.20.30.80", "fd00::1"]),
            [f"{CONFIG}.dns-resolver.config.server: it reaches none of the DNS servers 10.20.30.80, fd00::1, and the "
             "host does not ask for one: it would find no registry"],
        ),
        (
            agent(routes=[OUT | {"table-id": 500}]),
            [f"{CONFIG}.routes.config: no default route, and the host does not ask for one: it would never be ready "
             "(has-default-route)"],
        ),
        (
            agent(interface("eno1", "10.20.30.80"), interface("eno2", "10.20.30.81")),
            [f"{CONFIG}: 10.20.30.80/24 and 10.20.30.81/24 are of two interfaces, and their networks overlap: the host "
             "is held up (non-overlapping-subnets)"],
        ),
    ],
)  # fmt: skip
def test_a_host_that_reaches_nobody_is_told(files, lines):
    assert problems_of(files) == lines


@pytest.mark.parametrize("destination", ["default", "0.0.0.0", "::", "0.0.0.0/33", "10.0.0.0/255.0.0.0.0"])
def test_a_destination_that_is_none_is_told_as_that(destination):
    """And not as a default route that is missing."""
    rule = f"{destination!r} is no network; a default route's is 0.0.0.0/0 or ::/0"
    files = agent(routes=[{**OUT, "destination": destination}])
    assert problems_of(files) == [f"{CONFIG}.routes.config[0].destination: {rule}"]


def test_a_route_by_an_interface_that_is_none_is_told():
    rule = "'ens1' is no interface of the document, which has eno1"
    files = agent(routes=[out("10.20.30.1", "ens1")])
    assert problems_of(files) == [f"{CONFIG}.routes.config[0].next-hop-interface: {rule}"]


def test_a_router_that_is_another_machine_is_told():
    files, install = agent(), copy.deepcopy(INSTALL)
    other = copy.deepcopy(files["hosts"][0]) | {"hostname": "b"}
    other["interfaces"] = [{"name": "eno1", "macAddress": "00:1b:21:3c:01:01"}]
    other["networkConfig"] |= {"interfaces": [interface("eno1", "10.20.30.81")]}
    other["networkConfig"]["routes"]["config"] = [out("10.20.30.80"), out("10.20.30.5")]
    files["hosts"].append(other)
    install |= {
        "compute": [{"replicas": 1}],
        "platform": {"baremetal": {"apiVIPs": ["10.20.30.5"], "ingressVIPs": ["10.20.30.6"]}},
    }
    hop = "agent-config.yaml: hosts[1].networkConfig.routes.config"
    assert problems_of(files, install) == [
        f"{hop}[0].next-hop-address: 10.20.30.80 is that of hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip "
        "too, and no router's",
        f"{hop}[1].next-hop-address: 10.20.30.5 is that of platform.baremetal.apiVIPs[0] too, and no router's",
    ]


@pytest.mark.parametrize(
    "files",
    [
        # The next hop is on the link by a route of its own, and what asks is told by DHCP.
        agent(
            interface("eno1", "10.20.30.80", 32),
            routes=[{"destination": "10.20.30.1/32", "next-hop-interface": "eno1"}, out("10.20.30.1")],
        ),
        agent(
            interface("eno1", "10.20.30.80"),
            {"name": "eno2", "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "dhcp": True}},
            routes=[], servers=[],
        ),
    ],
)  # fmt: skip
def test_other_ways_out_will_do(files):
    assert derive(INSTALL, files).nodes[0].ip == "10.20.30.80"


def test_all_addresses_may_be_written_in_several_ways():
    route = out("fd00::1") | {"destination": "::0/0"}
    six = {"enabled": True, "address": [{"ip": "fd00::5", "prefix-length": 64}]}
    card = {"name": "eno1", "type": "ethernet", "state": "up", "ipv6": six}
    install = INSTALL | {"networking": {"machineNetwork": [{"cidr": "fd00::/64"}]}}
    derived = derive(install, agent(card, routes=[route], servers=["fd00::1"]) | {"rendezvousIP": "fd00::5"})
    assert derived.all_networks[0].gateway_of(6) == "fd00::1"


@pytest.mark.parametrize(("last", "kind"), [("0", "network's own"), ("255", "broadcast")])
def test_a_virtual_ip_that_no_host_can_have_is_told(last, kind):
    platform = {"baremetal": {"apiVIPs": [f"10.20.30.{last}"], "ingressVIPs": ["10.20.30.6"]}}
    install = INSTALL | {"platform": platform}
    rule = f"10.20.30.{last} is the {kind} address of 10.20.30.0/24: no host can have it"
    assert problems_of(agent(), install) == [f"install-config.yaml: platform.baremetal.apiVIPs[0]: {rule}"]


def test_a_router_outside_of_the_machine_network_may_be_the_dns_server_too():
    files = agent(interface("eno1", "10.20.30.80", 23), routes=[out("10.20.31.1")], servers=["10.20.31.1"])
    assert "10.20.31.1" in derive(INSTALL, files).networks[0].aliases


def test_a_router_of_one_host_may_be_the_dns_server_of_another():
    install = copy.deepcopy(INSTALL) | {"compute": [{"replicas": 1}]}
    files = agent(servers=["10.20.30.254"])
    other = copy.deepcopy(agent(interface("eno1", "10.20.30.81"), routes=[out("10.20.30.254")])["hosts"][0])
    other |= {"hostname": "b", "interfaces": [{"name": "eno1", "macAddress": "00:1b:21:3c:01:01"}]}
    files["hosts"].append(other)
    derived = derive(install, files)
    assert (derived.gateway, derived.networks[0].aliases) == ("10.20.30.1", ("10.20.30.254", "10.20.30.2"))


@pytest.mark.parametrize(
    ("length", "first", "router"), [(29, "10.20.30.82", "10.20.30.81"), (30, "10.20.30.82", "10.20.30.81")]
)
def test_a_small_network_has_room_for_one_node(length, first, router):
    install = INSTALL | {"networking": {"machineNetwork": [{"cidr": f"10.20.30.80/{length}"}]}}
    files = agent(interface("eno1", first, length), routes=[out(router)]) | {"rendezvousIP": first}
    derived = derive(install, files)
    assert (derived.nodes[0].ip, derived.gateway) == (first, router)
