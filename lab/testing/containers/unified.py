"""A firmware for tests: `plain`, on a host whose controllers cgroup v1 has, as if it had cgroup2 alone.

Whose firmware this is has the hierarchy of cgroup2 used, which is real, but without the controllers that it lacks.
"""

from lab.machines.container.kernel import cgroups
from lab.testing.containers.plain import boot

__all__ = ["boot", "pretend"]


def pretend() -> None:
    """Have this process take its host for one with cgroup2 alone."""
    cgroups.controllers = lambda cgroups: []
    cgroups.UNIFIED = ("hugetlb",)
    cgroups.unified_limits = lambda memory_mib, vcpus: {"cgroup.max.depth": "40"}
    cgroups.Group.memory_used = lambda self: 0  # type: ignore[method-assign]


pretend()
