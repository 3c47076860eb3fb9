"""Faults within a host: its processes, its disk, its memory, on the machine OS; needs root and a release."""

import socket
import time

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.errors import LabError
from lab.faults import ClockJump, DiskFull, Freeze, Kill, Latency, LinkDown, MemoryTaken, PowerCut, active
from lab.lab import Lab
from lab.testing.containers import hosts
from lab.testing.containers.kit import PATIENCE, tree
from lab.testing.live import skip_without_labs
from lab.waiting import wait_until

SHAPE = topology.sno().with_machines("container")
pytestmark = [
    pytest.mark.lab,
    skip_without_labs(SHAPE),
    pytest.mark.skipif(tree() is None, reason="no release was built here: there is no machine OS"),
]
NODE = "master-0"
MEMORY_MIB = 1024


def shape():
    [node] = SHAPE.nodes
    return msgspec.structs.replace(
        SHAPE, nodes=(msgspec.structs.replace(node, memory_mib=MEMORY_MIB, disk_gib=1, vcpu=1),)
    )


def test_a_host_fails_within_and_is_whole_again(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "machined", hosts.machined)
    with Lab(shape(), artifacts=tmp_path) as lab:
        node = lab.nodes[NODE]
        # A user who begins a fault by hand is told at once, and not after a minute's attempts.
        with pytest.raises(LabError, match=r"^master-0 is off: nobody can log in$"):
            active.begin(lab, Kill(NODE, "kubelet"))
        node.power.on()
        host = node.ssh(PATIENCE)

        def output_of(command):
            done = host.run(command)
            assert done.rc == 0, done.stderr
            return done.stdout.strip()

        def main():
            return output_of("systemctl show --property MainPID --value kubelet")

        first = main()
        assert active.begin(lab, Kill(NODE, "kubelet")) is None
        wait_until(lambda: main() not in (first, "0"), PATIENCE, "kubelet to be started again", main, poll=0.2)

        def state():
            return output_of("sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$(pgrep -x etcd)/status")

        with lab.fault(Freeze(NODE, "etcd")):
            assert state() == "T"
        assert state() == "S"

        def room():
            write = "head -c 16M /dev/zero > /srv/more; e=$?; rm -f /srv/more; exit $e"
            return host.run(f"sudo sh -c '{write}'").rc == 0

        # All of this host's file systems are its memory; one that is full takes no more than this.
        output_of("sudo mount -t tmpfs -o size=64m small /srv")
        assert room()
        with lab.fault(DiskFull(NODE, "/srv", 4)):
            assert not room()
        assert room()

        def taken():
            place = "/run/fault-memory"
            used = output_of(f"! mountpoint -q {place} || df --output=used --block-size=M {place} | tail -n 1")
            return int(used.rstrip("M") or 0)

        with lab.fault(MemoryTaken(NODE, 500)):
            assert taken() > 300
        assert not taken()
        # Given back by the host itself, which may take no login meanwhile.
        MemoryTaken(NODE, 500, 2).begin(lab)
        wait_until(lambda: not taken(), PATIENCE, "the host to give its memory back", taken)

        with pytest.raises(LabError, match=r"master-0: .*(date|clock)"), lab.fault(ClockJump(NODE, 60)):
            pass
        with pytest.raises(LabError, match=r"^master-0 is a container: its clock is the host's"):
            PowerCut(NODE, 60).begin(lab)
        node.link.set_up(False)
        begin = time.monotonic()
        with pytest.raises(LabError, match=r"^master-0: no SSH at 192\.168\.111\.80: "):
            active.begin(lab, Kill(NODE, "kubelet"))
        print(f"that nobody answers was told after {time.monotonic() - begin:.1f} s")


def connecting(address):
    """Return the time to connect to the host's sshd at that address: the quickest of three attempts."""
    taken = []
    for _ in range(3):
        begin = time.monotonic()
        with socket.create_connection((address, 22), timeout=PATIENCE):
            taken.append(time.monotonic() - begin)
    return min(taken)


def test_each_of_two_cables_fails_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "machined", hosts.machined)
    wanted = shape()
    [node] = wanted.nodes
    storage = topology.Network(name="storage", ipv4="10.9.0.0/24", gateway="none", dns="none", ntp="none")
    nics = (
        topology.Nic(mac="52:54:00:6e:31:01", network="storage", addresses=("10.9.0.80",)),
        topology.Nic(mac=node.mac, network=wanted.all_networks[0].name, addresses=wanted.known_addresses(node)),
    )
    two = msgspec.structs.replace(
        wanted,
        networks=(*wanted.all_networks, storage),
        address=None,
        aliases=(),
        nodes=(msgspec.structs.replace(node, nics=nics),),
    )
    with Lab(two, artifacts=tmp_path) as lab:
        lab.nodes[NODE].power.on()
        host = lab.nodes[NODE].ssh(PATIENCE)

        def up():
            """Return whether each NIC has a link, as the host sees it."""
            shown = host.run("cat /sys/class/net/enp1s0/carrier /sys/class/net/enp2s0/carrier")
            assert shown.rc == 0, shown.stderr
            return shown.stdout.split() == ["1", "1"], shown.stdout.split()

        addresses = {"enp1s0": "10.9.0.80", "enp2s0": node.ip}
        wait_until(lambda: up()[0], PATIENCE, "both NICs to have a link", up, poll=0.2)
        with pytest.raises(LabError, match=r"^master-0 has no NIC enp3s0; it has enp1s0, enp2s0$"):
            active.begin(lab, LinkDown(NODE, "enp3s0"))
        active.begin(lab, LinkDown(NODE, "enp1s0"))
        with pytest.raises(LabError, match=r"^fault 1 has changed the same since "):
            active.begin(lab, LinkDown(NODE))
        wait_until(lambda: up()[1] == ["0", "1"], PATIENCE, "the first NIC to lose its link", up, poll=0.2)
        # The other is late meanwhile, and takes logins.
        active.begin(lab, Latency(300, node=NODE, nic="enp2s0"))
        assert lab.inside(connecting, node.ip) >= 0.3
        assert [begun.number for begun in active.end(lab, 1)] == [1]
        wait_until(lambda: up()[0], PATIENCE, "the first NIC to have its link again", up, poll=0.2)
        times = {nic: lab.inside(connecting, address) for nic, address in addresses.items()}
        print(f"with 300 ms on one nic: {times}")
        assert times["enp1s0"] < 0.3 <= times["enp2s0"]
        active.begin(lab, LinkDown(NODE, "enp2s0"))
        assert lab.inside(connecting, addresses["enp1s0"]) < 0.3
        assert [begun.number for begun in active.end(lab)] == [3, 2]
        assert max(lab.inside(connecting, address) for address in addresses.values()) < 0.3
