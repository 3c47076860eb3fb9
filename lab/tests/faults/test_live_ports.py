"""Switch ports, names and leases that fail on a real lab; needs root and the daemons."""

import itertools
import json
import socket
import time

import msgspec
import pytest

from lab import topology
from lab.errors import LabError
from lab.faults import (
    DhcpWrong,
    Flapping,
    Latency,
    LinkDown,
    Loss,
    NamesSlow,
    ProxyRefuses,
    Swapped,
    Throttle,
    WrongVlan,
    bpf,
)
from lab.faults.network import taps
from lab.lab import Lab
from lab.layout import PROXY_PORT
from lab.testing.live import skip_without_labs, small
from lab.testing.packets import PAIR, received

pytestmark = [pytest.mark.lab, skip_without_labs()]


def _sent(port, count=200):
    """Count the small packets from a UDP port that come to the other end of the pair of NICs."""
    before = received("fault1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("198.51.100.1", port))
        for _ in range(count):
            sock.sendto(b"x", ("198.51.100.2", 5353))
    return received("fault1") - before


def _spread(seconds):
    """Send packets for so many seconds, each 10 ms, and list which arrive, as booleans."""
    arrived, end = [], time.monotonic() + seconds
    before = received("fault1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        while time.monotonic() < end:
            sock.sendto(b"x", ("198.51.100.2", 5353))
            now = received("fault1")
            arrived.append(now > before)
            before = now
    return arrived


def test_ports_and_names_fail_and_are_whole_again(tmp_path):
    home = topology.sno(firmware="bios")
    leasing = msgspec.structs.replace(home.all_networks[0], dhcp=True)
    [node] = home.nodes
    storage = topology.Network(name="storage", ipv4="10.9.0.0/24", gateway="none", dns="none", ntp="none")
    nics = (
        topology.Nic(mac="52:54:00:6e:31:01", network="storage", addresses=("10.9.0.80",)),
        topology.Nic(mac=node.mac, network=leasing.name, addresses=home.known_addresses(node)),
    )
    two = msgspec.structs.replace(
        home, networks=(leasing, storage), address=None, aliases=(), nodes=(msgspec.structs.replace(node, nics=nics),)
    )
    with Lab(small(two), artifacts=tmp_path) as lab:
        assert lab.run(["sh", "-ec", PAIR], timeout=20).returncode == 0
        lab.inside(bpf.attach, "fault0", bpf.names_lossy(100), 1)
        assert (lab.inside(_sent, 53), lab.inside(_sent, 54)) == (0, 200)
        lab.inside(bpf.detach, "fault0", 1)
        lab.inside(bpf.attach, "fault0", bpf.at_times(600, 300), 1)
        seen = lab.inside(_spread, 3)
        assert 0.2 <= sum(seen) / len(seen) <= 0.8
        changes = sum(item != other for item, other in itertools.pairwise(seen))
        assert 6 <= changes <= 14, "about ten times in three seconds it comes and goes"
        lab.inside(bpf.detach, "fault0", 1)

        def masters():
            shown = json.loads(lab.run(["ip", "-json", "link", "show"], timeout=10).stdout)
            bridges = {item["ifname"]: item.get("master") for item in shown}
            return [bridges[port] for port in taps(lab, node.name)]

        with pytest.raises(LabError, match="is off"), lab.fault(Swapped(node.name)):
            pass
        lab.nodes[node.name].power.on()
        right = masters()
        assert right == [lab.layout.bridge(storage), lab.layout.bridge(two.all_networks[0])]
        with lab.fault(Swapped(node.name)):
            assert masters() == right[::-1]
        assert masters() == right
        with lab.fault(WrongVlan(node.name)):
            assert masters() == [None, None]
            lab.nodes[node.name].power.off()
            lab.nodes[node.name].power.on()
        assert masters() == right

        first, second = taps(lab, node.name)
        assert [taps(lab, node.name, nic) for nic in ("enp1s0", "enp2s0")] == [[first], [second]]

        def programs(way):
            """Count the programs that each of the machine's ports has for packets that go this way."""
            shown = (lab.run(["tc", "filter", "show", "dev", port, way], timeout=10) for port in (first, second))
            return [item.stdout.count("direct-action") for item in shown]

        with lab.fault(Loss(5, node.name, nic="enp2s0")), lab.fault(Latency(10, node=node.name, nic="enp2s0")):
            assert programs("egress") == [0, 2]
        with lab.fault(Flapping(node.name, way="from", nic="enp1s0")):
            assert (programs("egress"), programs("ingress")) == ([0, 0], [1, 0])
        with lab.fault(Throttle(node.name, 500, way="from", nic="enp2s0")):
            assert (programs("egress"), programs("ingress")) == ([0, 0], [0, 1])
        links = lab.nodes[node.name].links
        with lab.fault(LinkDown(node.name, "enp1s0")):
            assert {name: link.is_up() for name, link in links.items()} == {"enp1s0": False, "enp2s0": True}
        with lab.fault(LinkDown(node.name)):
            assert not any(link.is_up() for link in links.values())
        assert all(link.is_up() for link in links.values())
        with lab.fault(Flapping(node.name)), lab.fault(NamesSlow()):
            for device in (*taps(lab, node.name), "lab0", "lab1"):
                shown = lab.run(["tc", "filter", "show", "dev", device, "egress"], timeout=10).stdout
                assert shown.count("direct-action") == 1

        config = lab.layout.root / "dnsmasq.conf"
        before = config.read_text()
        with lab.fault(DhcpWrong("192.168.111.250", "192.168.111.251")):
            text = config.read_text()
            assert "option:router,192.168.111.250\n" in text
            assert "option:dns-server,192.168.111.251\n" in text
            assert lab.services.running()["dnsmasq"]
        assert config.read_text() == before
        with pytest.raises(LabError, match="has no proxy"), lab.fault(ProxyRefuses()):
            pass


def _asked(proxy, registry):
    """Return the status with which the proxy answers who wants to be let through to the registry."""
    with socket.create_connection(proxy, timeout=20) as connection:
        connection.sendall(f"CONNECT {registry} HTTP/1.1\r\nHost: {registry}\r\n\r\n".encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_a_proxy_refuses_and_lets_through_again(tmp_path):
    shape = msgspec.structs.replace(topology.sno(firmware="bios"), proxy=True)
    with Lab(small(shape), artifacts=tmp_path) as lab:
        proxy = ("192.168.111.1", PROXY_PORT)
        assert lab.inside(_asked, proxy, lab.layout.registry) == 200
        with lab.fault(ProxyRefuses()):
            assert lab.inside(_asked, proxy, lab.layout.registry) == 403
        assert lab.inside(_asked, proxy, lab.layout.registry) == 200
