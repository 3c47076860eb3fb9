"""A process' share of a running lab: the watch over its parts, threads in its namespaces, its hypervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drivers.errors import DriverError
from lab.cleanup import Step, finish
from lab.errors import LabGoneError
from lab.host.namespaces import NamespaceThreads
from lab.layout import Layout
from lab.machines.factory import Owner, owner
from lab.supervisor.plan import Ended
from lab.supervisor.watch import Watch

T = TypeVar("T")


class Connection:
    """The ties of this process to the lab `lab_id`: none until `open`, none after `closing`."""

    def __init__(self, lab_id: str) -> None:
        self._id = lab_id
        self._watch: Watch | None = None
        self._threads: NamespaceThreads | None = None
        self._hypervisor: Owner | None = None
        self._ended: list[Ended] = []
        self._why_none = f"lab {lab_id} is not running"

    def open(self, layout: Layout, supervisor: int, init: int, *, watched: bool = True) -> None:
        """Tie this process to the lab with these processes. Raises LabGoneError; what is tied then, `closing` ends.

        One that is not `watched` is used though parts of it have ended, even what owns its machines.
        """
        try:
            self._watch = Watch(self._id, layout.root, supervisor) if watched else None
        except ProcessLookupError as error:
            raise LabGoneError(f"lab {self._id} has ended") from error
        self._threads = NamespaceThreads(init)
        try:
            self._hypervisor = owner(layout)
        except DriverError as error:
            if watched:
                raise
            self._why_none = str(error)

    @property
    def hypervisor(self) -> Owner:
        """Return the owner of the lab's machines: its libvirt, or the daemon of container machines."""
        if self._hypervisor is None:
            raise LabGoneError(self._why_none)
        return self._hypervisor

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return the result of `function(*args, **kwargs)`, run by a thread in the lab's namespaces."""
        if self._threads is None:
            raise LabGoneError(f"lab {self._id} is not running")
        return self._threads.call(function, *args, **kwargs)

    def ended(self) -> list[Ended]:
        """Parts of the lab that have ended unexpectedly; after `end_watch`, those that had until then."""
        return self._watch.ended() if self._watch is not None else self._ended

    def check(self) -> None:
        """Raise DaemonEndedError when the lab itself has failed."""
        if self._watch is not None:
            self._watch.check()

    def closing(self) -> tuple[Step, ...]:
        """Return the steps that untie this process; each is independent and idempotent."""
        return (
            ("end the watch", self.end_watch),
            ("leave libvirt", self.leave_hypervisor),
            ("leave the lab's namespaces", self.leave_namespaces),
        )

    def close(self) -> None:
        """All steps of `closing`: no thread of this process stays in the lab."""
        finish(*self.closing())

    def end_watch(self) -> None:
        """Watch no more, and remember what has been seen."""
        watch, self._watch = self._watch, None
        if watch is not None:
            self._ended = watch.ended()
            watch.close()

    def leave_hypervisor(self) -> None:
        """End the connection to libvirt or the daemon of container machines."""
        hypervisor, self._hypervisor = self._hypervisor, None
        if hypervisor is not None:
            hypervisor.close()

    def leave_namespaces(self) -> None:
        """End the threads in the lab's namespaces."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()
