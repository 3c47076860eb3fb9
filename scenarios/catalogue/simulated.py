"""Faults of hosts that are only data: rows with these run in the swarm lane alone (docs/faults.md)."""

from __future__ import annotations

from typing import Literal

import msgspec


class Cloned(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine has the firmware's UUID of another one, and with it the same host id."""

    node: str
    of: str


class Replayed(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A fault by which agents' reports come twice, the second time after what they have sent since."""


class Apart(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A host reaches the service, and no other host reaches it or is reached by it: it is in another VLAN."""

    node: str


class SlowDisk(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The disk of a host takes `ms` milliseconds to keep what is written."""

    node: str
    ms: int


class ClockOff(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The clock of a host is `seconds` ahead."""

    node: str
    seconds: int


class Unlike(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True, kw_only=True):
    """A host's inventory is another one: its hostname, memory (MiB), processors, disk (GB), or its MAC address."""

    node: str
    hostname: str = ""
    memory_mib: int = 0
    cpus: int = 0
    disk_gb: int = 0
    mac: str = ""


class StepFails(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A step of the agent on a host fails with these words, or what it answers is no answer."""

    node: str
    step: str
    error: str = ""
    how: Literal["fails", "nonsense", "silent"] = "fails"


Simulated = Apart | ClockOff | Cloned | Replayed | SlowDisk | StepFails | Unlike
