"""A running lab as faults and evidence need it. `lab.lab.Lab` implements it, and uses both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from lab.layout import Layout
    from lab.machines.factory import Owner
    from lab.machines.node import Node
    from lab.supervisor.control import Control
    from lab.supervisor.plan import Ended

T = TypeVar("T")


class RunningLab(Protocol):
    """The part of lab.Lab that faults act on and evidence is collected from."""

    @property
    def layout(self) -> Layout:
        """Its files and addresses."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Its machines by name."""

    @property
    def hypervisor(self) -> Owner:
        """Return the owner of its machines: libvirt, or the daemon of container machines."""

    @property
    def services(self) -> Control:
        """Its daemons."""

    @property
    def components(self) -> Mapping[str, str]:
        """The images of the release that its registry serves: names by digest, by tag."""

    def inside(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function within its namespaces."""

    def ended(self) -> list[Ended]:
        """Parts of it that have ended unexpectedly."""

    def kernel_trouble(self) -> dict[str, list[str]]:
        """Kernel error messages on its consoles, by machine."""
