"""Names, addresses and leases: what dnsmasq is told."""

import os
import shutil
import subprocess

import msgspec
import pytest

from lab import topology
from lab.daemons import dns
from lab.layout import Layout

DNSMASQ = shutil.which("dnsmasq", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def config(shape, tmp_path):
    text = dns.dnsmasq_config(Layout(tmp_path, shape), leases=tmp_path / "leases", log=tmp_path / "log")
    return text.splitlines()


def test_a_nodes_name_comes_before_the_apis_so_that_it_is_the_ptr(tmp_path):
    names = [name for name, address in dns.records(topology.sno()) if address == "192.168.111.80"]
    assert names[0] == "master-0.ostest.test.node0.example"
    assert "api.ostest.test.node0.example" in names
    assert "api-int.ostest.test.node0.example" in names


def test_static_labs_have_no_dhcp(tmp_path):
    assert not [line for line in config(topology.sno(), tmp_path) if line.startswith("dhcp")]
    lines = config(topology.ha("dhcp"), tmp_path)
    assert sum(line.startswith("dhcp-host=") for line in lines) == 5
    assert "dhcp-host=52:54:00:6e:30:04,192.168.111.24,worker-1" in lines


def test_virtual_ips_are_where_the_api_and_the_apps_are(tmp_path):
    lines = config(topology.ha(), tmp_path)
    assert "host-record=api.ostest.test.node0.example,192.168.111.5" in lines
    assert "address=/apps.ostest.test.node0.example/192.168.111.4" in lines


TWO = """
name: two
networks:
  - {name: a, ipv4: 10.1.0.0/24, gateway: none, dhcp: on, dns: none, ntp: [10.1.0.7], mtu: 9000}
  - {name: b, ipv4: 10.2.0.0/24, ipv6: "fd00:2::/64", dhcp: on, dhcpv6: on, router_advertisements: on, dns: [8.8.8.8]}
  - {name: c, ipv6: "fd00:3::/64", router_advertisements: on, gateway6: none}
nodes:
  - name: m
    role: master
    nics:
      - {mac: "52:54:00:00:00:01", network: a, addresses: [10.1.0.9]}
      - {mac: "52:54:00:00:00:02", network: b, addresses: [10.2.0.9, "fd00:2::9"]}
      - {mac: "52:54:00:00:00:03", network: c, addresses: ["fd00:3::9"]}
"""


def test_a_trunk_with_two_networks_that_lease_has_a_reservation_in_each(tmp_path):
    text = """
name: vlans
networks:
  - {name: a, ipv4: 10.1.0.0/24, ipv6: "fd00:1::/64", dhcp: on, dhcpv6: on, vlan: 10}
  - {name: b, ipv4: 10.2.0.0/24, dhcp: on, vlan: 20}
nodes:
  - name: m
    role: master
    nics:
      - mac: "52:54:00:00:00:01"
        trunk: [a, b]
        addresses: [10.1.0.9, 10.2.0.9, "fd00:1::9"]
        clones: ["52:54:00:00:00:09"]
"""
    # dnsmasq takes only the last of two IPv4 addresses in one line.
    assert [line for line in config(topology.load_text(text), tmp_path) if line.startswith("dhcp-host=")] == [
        "dhcp-host=52:54:00:00:00:01,52:54:00:00:00:09,10.1.0.9,[fd00:1::9],m",
        "dhcp-host=52:54:00:00:00:01,52:54:00:00:00:09,10.2.0.9,m",
    ]


def test_each_network_is_told_its_own(tmp_path):
    lines = config(topology.load_text(TWO), tmp_path)
    assert [line for line in lines if line.startswith("interface=")] == [f"interface=lab{i}" for i in range(3)]
    assert {"dhcp-option=tag:lab0,option:router", "dhcp-option=tag:lab0,option:dns-server"} <= set(lines)
    assert "dhcp-option=tag:lab0,option:ntp-server,10.1.0.7" in lines
    assert "dhcp-option=tag:lab0,option:mtu,9000" in lines
    assert "dhcp-option=tag:lab1,option:router,10.2.0.1" in lines
    assert "dhcp-option=tag:lab1,option:dns-server,8.8.8.8" in lines
    assert "dhcp-host=52:54:00:00:00:01,10.1.0.9,m" in lines
    assert "dhcp-host=52:54:00:00:00:02,10.2.0.9,[fd00:2::9],m" in lines
    # A host that makes its address itself has no reservation; without a gateway nobody takes the lab for a router.
    assert not [line for line in lines if "fd00:3::9" in line and "dhcp-host" in line]
    assert "ra-param=lab1,mtu:1500,10,60" in lines
    assert "ra-param=lab2,mtu:1500,10,0" in lines


@pytest.mark.skipif(not DNSMASQ, reason="dnsmasq is not installed")
@pytest.mark.parametrize(
    "shape",
    [
        topology.sno(),
        topology.ha("dhcp"),
        topology.load_text(TWO),
        msgspec.structs.replace(topology.compact(), name="pxe", boot="pxe"),
        msgspec.structs.replace(topology.compact(), name="http-boot", boot="http-boot"),
    ],
    ids=lambda s: s.name,
)
def test_dnsmasq_takes_it(shape, tmp_path):
    file = tmp_path / "dnsmasq.conf"
    file.write_text("\n".join(config(shape, tmp_path)) + "\n")
    completed = subprocess.run(
        [str(DNSMASQ), "--test", f"--conf-file={file}"], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr


def booting(way):
    return msgspec.structs.replace(topology.compact(), name=way, boot=way)


def test_a_firmware_is_told_what_to_boot_even_where_machines_are_static(tmp_path):
    lines = config(booting("pxe"), tmp_path)
    assert "dhcp-boot=tag:ipxe,http://192.168.111.1:8080/boot/agent.x86_64.ipxe" in lines
    assert "dhcp-boot=tag:!ipxe,tag:uefi,ipxe.efi" in lines
    assert "dhcp-boot=tag:!ipxe,tag:!uefi,undionly.kpxe" in lines
    assert f"tftp-root={tmp_path / 'tftp'}" in lines
    # The address that the machine will have, so that nobody has two.
    assert "dhcp-host=52:54:00:6e:30:01,192.168.111.81,master-1" in lines
    lines = config(booting("http-boot"), tmp_path)
    assert "dhcp-boot=tag:http,http://192.168.111.1:8080/boot/agent.x86_64.iso" in lines
    assert not [line for line in lines if "tftp" in line]
    for way in ("iso", "minimal-iso", "usb", "config-image"):
        assert not [line for line in config(booting(way), tmp_path) if line.startswith("dhcp")]
