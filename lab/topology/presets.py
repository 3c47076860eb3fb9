"""Topologies by name: sno, compact, ha, arbiter, fencing, four, five; then -ipv6 or -dual, -dhcp, -bios, in order."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Literal, get_args

from lab.topology.choices import Addressing
from lab.topology.model import MACHINE_NETWORK, Topology
from lab.topology.networks import Network
from lab.topology.nics import Nic
from lab.topology.nodes import Firmware, NodeSpec, Role

Stack = Literal["ipv4", "ipv6", "dual"]
Shape = Callable[[Addressing, Firmware, Stack], Topology]

# Emulated CPUs of one machine slow each other down. Only node0, which also runs the bootstrap, gains from a second one.
NODE0_VCPU = 2
OTHER_VCPU = 1
# Memory of the presets' machines, in MiB.
SNO_MIB = 4096
MASTER_MIB = 4096
WORKER_MIB = 3072
ARBITER_MIB = 2560
# The external network of dev-scripts (reference/lab.md §1.1).
MACHINE_NETWORK6 = "fd2e:6f44:5dd8:c956::/120"
_BASE6 = IPv6Address("fd2e:6f44:5dd8:c956::")
API, INGRESS = 5, 4


def _addresses(stack: Stack, last: int) -> tuple[str, ...]:
    """The addresses of the host with this number in its networks."""
    four, six = f"192.168.111.{last}", str(_BASE6 + last)
    return {"ipv4": (four,), "ipv6": (six,), "dual": (four, six)}[stack]


def _nodes(
    masters: int,
    workers: int,
    addressing: Addressing,
    firmware: Firmware,
    *,
    stack: Stack,
    arbiters: int = 0,
    master_mib: int = MASTER_MIB,
) -> tuple[NodeSpec, ...]:
    # As in dev-scripts: static hosts from .80, DHCP reservations from .20 (reference/lab.md §1.1).
    base = 80 if addressing == "static" else 20
    roles: list[tuple[str, Role, int]] = [(f"master-{i}", "master", master_mib) for i in range(masters)]
    roles += [(f"arbiter-{i}", "arbiter", ARBITER_MIB) for i in range(arbiters)]
    roles += [(f"worker-{i}", "worker", WORKER_MIB) for i in range(workers)]
    nodes = []
    for index, (name, role, memory) in enumerate(roles):
        mac, addresses = f"52:54:00:6e:30:{index:02x}", _addresses(stack, base + index)
        node = NodeSpec(
            name=name,
            role=role,
            mac=mac,
            ip=addresses[0],
            nics=(Nic(mac=mac, addresses=addresses),) if len(addresses) > 1 else (),
            vcpu=OTHER_VCPU if index else NODE0_VCPU,
            memory_mib=memory,
            firmware=firmware,
        )
        nodes.append(node)
    return tuple(nodes)


def _topology(name: str, addressing: Addressing, stack: Stack, nodes: tuple[NodeSpec, ...]) -> Topology:
    """On platform none with one node, else on baremetal with virtual IPs of each family."""
    alone = len(nodes) == 1
    dhcp = addressing == "dhcp"
    both = Network(
        name="lab", ipv4=MACHINE_NETWORK, ipv6=MACHINE_NETWORK6, dhcp=dhcp, dhcpv6=dhcp, router_advertisements=dhcp
    )
    return Topology(
        name=name,
        addressing=addressing,
        machine_network=MACHINE_NETWORK6 if stack == "ipv6" else MACHINE_NETWORK,
        networks=(both,) if stack == "dual" else (),
        platform="none" if alone else "baremetal",
        nodes=nodes,
        api_vips=() if alone else _addresses(stack, API),
        ingress_vips=() if alone else _addresses(stack, INGRESS),
    )


def sno(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """One node that is control plane and worker; platform none."""
    return _topology("sno", addressing, stack, _nodes(1, 0, addressing, firmware, stack=stack, master_mib=SNO_MIB))


def compact(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Three masters that run workloads too; platform baremetal."""
    return _topology("compact", addressing, stack, _nodes(3, 0, addressing, firmware, stack=stack))


def ha(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Three masters and two workers; platform baremetal."""
    return _topology("ha", addressing, stack, _nodes(3, 2, addressing, firmware, stack=stack))


def arbiter(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Two masters that run workloads too, and an arbiter, which only votes in etcd; platform baremetal."""
    return _topology("arbiter", addressing, stack, _nodes(2, 0, addressing, firmware, stack=stack, arbiters=1))


def fencing(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Two masters that run workloads too and fence each other through their BMCs; platform baremetal."""
    return _topology("fencing", addressing, stack, _nodes(2, 0, addressing, firmware, stack=stack))


def four(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Four masters that run workloads too; platform baremetal."""
    return _topology("four", addressing, stack, _nodes(4, 0, addressing, firmware, stack=stack))


def five(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
    """Five masters that run workloads too; platform baremetal."""
    return _topology("five", addressing, stack, _nodes(5, 0, addressing, firmware, stack=stack))


SHAPES: dict[str, Shape] = {
    "sno": sno,
    "compact": compact,
    "ha": ha,
    "arbiter": arbiter,
    "fencing": fencing,
    "four": four,
    "five": five,
}


def _presets() -> dict[str, Callable[[], Topology]]:
    def preset(make: Shape, a: Addressing, f: Firmware, s: Stack) -> Callable[[], Topology]:
        return lambda: make(a, f, s)

    out: dict[str, Callable[[], Topology]] = {}
    for name, make in SHAPES.items():
        for stack in get_args(Stack):
            for addressing in get_args(Addressing):
                for firmware in get_args(Firmware):
                    words = (stack, addressing, firmware)
                    suffix = "".join(f"-{word}" for word in words if word not in ("ipv4", "static", "uefi"))
                    out[name + suffix] = preset(make, addressing, firmware, stack)
    return out


PRESETS = _presets()
#: The presets' names, for people.
PATTERN = f"{{{','.join(SHAPES)}}}[-ipv6|-dual][-dhcp][-bios]"
