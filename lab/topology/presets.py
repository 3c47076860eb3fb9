"""Topologies by name: sno, compact, ha, with -dhcp or -bios appended."""

from __future__ import annotations

from collections.abc import Callable

from lab.topology.model import Addressing, Topology
from lab.topology.nodes import Firmware, NodeSpec, Role

# Emulated CPUs of one machine slow each other down. Only node0, which also runs the bootstrap, gains from a second one.
NODE0_VCPU = 2
OTHER_VCPU = 1
# Memory of the presets' machines, in MiB.
SNO_MIB = 4096
MASTER_MIB = 4096
WORKER_MIB = 3072


def _nodes(
    masters: int, workers: int, addressing: Addressing, firmware: Firmware, *, master_mib: int = MASTER_MIB
) -> tuple[NodeSpec, ...]:
    # As in dev-scripts: static hosts from .80, DHCP reservations from .20 (reference/lab.md §1.1).
    base = 80 if addressing == "static" else 20
    roles: list[tuple[str, Role, int]] = [(f"master-{i}", "master", master_mib) for i in range(masters)]
    roles += [(f"worker-{i}", "worker", WORKER_MIB) for i in range(workers)]
    return tuple(
        NodeSpec(
            name=name,
            role=role,
            mac=f"52:54:00:6e:30:{index:02x}",
            ip=f"192.168.111.{base + index}",
            vcpu=OTHER_VCPU if index else NODE0_VCPU,
            memory_mib=memory,
            firmware=firmware,
        )
        for index, (name, role, memory) in enumerate(roles)
    )


def sno(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """One node that is control plane and worker; platform none."""
    return Topology(name="sno", addressing=addressing, nodes=_nodes(1, 0, addressing, firmware, master_mib=SNO_MIB))


def compact(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """Three masters that run workloads too; platform baremetal."""
    nodes = _nodes(3, 0, addressing, firmware)
    return _baremetal("compact", addressing, nodes)


def ha(addressing: Addressing = "static", firmware: Firmware = "uefi") -> Topology:
    """Three masters and two workers; platform baremetal."""
    nodes = _nodes(3, 2, addressing, firmware)
    return _baremetal("ha", addressing, nodes)


def _baremetal(name: str, addressing: Addressing, nodes: tuple[NodeSpec, ...]) -> Topology:
    return Topology(
        name=name,
        addressing=addressing,
        platform="baremetal",
        nodes=nodes,
        api_vip="192.168.111.5",
        ingress_vip="192.168.111.4",
    )


def _presets() -> dict[str, Callable[[], Topology]]:
    def preset(make: Callable[[Addressing, Firmware], Topology], a: Addressing, f: Firmware) -> Callable[[], Topology]:
        return lambda: make(a, f)

    out: dict[str, Callable[[], Topology]] = {}
    shapes: dict[str, Callable[[Addressing, Firmware], Topology]] = {"sno": sno, "compact": compact, "ha": ha}
    addressings: tuple[tuple[str, Addressing], ...] = (("", "static"), ("-dhcp", "dhcp"))
    firmwares: tuple[tuple[str, Firmware], ...] = (("", "uefi"), ("-bios", "bios"))
    for name, make in shapes.items():
        for a_suffix, addressing in addressings:
            for f_suffix, firmware in firmwares:
                out[name + a_suffix + f_suffix] = preset(make, addressing, firmware)
    return out


PRESETS = _presets()
