"""Terminal output: a lab's machines, and an interactive serial line until Ctrl-]."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import termios
import tty
from pathlib import Path

from lab.host.records import Record
from lab.layout import Layout
from lab.topology import Network, NodeSpec, Topology

_LEAVE = b"\x1d"


def connect_console(path: Path, recent: bytes = b"") -> int:
    """Connect the terminal to the serial line at `path`, after showing `recent`.

    Returns 0 when the user left, 1 when the line was closed.
    """
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(path))
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(keyboard) if os.isatty(keyboard) else None
    os.write(screen, recent)
    try:
        if before is not None:
            tty.setraw(keyboard)
        with line, selectors.SelectSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            selector.register(keyboard, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is line:
                        data = line.recv(4096)
                        if not data:
                            return 1
                        os.write(screen, data)
                    else:
                        typed = os.read(keyboard, 1024)
                        if not typed or _LEAVE in typed:
                            return 0
                        line.sendall(typed)
    finally:
        if before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def describe(record: Record) -> None:
    """Print a line for each machine of a lab."""
    for node in record.topology.nodes:
        sizes = "+".join(str(disk.size_gib) for disk in node.all_disks)
        size = f"{node.vcpu} vCPU {node.memory_mib} MiB {sizes} GiB {node.firmware}"
        print(f"  {node.name:<10} {node.ip:<16} {node.mac}  {size}  {record.machines.get(node.name, '')}")
        if node.nics:
            for line in nics(record.topology, node):
                print(f"    {line}")


def nics(topology: Topology, node: NodeSpec) -> list[str]:
    """Return a line for each NIC or bond of a machine: where it is attached."""
    lines = []
    for link in topology.links(node):
        ends = [link.network.name] if link.network else []
        ends += [f"{network.name} (VLAN {network.vlan})" for network in link.trunk]
        bond = f" {link.bond.mode} of {'+'.join(nic.name for nic in link.nics)}" if link.bond else ""
        addresses = ": " + " ".join(text for text, _ in link.addresses) if link.addresses else ""
        lines.append(f"{link.name}{bond} {link.mac} in {', '.join(ends)}{addresses}")
    return lines


def describe_networks(layout: Layout) -> None:
    """Print a line for each network of a lab."""
    for network in layout.topology.all_networks:
        print(f"  network   {network.name}: {layout.bridge(network)}, {', '.join(_features(network))}")


def _features(network: Network) -> list[str]:
    features = {
        f"VLAN {network.vlan}": network.vlan, f"MTU {network.mtu}": network.mtu != 1500, "DHCP": network.dhcp,
        "DHCPv6": network.dhcpv6, "router advertisements": network.router_advertisements, "BMCs": network.bmc,
    }  # fmt: skip
    return [*network.lab_addresses, *(text for text, is_set in features.items() if is_set)]
