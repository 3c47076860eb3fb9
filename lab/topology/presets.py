"""Topologies by name: sno, compact, ha, arbiter, fencing, four, five; then -ipv6 or -dual, -dhcp, -bios, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address
from itertools import product
from typing import Literal, Protocol, get_args

from lab.topology.model import MACHINE_NETWORK, Addressing, Topology
from lab.topology.networks import Network
from lab.topology.nics import Nic
from lab.topology.nodes import Firmware, NodeSpec, Role

Stack = Literal["ipv4", "ipv6", "dual"]


class Shape(Protocol):
    """Makes a preset."""

    def __call__(
        self, addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4"
    ) -> Topology:
        """Return the preset in one of its variants."""


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
    """Return the addresses of the host with this number in its networks."""
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


def _shape(name: str, masters: int, workers: int = 0, arbiters: int = 0) -> Shape:
    """Return a function that makes a preset of so many machines."""
    memory = SNO_MIB if masters == 1 else MASTER_MIB

    def make(addressing: Addressing = "static", firmware: Firmware = "uefi", stack: Stack = "ipv4") -> Topology:
        nodes = _nodes(masters, workers, addressing, firmware, stack=stack, arbiters=arbiters, master_mib=memory)
        return _topology(name, addressing, stack, nodes)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The preset `{name}` (docs/topology.md)."
    return make


#: One node that is control plane and worker, on platform none. All others are on baremetal; without workers, masters
#: run workloads too.
sno = _shape("sno", 1)
compact = _shape("compact", 3)
ha = _shape("ha", 3, 2)
#: The arbiter only votes in etcd.
arbiter = _shape("arbiter", 2, arbiters=1)
#: Two masters that fence each other through their BMCs.
fencing = _shape("fencing", 2)
four = _shape("four", 4)
five = _shape("five", 5)

SHAPES: dict[str, Shape] = {
    "sno": sno, "compact": compact, "ha": ha, "arbiter": arbiter, "fencing": fencing, "four": four, "five": five,
}  # fmt: skip


def _presets() -> dict[str, Callable[[], Topology]]:
    presets: dict[str, Callable[[], Topology]] = {}
    for name, make in SHAPES.items():
        for stack, addressing, firmware in product(get_args(Stack), get_args(Addressing), get_args(Firmware)):
            words = (stack, addressing, firmware)
            suffix = "".join(f"-{word}" for word in words if word not in ("ipv4", "static", "uefi"))
            presets[name + suffix] = partial(make, addressing, firmware, stack)
    return presets


PRESETS = _presets()
#: The presets' names, for people.
PATTERN = f"{{{','.join(SHAPES)}}}[-ipv6|-dual][-dhcp][-bios]"
