"""Racks of virtual bare metal on one Linux machine: see docs/architecture.md.

`Lab` and `Topology` are imported when they are first asked for: programs of lab.release run where no hypervisor is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.lab import Lab
    from lab.topology import Topology

__all__ = ["Lab", "Topology"]


def __getattr__(name: str) -> Any:
    if name == "Lab":
        from lab.lab import Lab

        return Lab
    if name == "Topology":
        from lab.topology import Topology

        return Topology
    raise AttributeError(f"module 'lab' has no attribute {name!r}")
