"""Machines that the user boots: arguments of their kernels, the load balancer, and a lab from install-config alone."""

from __future__ import annotations

import msgspec
import pytest

from lab import topology
from lab.daemons import balancer, dns
from lab.derive import derive
from lab.errors import TopologyError
from lab.layout import Layout
from lab.tests.derive.test_inputs import BARE
from lab.topology import NodeSpec, Topology
from lab.upi import install_arguments

BOOTSTRAP = NodeSpec(name="bootstrap", role="bootstrap", mac="52:54:00:6e:30:f0", ip="192.168.111.99")


def provisioned(name: str, **more: object) -> Topology:
    shape = topology.load(name)
    bare = {"api_vip": None, "ingress_vip": None, "api_vips": (), "ingress_vips": (), "platform": "none"}
    nodes = (*shape.nodes, BOOTSTRAP)
    return msgspec.structs.replace(shape, nodes=nodes, load_balancer=True, **bare, **more)


def test_static_hosts_have_their_network_in_their_arguments() -> None:
    shape = provisioned("sno")
    assert install_arguments(shape, shape.masters[0], "http://w/master.ign") == [
        "coreos.inst.install_dev=/dev/vda",
        "coreos.inst.ignition_url=http://w/master.ign",
        f"ip=192.168.111.80::{shape.gateway}:255.255.255.0:master-0:enp1s0:none",
        f"nameserver={shape.gateway}",
    ]
    leased = provisioned("sno-dhcp")
    assert not [word for word in install_arguments(leased, leased.masters[0], "x") if word.startswith("ip=")]


def test_the_load_balancer_leads_to_the_bootstrap_machine_until_it_leaves() -> None:
    shape = provisioned("compact")
    text = balancer.haproxy_config(shape)
    assert (
        text.count("server bootstrap 192.168.111.99:6443") == text.count("server bootstrap 192.168.111.99:22623") == 1
    )
    assert "192.168.111.99:443" not in text
    after = msgspec.structs.replace(shape, nodes=shape.nodes[:-1])
    assert "bootstrap" not in balancer.haproxy_config(after)


def test_each_machine_boots_a_script_of_its_own(tmp_path) -> None:
    shape = provisioned("sno-dhcp", boot="pxe")
    layout = Layout(tmp_path, shape)
    lines = dns.dnsmasq_config(layout, leases=tmp_path / "l", log=tmp_path / "log").splitlines()
    for node in shape.nodes:
        [boot] = [line for line in lines if line.startswith("dhcp-boot=tag:ipxe,") and f"/{node.name}.ipxe" in line]
        tag = boot.split(",")[1].removeprefix("tag:")
        [host] = [line for line in lines if line.startswith(f"dhcp-host={node.mac},")]
        assert f"set:{tag}" in host


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"load_balancer": False}, "load_balancer: must be true"),
        ({"boot": "usb"}, "boot: usb is not for machines with a bootstrap machine; use iso or pxe"),
        ({"nodes": "twice"}, "nodes[2].role: nodes[1] is the bootstrap machine already"),
    ],
)
def test_what_no_lab_can_be(change: dict[str, object], line: str) -> None:
    shape = provisioned("sno")
    if "nodes" in change:
        second = msgspec.structs.replace(BOOTSTRAP, name="second", mac="52:54:00:6e:30:f1", ip="192.168.111.98")
        change = {"nodes": (*shape.nodes, second)}
    fields = topology.written(shape) | {key: msgspec.to_builtins(value) for key, value in change.items()}
    with pytest.raises(TopologyError, match=line.replace("[", r"\[").replace("]", r"\]")):
        topology.read(fields)


def test_a_directory_without_a_leading_host_has_a_bootstrap_machine() -> None:
    alone = derive(msgspec.structs.replace(BARE, source="configs", rendezvous_ip="", machine_networks=("10.0.0.0/24",)))
    assert [node.role for node in alone.nodes] == ["bootstrap", "master"]
    assert (alone.load_balancer, alone.addressing) == (True, "dhcp")
    assert derive(BARE).bootstrap is None
