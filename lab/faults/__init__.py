"""Faults as data: a lab begins and ends them, and records their times in phases.json.

    with lab.fault(Hang("dnsmasq")), lab.fault(LinkDown("worker-0")):
        ...

They are plain structs, so scenarios are parametrised with them (scenarios/catalogue/faults/) and `node0-lab fault`
keeps them in a file. A fault holds no state of its own: whoever has the lab and the same data can end it.
"""

from lab.faults.daemons import (
    Hang,
    NameMissing,
    NameWrong,
    Outage,
    RegistryCertificate,
    RegistryImage,
    RegistryRefuses,
)
from lab.faults.machines import DiskFull, Freeze, Kill, PowerCut, Reset
from lab.faults.network import BlackHole, Duplicate, Latency, LinkDown, Loss, Partition, Throttle

Fault = (
    BlackHole
    | DiskFull
    | Duplicate
    | Freeze
    | Hang
    | Kill
    | Latency
    | LinkDown
    | Loss
    | NameMissing
    | NameWrong
    | Outage
    | Partition
    | PowerCut
    | RegistryCertificate
    | RegistryImage
    | RegistryRefuses
    | Reset
    | Throttle
)

__all__ = [
    "BlackHole",
    "DiskFull",
    "Duplicate",
    "Fault",
    "Freeze",
    "Hang",
    "Kill",
    "Latency",
    "LinkDown",
    "Loss",
    "NameMissing",
    "NameWrong",
    "Outage",
    "Partition",
    "PowerCut",
    "RegistryCertificate",
    "RegistryImage",
    "RegistryRefuses",
    "Reset",
    "Throttle",
]
