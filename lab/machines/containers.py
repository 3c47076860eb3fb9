"""From a topology's nodes to container machines: the files that the daemon which owns them reads."""

from __future__ import annotations

import hashlib
import uuid

from lab.layout import BRIDGE, Layout
from lab.machines import disks
from lab.machines.container.spec import DiskSpec, MachineSpec, Nic
from lab.topology import NodeSpec

# Users of the host from here on are machines' own, 65536 to each; above what /etc/subuid hands out by default.
_FIRST_USER = 1 << 29
_MACHINES = 1 << 14
# As udev names the only card of a virtual machine (its second PCI bus).
CARD = "enp1s0"


def first_user(lab: str, index: int) -> int:
    """The host's user that is root in a lab's machine: another one for each, by all that can be told without asking."""
    number = int.from_bytes(hashlib.sha256(f"{lab}/{index}".encode()).digest()[:4], "big") % _MACHINES
    return _FIRST_USER + (number << 16)


def machine_spec(node: NodeSpec, layout: Layout, index: int) -> MachineSpec:
    """What a node is."""
    identity = str(uuid.uuid4())
    return MachineSpec(
        name=node.name,
        uuid=identity,
        serial=f"N0-{identity[:8].upper()}",
        memory_mib=node.memory_mib,
        vcpus=node.vcpu,
        firmware=node.firmware,
        nics=(Nic(name=CARD, mac=node.mac, network=BRIDGE),),
        disks=tuple(
            DiskSpec(
                target=node.device(number),
                path=str(layout.disk(node, number)),
                size=disk.size_gib << 30,
                serial=node.serial(number),
            )
            for number, disk in enumerate(node.all_disks)
        ),
        console_log=str(layout.console_log(node)),
        console_socket=str(layout.console_socket(node)),
        uid_base=first_user(layout.root.name, index),
    )


def define(layout: Layout) -> dict[str, str]:
    """Make the disks of all nodes and tell what the machines are; their UUIDs by name. They are off."""
    disks.make_all(layout)
    found = {}
    for index, node in enumerate(layout.topology.nodes):
        spec = machine_spec(node, layout, index)
        folder = layout.machines / node.name
        folder.mkdir()
        spec.save(folder)
        found[node.name] = spec.uuid
    return found
