"""Faults as data: a lab begins and ends them, and records their times in phases.json.

    with lab.fault(Hang("dnsmasq")), lab.fault(LinkDown("worker-0")):
        ...

They are plain structs, so scenarios are parametrised with them (scenarios/catalogue/faults/) and `node0-lab fault`
keeps them in a file. A fault holds no state of its own: whoever has the lab and the same data can end it.
"""

from lab.faults.daemons import (
    BmcUnready,
    Crash,
    DhcpWrong,
    Hang,
    NameMissing,
    NameWrong,
    Outage,
    ProxyRefuses,
    RegistryCertificate,
    RegistryImage,
    RegistryRefuses,
    RogueDhcp,
)
from lab.faults.disks import DiskErrors, DiskSlow
from lab.faults.guests import GuestHung, GuestStarved
from lab.faults.impairments import Corrupted, Duplicated, Latency, Reordered, Throttle
from lab.faults.machines import ClockJump, DiskFull, Freeze, Kill, MemoryTaken, Panic, PowerCut, Reset
from lab.faults.network import BlackHole, Duplicate, LinkDown, Loss, NamesSlow, Partition
from lab.faults.ports import Flapping, Swapped, WrongVlan

Fault = (
    BlackHole
    | BmcUnready
    | ClockJump
    | Corrupted
    | Crash
    | DhcpWrong
    | DiskErrors
    | DiskFull
    | DiskSlow
    | Duplicate
    | Duplicated
    | Flapping
    | Freeze
    | GuestHung
    | GuestStarved
    | Hang
    | Kill
    | Latency
    | LinkDown
    | Loss
    | MemoryTaken
    | NameMissing
    | NameWrong
    | NamesSlow
    | Outage
    | Panic
    | Partition
    | PowerCut
    | ProxyRefuses
    | RegistryCertificate
    | RegistryImage
    | RegistryRefuses
    | Reordered
    | Reset
    | RogueDhcp
    | Swapped
    | Throttle
    | WrongVlan
)

__all__ = [
    "BlackHole",
    "BmcUnready",
    "ClockJump",
    "Corrupted",
    "Crash",
    "DhcpWrong",
    "DiskErrors",
    "DiskFull",
    "DiskSlow",
    "Duplicate",
    "Duplicated",
    "Fault",
    "Flapping",
    "Freeze",
    "GuestHung",
    "GuestStarved",
    "Hang",
    "Kill",
    "Latency",
    "LinkDown",
    "Loss",
    "MemoryTaken",
    "NameMissing",
    "NameWrong",
    "NamesSlow",
    "Outage",
    "Panic",
    "Partition",
    "PowerCut",
    "ProxyRefuses",
    "RegistryCertificate",
    "RegistryImage",
    "RegistryRefuses",
    "Reordered",
    "Reset",
    "RogueDhcp",
    "Swapped",
    "Throttle",
    "WrongVlan",
]
