"""The two files that the lab itself writes lead back to its topologies."""

import ipaddress

from hypothesis import given, settings
from hypothesis import strategies as st

from ci.tests.halves.derive.kit import lab_for
from installer.testing.create.inputs_kit import SSH_KEY
from lab import topology
from lab.inputs.configs import Access, agent_config, install_config
from lab.topology import NodeSpec, Topology

ACCESS = Access('{"auths": {"lab:5000": {"auth": "bGFiOmxhYg=="}}}', "", SSH_KEY, (("release.x/y", "lab:5000/y"),))


def files(shape):
    return install_config(shape, ACCESS), agent_config(shape)


@st.composite
def clusters(draw):
    """Topologies in all the variety that the two files can tell."""
    network = ipaddress.IPv4Network(draw(st.sampled_from(["10.1.2.0/24", "172.20.0.0/16", "192.168.8.64/26"])))
    masters, workers = draw(st.sampled_from([(1, 0), (3, 0), (3, 2), (4, 1), (5, 0)]))
    addressing = draw(st.sampled_from(["static", "dhcp"]))
    platform = "none" if masters == 1 else draw(st.sampled_from(["none", "baremetal"]))
    count = masters + workers
    places = draw(
        st.lists(st.integers(2, network.num_addresses - 2), min_size=count + 2, max_size=count + 2, unique=True)
    )
    macs = draw(st.lists(st.integers(0, 255), min_size=count, max_size=count, unique=True))
    ips = [str(network[place]) for place in places]
    roles = ["master"] * masters + ["worker"] * workers
    vips = {"api_vip": ips[count], "ingress_vip": ips[count + 1]} if platform == "baremetal" else {}
    return Topology(
        name="drawn",
        cluster_name="drawn",
        base_domain=draw(st.sampled_from(["example.com", "lab.example.com"])),
        machine_network=str(network),
        addressing=addressing,
        platform=platform,
        nodes=tuple(
            NodeSpec(name=f"{role}-{i}", role=role, mac=f"52:54:00:aa:bb:{mac:02x}", ip=ip)
            for i, (role, mac, ip) in enumerate(zip(roles, macs, ips, strict=False))
        ),
        **vips,
    )


@settings(max_examples=25)
@given(clusters())
def test_the_files_of_a_topology_lead_back_to_it(drawn):
    derived = lab_for(*files(drawn), memory_mib=4096)
    keep = ("name", "role", "mac") + (("ip",) if drawn.addressing == "static" else ())
    assert [[getattr(n, k) for k in keep] for n in derived.nodes] == [
        [getattr(n, k) for k in keep] for n in drawn.nodes
    ]
    same = ("cluster_domain", "machine_network", "addressing", "platform", "api_vip", "ingress_vip", "rendezvous_ip")
    assert {k: getattr(derived, k) for k in same} == {k: getattr(drawn, k) for k in same}
    if drawn.addressing == "static":
        assert derived.gateway == drawn.gateway
    assert topology.load_text(derived.dump()) == derived


@settings(max_examples=25)
@given(clusters(), st.data())
def test_hosts_that_are_not_listed_are_made_and_get_what_is_free(drawn, data):
    install, agent = files(drawn)
    rendezvous, *_ = agent["hosts"]
    agent["hosts"] = data.draw(st.lists(st.sampled_from(agent["hosts"]), unique_by=lambda h: h["hostname"]))
    if data.draw(st.booleans()):
        # Without roles those that are listed may be all of the masters, so the rendezvous host is one of them.
        agent["hosts"] = [rendezvous, *(host for host in agent["hosts"] if host is not rendezvous)]
        for host in agent["hosts"]:
            host.pop("role", None)
            host.pop("hostname", None)
    derived = lab_for(install, agent)
    assert len(derived.masters) == len(drawn.masters)
    assert len(derived.workers) == len(drawn.workers)
    assert {n.mac for n in derived.nodes} >= {h["interfaces"][0]["macAddress"] for h in agent["hosts"]}
    # Topology itself holds that addresses are unique and within the network.
    listed = {
        h["networkConfig"]["interfaces"][0]["ipv4"]["address"][0]["ip"] for h in agent["hosts"] if "networkConfig" in h
    }
    assert listed <= {n.ip for n in derived.nodes}


def test_a_gateway_and_servers_elsewhere_are_the_labs():
    install, agent = files(topology.compact())
    for host in agent["hosts"]:
        host["networkConfig"]["routes"]["config"][0]["next-hop-address"] = "192.168.111.254"
        host["networkConfig"]["dns-resolver"]["config"]["server"] = ["192.168.111.53", "8.8.8.8"]
    agent["hosts"][0]["networkConfig"]["interfaces"][0]["ipv4"]["address"][0]["ip"] = "192.168.111.1"
    agent["rendezvousIP"] = "192.168.111.1"
    derived = lab_for(install, agent)
    assert derived.gateway == "192.168.111.254"
    assert derived.aliases == ("192.168.111.53", "8.8.8.8")
    assert derived.rendezvous_ip == "192.168.111.1"
