"""Topologies as files have them: one with a bit of everything, and two with iSCSI disks."""

WIDE = """
name: wide
machine: vm
platform: baremetal
api_vips: [192.168.111.5, "fd2e:6f44:5dd8::5"]
ingress_vips: [192.168.111.4, "fd2e:6f44:5dd8::4"]
networks:
  - {name: mgmt, ipv4: 10.9.0.0/24, gateway: none, dhcp: on, dns: none, ntp: [10.9.0.7]}
  - name: machine
    ipv4: 192.168.111.0/24
    ipv6: "fd2e:6f44:5dd8::/64"
    vlan: 111
    mtu: 9000
    gateway: 192.168.111.254
    router_advertisements: true
    dns: [8.8.8.8]
  - {name: oob, ipv4: 10.8.0.0/24, bmc: true}
nodes:
  - name: master-0
    role: master
    ip: 192.168.111.80
    tpm: true
    clock_offset: -3600
    nics:
      - {mac: "52:54:00:00:01:00", addresses: [10.9.0.10]}
      - {mac: "52:54:00:00:01:01", model: e1000e}
      - {mac: "52:54:00:00:01:02", pci: 9}
    bonds:
      - mode: 802.3ad
        nics: [enp2s0, enp9s0]
        trunk: [machine]
        addresses: [192.168.111.80, "fd2e:6f44:5dd8::80"]
    disks:
      - {size_gib: 10, bus: sata, wwn: "0x5000c50015ea71aa", model: WDC WD10, rotational: true}
      - {size_gib: 20, bus: nvme, root: true}
      - {size_gib: 30, bus: scsi}
  - {name: worker-0, role: worker, mac: "52:54:00:00:02:00", ip: 10.9.0.11}
"""

SAN = """
name: san
networks:
  - {name: machine, ipv4: 192.168.111.0/24}
  - {name: storage, ipv4: 10.9.0.0/24, gateway: none, dns: none, ntp: none}
nodes:
  - name: master-0
    role: master
    nics:
      - {mac: "52:54:00:6e:30:00", network: machine, addresses: [192.168.111.80]}
      - {mac: "52:54:00:6e:31:00", network: storage, addresses: [10.9.0.80]}
    disks:
      - {size_gib: 10, bus: sata}
      - {size_gib: 20, bus: iscsi, portals: [storage], serial: SAN-1, vendor: DGC, model: LUN, root: true}
  - {name: worker-0, role: worker, mac: "52:54:00:6e:30:01", ip: 192.168.111.81}
"""

TWO_PATHS = """
name: two-paths
networks:
  - {name: machine, ipv4: 192.168.111.0/24}
  - {name: left, ipv4: 10.9.1.0/24, gateway: none, dns: none, ntp: none}
  - {name: right, ipv4: 10.9.2.0/24, gateway: none, dns: none, ntp: none}
nodes:
  - name: master-0
    role: master
    nics:
      - {mac: "52:54:00:6e:30:00", network: machine, addresses: [192.168.111.80]}
      - {mac: "52:54:00:6e:31:00", network: left, addresses: [10.9.1.80]}
      - {mac: "52:54:00:6e:32:00", network: right, addresses: [10.9.2.80]}
    disks:
      - {size_gib: 20, bus: iscsi, portals: [left, right], root: true}
"""
