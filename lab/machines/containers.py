"""From a topology's nodes to container machines: the files that the daemon which owns them reads."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import uuid

from lab.host import records
from lab.layout import BRIDGE, Layout
from lab.machines import disks
from lab.machines.container.spec import DiskSpec, MachineSpec, Nic
from lab.topology import NodeSpec

# Users of the host from here on are machines' own, 65536 to each; above what /etc/subuid hands out by default.
_FIRST_USER = 1 << 29
_MACHINES = 1 << 14
# Longer than a group waits for its processes to end.
_REAP_SECONDS = 30
# As udev names the only card of a virtual machine (its second PCI bus).
CARD = "enp1s0"


def first_user(lab: str, index: int) -> int:
    """Where the search for a machine's users (lab.machines.container.kernel.users) begins: seldom where another's
    does."""
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
        # As with virtual machines: from no other disk, whatever is on it.
        boot_disks=(node.device(node.root_index),),
        console_log=str(layout.console_log(node)),
        console_socket=str(layout.console_socket(node)),
        uid_base=first_user(layout.root.name, index),
    )


def define(layout: Layout) -> dict[str, str]:
    """Make the disks of all nodes and tell what the machines are; their UUIDs by name. They are off."""
    disks.make_all(layout)
    uuids = {}
    for index, node in enumerate(layout.topology.nodes):
        spec = machine_spec(node, layout, index)
        folder = layout.machines / node.name
        folder.mkdir()
        spec.save(folder)
        uuids[node.name] = spec.uuid
    return uuids


def reap() -> list[str]:
    """Remove what dead labs left behind, their machines' control groups too; returns one line for each.

    A lab removes its groups itself when it ends, whatever ends it, unless the process that does so is killed too.
    """
    return records.reap(_remove_groups)


def _remove_groups(lab_id: str) -> str:
    """Remove a dead lab's groups; why not, if that fails."""
    command = [sys.executable, "-m", "lab.machines.container.reaper", lab_id]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return f"its control groups could not be removed within {_REAP_SECONDS} s"
    last = ended.stderr.strip().rpartition("\n")[2]
    return f"its control groups cannot be removed: {last}" if ended.returncode else ""
