"""Labs of several networks with container machines, brought up for real."""

import json
import socket

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.lab import Lab
from lab.testing.containers.kit import PATIENCE, run_in, tree
from lab.tests.machines import kit
from lab.waiting import wait_until

SHAPE = topology.sno().with_machines("container")
pytestmark = [
    pytest.mark.lab,
    kit.needs_lab(SHAPE),
    pytest.mark.skipif(tree() is None, reason="no release was built here: there is no tree to boot"),
]

TWO = """
name: two
machine: container
networks:
  - {name: machine, ipv4: 192.168.111.0/24, mtu: 9000, gateway: none}
  - name: storage
    ipv4: 10.9.0.0/24
    ipv6: "fd2e:6f44:5dd8:9::/64"
    dhcp: on
    dhcpv6: on
    router_advertisements: on
    dns: [10.9.0.53]
    ntp: [10.9.0.123]
  - {name: slaac, ipv6: "fd2e:6f44:5dd8:a::/64", router_advertisements: on, gateway6: none}
  - {name: oob, ipv4: 10.8.0.0/24, bmc: true}
nodes:
  - name: master-0
    role: master
    memory_mib: 512
    ip: 10.9.0.20
    nics:
      - {mac: "52:54:00:6e:50:00", addresses: [192.168.111.80]}
      - mac: "52:54:00:6e:50:01"
        network: storage
        addresses: [10.9.0.20, "fd2e:6f44:5dd8:9::20"]
        name: eno2
        model: e1000e
      - {mac: "52:54:00:6e:50:02", network: slaac, pci: 7}
    disks:
      - {size_gib: 1, bus: sata, serial: SATA-1, wwn: "0x5000c50015ea71aa", model: WDC WD10, rotational: true}
      - size_gib: 2
        bus: scsi
        serial: SCSI-1
        wwn: "0x5000c50015ea71ab"
        vendor: DELL
        model: FAST
        rotational: false
        root: true
      - {size_gib: 1, bus: nvme, serial: NVME-1}
      - {size_gib: 1, serial: VIRTIO-1}
      - {size_gib: 1, bus: usb, serial: USB-1}
"""


@pytest.fixture
def plain(monkeypatch):
    """Container machines boot the tree of the machine OS, without an image."""
    usual = services.machined

    def machined(layout, lab_id):
        service = usual(layout, lab_id)
        argv = (*service.argv, "lab.testing.containers.plain:boot")
        return msgspec.structs.replace(service, argv=argv, env=service.env | {"NODE0_TEST_TREE": str(tree())})

    monkeypatch.setattr(services, "machined", machined)


def at_login(lab, name):
    lab.nodes[name].power.on()
    lab.nodes[name].console.wait_for(r"login: ", PATIENCE)


def within(lab, name, script):
    done = run_in(lab.id, name, script)
    assert done.returncode == 0, done.stderr
    return done.stdout


def addresses(lab, name, nic):
    [link] = json.loads(within(lab, name, f"ip -j address show dev {nic}"))
    return {entry["local"]: entry["prefixlen"] for entry in link["addr_info"] if entry["scope"] == "global"}


