"""The parts of a lab, as data: frozen, typed, and the same in Python and YAML (docs/topology.md).

    name: sno
    addressing: static          # or dhcp: reservations for every node
    boot: iso                   # or minimal-iso, pxe, http-boot, config-image, discovery-iso, usb
    machine: vm                 # or container: no emulation (docs/machines.md)
    platform: none              # or baremetal: API and ingress on virtual IPs; or external
    nodes:
      - {name: master-0, role: master, mac: "52:54:00:6e:30:00", ip: 192.168.111.80, memory_mib: 4096}

A node has one empty disk of `disk_gib` unless its disks are listed, in the order in which it detects them:

        disks:
          - {size_gib: 10, serial: KEEP-1, holds: data}         # somebody's data: not a byte may change
          - {size_gib: 20, serial: SYSTEM-1, holds: old-system, root: true}
          - {size_gib: 30}

It has one NIC in one network, unless the topology has `networks`, and it `nics` and `bonds`:

    networks:
      - {name: machine, ipv4: 192.168.111.0/24, ipv6: "fd2e:6f44:5dd8::/64", vlan: 111, router_advertisements: true}
    nodes:
      - name: master-0
        role: master
        nics:
          - {mac: "52:54:00:6e:30:00"}
          - {mac: "52:54:00:6e:31:00"}
        bonds:
          - {mode: 802.3ad, nics: [enp1s0, enp2s0], trunk: [machine], addresses: [192.168.111.80]}

Unknown fields, wrong types and contradictions are errors that name the file and the field, all of them at once.
"""

from __future__ import annotations

from lab.topology.disks import DISK_GIB, Disk, Holds
from lab.topology.links import Link
from lab.topology.load import changed, load, load_text, read
from lab.topology.model import (
    FROM_NETWORK,
    FROM_STICK,
    MACHINE_NETWORK,
    Addressing,
    BootWay,
    MachineKind,
    Platform,
    Topology,
)
from lab.topology.networks import Network
from lab.topology.nics import Bond, BondMode, Nic, NicModel
from lab.topology.nodes import Bmc, Firmware, NodeSpec, Role
from lab.topology.presets import (
    ARBITER_MIB,
    MASTER_MIB,
    PATTERN,
    PRESETS,
    SNO_MIB,
    WORKER_MIB,
    Stack,
    arbiter,
    compact,
    fencing,
    five,
    four,
    ha,
    sno,
)
from lab.topology.problems import FieldsError, written

__all__ = [
    "ARBITER_MIB",
    "DISK_GIB",
    "FROM_NETWORK",
    "FROM_STICK",
    "MACHINE_NETWORK",
    "MASTER_MIB",
    "PATTERN",
    "PRESETS",
    "SNO_MIB",
    "WORKER_MIB",
    "Addressing",
    "Bmc",
    "Bond",
    "BondMode",
    "BootWay",
    "Disk",
    "FieldsError",
    "Firmware",
    "Holds",
    "Link",
    "MachineKind",
    "Network",
    "Nic",
    "NicModel",
    "NodeSpec",
    "Platform",
    "Role",
    "Stack",
    "Topology",
    "arbiter",
    "changed",
    "compact",
    "fencing",
    "five",
    "four",
    "ha",
    "load",
    "load_text",
    "read",
    "sno",
    "written",
]
