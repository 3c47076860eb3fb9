"""From a topology's nodes to container machines: the files that the daemon which owns them reads."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import uuid

from lab.host import records
from lab.layout import Layout
from lab.machines import disks
from lab.machines.attach import cables_of
from lab.machines.container.spec import DiskSpec, MachineSpec, Nic
from lab.topology import FROM_STICK, Disk, NicModel, NodeSpec
from lab.topology.disks import kernel_names

# Users of the host from here on are machines' own, 65536 to each; above what /etc/subuid hands out by default.
_FIRST_USER = 1 << 29
_MACHINES = 1 << 14
# Seconds; longer than a group waits for its processes to end.
_REAP_SECONDS = 30
# What NICs show themselves as: ids at the PCI SIG, and Linux's drivers (linux/virtio_ids.h for virtio).
_SHOWN: dict[NicModel, tuple[str, str, str]] = {
    "virtio": ("0x1af4", "0x0001", "virtio_net"),
    "e1000": ("0x8086", "0x100e", "e1000"),
    "e1000e": ("0x8086", "0x10d3", "e1000e"),
    "rtl8139": ("0x10ec", "0x8139", "8139cp"),
    "vmxnet3": ("0x15ad", "0x07b0", "vmxnet3"),
}


def first_user(lab: str, index: int) -> int:
    """Choose where the search for a machine's users (lab.machines.container.kernel.users) begins: seldom where
    another's does."""
    number = int.from_bytes(hashlib.sha256(f"{lab}/{index}".encode()).digest()[:4], "big") % _MACHINES
    return _FIRST_USER + (number << 16)


def machine_spec(node: NodeSpec, layout: Layout, index: int) -> MachineSpec:
    """Describe a node as a container machine."""
    identity = str(uuid.uuid4())
    stick = _stick(node, layout)
    return MachineSpec(
        name=node.name,
        uuid=identity,
        serial=f"N0-{identity[:8].upper()}",
        memory_mib=node.memory_mib,
        vcpus=node.vcpu,
        firmware=node.firmware,
        nics=tuple(
            Nic(
                name=cable.nic.name,
                mac=cable.nic.mac,
                network=cable.bridge,
                mtu=cable.mtu,
                shown=_SHOWN[cable.nic.model],
            )
            for cable in cables_of(node, layout)
        ),
        disks=tuple(
            DiskSpec(
                target=node.device(number),
                path=str(layout.device(node, number)),
                size=disk.size_gib << 30,
                serial=node.serial(number),
                model=disk.model,
                vendor=disk.vendor,
                wwn=disk.wwn,
                rotational=bool(disk.rotational),
                bus=disk.bus,
            )
            for number, disk in enumerate(node.all_disks)
        )
        + stick,
        stick="".join(disk.target for disk in stick),
        # As with virtual machines, only the disk to install on is booted from.
        boot_disks=(node.device(node.root_index),),
        console_log=str(layout.console_log(node)),
        console_socket=str(layout.console_socket(node)),
        uid_base=first_user(layout.root.name, index),
    )


def _stick(node: NodeSpec, layout: Layout) -> tuple[DiskSpec, ...]:
    """Describe the USB stick, which comes after the machine's own disks."""
    if layout.topology.boot not in FROM_STICK:
        return ()
    target = kernel_names((*node.all_disks, Disk(bus="usb")))[-1]
    size = disks.STICK_GIB << 30
    return (DiskSpec(target=target, path=str(layout.stick(node)), size=size, serial=disks.STICK_SERIAL, bus="usb"),)


def define(layout: Layout) -> dict[str, str]:
    """Write the descriptions of all machines, which are off; returns their UUIDs by name."""
    uuids = {}
    for index, node in enumerate(layout.topology.nodes):
        spec = machine_spec(node, layout, index)
        folder = layout.machines / node.name
        folder.mkdir()
        spec.save(folder)
        uuids[node.name] = spec.uuid
    return uuids


def reap() -> list[str]:
    """Remove the remains of dead labs, their machines' control groups too; returns a line for each.

    A lab removes its groups itself when it ends, unless the process that does so is killed too.
    """
    return records.reap(_remove_groups)


def _remove_groups(lab_id: str) -> str:
    """Remove a dead lab's groups; returns the reason if that fails."""
    command = [sys.executable, "-m", "lab.machines.container.reaper", lab_id]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return f"its control groups could not be removed within {_REAP_SECONDS} s"
    last = ended.stderr.strip().rpartition("\n")[2]
    return f"its control groups cannot be removed: {last}" if ended.returncode else ""
