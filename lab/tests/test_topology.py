import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import topology
from lab.errors import TopologyError
from lab.topology import NodeSpec, Topology

GOOD = topology.sno().dump()


@pytest.mark.parametrize("name", sorted(topology.PRESETS))
def test_presets_survive_yaml(name):
    preset = topology.load(name)
    assert topology.load_text(preset.dump()) == preset
    assert preset.addressing == ("dhcp" if "dhcp" in name else "static")
    assert {n.firmware for n in preset.nodes} == {"bios" if "bios" in name else "uefi"}


def test_preset_shapes():
    def shape(name):
        found = topology.load(name)
        return len(found.masters), len(found.workers), found.platform

    assert [shape(n) for n in ("sno", "compact", "ha")] == [(1, 0, "none"), (3, 0, "baremetal"), (3, 2, "baremetal")]
    assert topology.sno().nodes[0].ip == "192.168.111.80"
    assert topology.sno("dhcp").nodes[0].ip == "192.168.111.20"
    assert topology.sno().gateway == "192.168.111.1"


@st.composite
def topologies(draw):
    hosts = draw(st.lists(st.integers(20, 200), min_size=1, max_size=6, unique=True))
    nodes = tuple(
        NodeSpec(
            name=f"n{i}",
            role=draw(st.sampled_from(["master", "worker", "arbiter"])),
            mac=f"52:54:00:00:00:{i:02x}",
            ip=f"10.1.2.{host}",
            vcpu=draw(st.integers(1, 64)),
            memory_mib=draw(st.integers(256, 1 << 20)),
            firmware=draw(st.sampled_from(["uefi", "bios"])),
        )
        for i, host in enumerate(hosts)
    )
    return Topology(name="drawn", nodes=nodes, machine_network="10.1.2.0/24")


@given(topologies())
def test_any_topology_survives_yaml(drawn):
    assert topology.load_text(drawn.dump()) == drawn
    assert all(ipaddress.ip_address(n.ip) in drawn.network for n in drawn.nodes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: sno", "nome: sno", r"field `nome`"),
        ("role: master", "role: king", r"'king' - at `\$.nodes\[0\].role`"),
        ("vcpu: 2", "vcpu: two", r"Expected `int`, got `str` - at `\$.nodes\[0\].vcpu`"),
        ("vcpu: 2", "vcpu: 0", r"vcpu is 0.*\$.nodes\[0\]"),
        ("memory_mib: 4096", "memory_mib: 16", r"memory_mib is 16"),
        ("52:54:00:6e:30:00", "53:54:00:6e:30:00", r"multicast"),
        ("52:54:00:6e:30:00", "52:54:00:6E:30:00", r"lower-case"),
        ("192.168.111.80", "192.168.112.80", r"192.168.112.80 is outside machine_network 192.168.111.0/24"),
        ("192.168.111.80", "192.168.111.1", r"address 192.168.111.1 is used more than once"),
        ("192.168.111.0/24", "192.168.111.0/30", r"no room"),
        ("platform: none", "platform: baremetal", r"needs api_vip"),
        ("api_vip: null", "api_vip: 192.168.111.5", r"platform none has no api_vip"),
        ("cluster_name: ostest", "cluster_name: -x", r"not a DNS label"),
    ],
)
def test_errors_name_file_and_field(old, new, message):
    assert old in GOOD
    with pytest.raises(TopologyError, match=message) as caught:
        topology.load_text(GOOD.replace(old, new), source="my.yaml")
    assert str(caught.value).startswith("my.yaml: ")


def test_two_nodes_cannot_share_a_mac():
    node = topology.sno().nodes[0]
    other = msgspec.structs.replace(node, name="master-1", ip="192.168.111.81")
    with pytest.raises(ValueError, match="mac 52:54:00:6e:30:00 is used more than once"):
        Topology(name="x", nodes=(node, other))


def test_what_is_no_topology_is_named():
    with pytest.raises(TopologyError, match=r"absent\.yaml: neither a readable file .* nor a preset"):
        topology.load("absent.yaml")