def test_live_two_networks_with_dhcp_dhcpv6_and_router_advertisements(tmp_path, plain):
    with Lab(topology.load_text(TWO), artifacts=tmp_path) as lab:
        assert lab.layout.bmc_url == "https://10.8.0.1:8000"
        assert sorted(lab.bmc.systems()) == [lab.nodes["master-0"].uuid]
        at_login(lab, "master-0")
        wanted = {"10.9.0.20": 24, "fd2e:6f44:5dd8:9::20": 128}
        wait_until(
            lambda: wanted.items() <= addresses(lab, "master-0", "eno2").items(),
            PATIENCE,
            "reserved addresses of IPv4 and IPv6",
            lambda: str(addresses(lab, "master-0", "eno2")),
        )
        prefix = "fd2e:6f44:5dd8:a:"
        wait_until(
            lambda: any(text.startswith(prefix) for text in addresses(lab, "master-0", "enp7s0")),
            PATIENCE,
            "an address made of what the router says",
            lambda: str(addresses(lab, "master-0", "enp7s0")),
        )
        routes = within(lab, "master-0", "ip route; ip -6 route")
        defaults = [line for line in routes.splitlines() if line.startswith("default")]
        assert len(defaults) == 2
        assert all("dev eno2" in line for line in defaults)
        assert within(lab, "master-0", "nmcli -g IP4.DNS device show eno2").strip() == "10.9.0.53"
        # A name, by the lab's DNS on its further address; packets of 9000 bytes in the other network.
        assert "192.168.111.1" not in within(lab, "master-0", "getent ahostsv4 registry.test.node0.example")
        within(lab, "master-0", "ip address add 192.168.111.80/24 dev enp1s0; ping -c1 -W5 -M do -s 8900 192.168.111.1")
        assert within(lab, "master-0", "cat /sys/class/net/eno2/device/vendor").strip() == "0x8086"
        # The cables have names.
        lab.nodes["master-0"].links["enp7s0"].set_up(False)
        assert within(lab, "master-0", "cat /sys/class/net/enp7s0/carrier").strip() == "0"

        listed = json.loads(within(lab, "master-0", "lsblk -J -b -o name,serial,wwn,vendor,model,rota,size"))
        disks = {disk.pop("name"): disk for disk in listed["blockdevices"]}
        assert {name: disk["serial"] for name, disk in disks.items()} == {
            "sda": "SATA-1", "sdb": "SCSI-1", "nvme0n1": "NVME-1", "vda": "VIRTIO-1", "sdc": "USB-1",
        }  # fmt: skip
        assert (disks["sda"]["wwn"], disks["sda"]["model"], disks["sda"]["rota"]) == (
            "0x5000c50015ea71aa", "WDC WD10", True,
        )  # fmt: skip
        assert (disks["sdb"]["wwn"], disks["sdb"]["vendor"], disks["sdb"]["rota"], disks["sdb"]["size"]) == (
            "0x5000c50015ea71ab", "DELL", False, 2 << 30,
        )  # fmt: skip
        links = within(lab, "master-0", "ls /dev/disk/by-id").split()
        assert {"wwn-0x5000c50015ea71aa", "ata-WDC_WD10_SATA-1", "virtio-VIRTIO-1"} <= set(links)
        # What udev would have written, the machine cannot.
        assert run_in(lab.id, "master-0", "echo E:ID_WWN=0x1 > /run/udev/data/b7:0").returncode != 0


SIX = """
name: six
machine: container
addressing: dhcp
machine_network: "fd2e:6f44:5dd8:c956::/120"
nodes:
  - {name: master-0, role: master, mac: "52:54:00:6e:30:00", ip: "fd2e:6f44:5dd8:c956::14", memory_mib: 512, vcpu: 1}
"""


def test_live_a_lab_of_ipv6_alone(tmp_path, plain):
    with Lab(topology.load_text(SIX), artifacts=tmp_path) as lab:
        assert lab.layout.bmc_url == "https://[fd2e:6f44:5dd8:c956::1]:8000"
        # Registry, NTP and DNS have said that they are there, at that address.
        assert all(lab.services.running().values())
        host = f"master-0.{lab.topology.cluster_domain}"
        [resolved] = {entry[4][0] for entry in lab.inside(socket.getaddrinfo, host, 22, socket.AF_INET6)}
        assert resolved == "fd2e:6f44:5dd8:c956::14"
        with pytest.raises(socket.gaierror):
            lab.inside(socket.getaddrinfo, host, 22, socket.AF_INET)
        at_login(lab, "master-0")
        wait_until(
            lambda: "fd2e:6f44:5dd8:c956::14" in addresses(lab, "master-0", "enp1s0"),
            PATIENCE,
            "the reserved address",
            lambda: str(addresses(lab, "master-0", "enp1s0")),
        )
        within(lab, "master-0", "getent ahostsv6 registry.test.node0.example")
