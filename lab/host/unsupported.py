"""Wishes of a topology that a lab on this host cannot fulfil: a line each, with the field and a remedy."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

from lab.buses import BUSES
from lab.topology import NodeSpec, Topology

_VIRTUAL = re.compile(r"^(enp[1-9][0-9]?s0|eno[1-9][0-9]{0,3})$")
_SECONDS = 10


def host_has(kind: str) -> bool:
    """Return whether this host's kernel makes interfaces of a kind (ip-link(8)), tried in a namespace of its own."""
    over = ["link", "lo"] if kind == "vlan" else []
    rest = ["id", "2"] if kind == "vlan" else []
    words = ["unshare", "--net", "ip", "link", "add", *over, "name", "try0", "type", kind, *rest]
    try:
        return subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def unsupported(topology: Topology, has: Callable[[str], bool] = host_has) -> list[str]:
    """Everything that a topology asks for and this host cannot make. `has` says whether the host's kernel, which is
    that of container machines, has a kind of interface."""
    find = _of_containers if topology.machine == "container" else _of_vms
    lines = []
    for index, node in enumerate(topology.nodes):
        lines += [f"nodes[{index}].{line}" for line in find(node)]
    if topology.machine == "container":
        lines += _of_the_kernel(topology, has)
    return lines


def _of_containers(node: NodeSpec) -> Iterator[str]:
    if node.secure_boot:
        yield "secure_boot: the firmware of container machines looks at no signature; use machine: vm"
    if node.tpm:
        yield "tpm: container machines have none; use machine: vm"
    for index, disk in enumerate(node.disks):
        if isinstance(reason := BUSES[disk.bus].containers, str):
            yield f"disks[{index}].bus: {disk.bus}, but {reason}; use machine: vm"
    if node.clock_offset:
        yield f"clock_offset: {node.clock_offset}, but the clock of container machines is the host's; use machine: vm"


def _of_vms(node: NodeSpec) -> Iterator[str]:
    for path, mac in node.mac_fields:
        if mac.startswith("fe:"):
            # virnetdevtap.c: the lab's end of a cable has its NIC's address with fe in front.
            yield f"{path}: {mac}, but libvirt keeps what begins with fe for the other ends of cables; use 52 or 02"
    for index, nic in enumerate(node.nics):
        named = nic.at(index)
        if not _VIRTUAL.fullmatch(named.name):
            rule = (
                "a virtual machine's kernel names its NICs enpNs0 (by pci) or enoN; use machine: container for others"
            )
            yield f"nics[{index}].name: {named.name}: {rule}"
        elif named.name.startswith("enp") and named.name != f"enp{named.pci}s0":
            yield f"nics[{index}].name: {named.name}, but on bus {named.pci} it is enp{named.pci}s0; set pci instead"


def _of_the_kernel(topology: Topology, has: Callable[[str], bool]) -> Iterator[str]:
    """Bonds and VLANs of machines are made by their kernel."""
    wanted: dict[str, str] = {}
    for index, node in enumerate(topology.nodes):
        for number, _ in enumerate(node.bonds):
            wanted.setdefault("bond", f"nodes[{index}].bonds[{number}]")
        for number, link in enumerate((*node.nics, *node.bonds)):
            if link.trunk:
                path = f"nics[{number}]" if number < len(node.nics) else f"bonds[{number - len(node.nics)}]"
                wanted.setdefault("vlan", f"nodes[{index}].{path}.trunk")
    names = {"bond": "bonds (CONFIG_BONDING)", "vlan": "tagged networks (CONFIG_VLAN_8021Q)"}
    for kind, path in wanted.items():
        if not has(kind):
            yield f"{path}: this host's kernel, which container machines use, has no {names[kind]}; use machine: vm"
