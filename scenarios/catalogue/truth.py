"""The truth of a case of diagnosis: the causes that a row injects, and the path from each to what a user sees.

It is made of the row's faults alone, never of what a message says (docs/faults.md has the vocabulary and the format).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from installer.common.formats import YamlError, yamltext
from lab.faults import Fault
from lab.faults.moments import Moment
from lab.topology import Topology
from scenarios.catalogue.faulty import Row
from scenarios.catalogue.simulated import Simulated, StepFails, Unlike

FILE = "truth.yaml"
#: Kind of cause, by the fault's type; of hosts, unless the component is in SERVERS.
_HOSTS = {
    **dict.fromkeys(
        ("LinkDown", "PowerCut", "Reset", "GuestHung", "WrongVlan", "Panic", "Flapping", "Swapped"), "host-lost"
    ),
    "Apart": "host-apart",
    "Cloned": "same-identity",
    "ClockOff": "clock",
    "ClockJump": "clock",
    "DiskErrors": "disk-error",
}
_SERVERS = {
    "NameMissing": ("name-unknown", "dns"),
    "NameWrong": ("name-wrong", "dns"),
    "RegistryRefuses": ("registry-refuses", "registry"),
    "RegistryCertificate": ("registry-certificate", "registry"),
    "RegistryImage": ("registry-image", "registry"),
    "ProxyRefuses": ("proxy-refuses", "proxy"),
}
_OUTAGES = {"registry": "registry-lost", "dnsmasq": "dns-lost", "proxy": "proxy-lost", "chronyd": "clock"}
#: Kind of cause, by what is unlike in a host; and by the step that fails.
_UNLIKE = {"memory_mib": "memory", "cpus": "processors", "disk_gb": "disk-size", "mac": "other-machine"}
_STEPS = {
    "inventory": "inventory",
    "install": "installer-ended",
    "installation-disk-speed-check": "disk-error",
}
#: Where a cause first shows, by its kind; any other before the installation fails a validation.
_SHOWN_IN = {"host-lost": "registration", "same-identity": "registration", "other-machine": "registration"}
_PREPARES = frozenset({"registry-image", "registry-refuses", "registry-certificate", "disk-error", "installer-ended"})


class Cause(msgspec.Struct, frozen=True, order=True):
    """A kind of fault, and the host or server that has it."""

    kind: str
    component: str


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """A case's causes, the path of each (component, phase, cluster), and the names and addresses of its hosts."""

    case: str
    causes: list[Cause]
    paths: list[list[str]]
    hosts: dict[str, str]


def _of(fault: Fault | Simulated) -> Iterator[tuple[str, str]]:
    name, data = type(fault).__name__, msgspec.to_builtins(fault)
    if isinstance(fault, Unlike):
        yield from ((kind, fault.node) for field, kind in _UNLIKE.items() if getattr(fault, field))
        if fault.hostname:
            # By the name that the host has now.
            yield "hostname", fault.hostname
    elif isinstance(fault, StepFails):
        yield _STEPS[fault.step], fault.node
    elif name in ("Kill", "Freeze"):
        lost = data["process"] in ("agent", "assisted-service")
        yield "host-lost" if lost else "installer-ended" if name == "Kill" else "installer-hung", data["node"]
    elif name == "Partition":
        yield from (("host-lost", node) for node in data["nodes"])
    elif name == "Duplicate":
        yield "address-taken", data["address"]
    elif name in ("Outage", "Hang") and data["service"] in _OUTAGES:
        yield _OUTAGES[data["service"]], {"dnsmasq": "dns"}.get(data["service"], data["service"])
    elif name in _SERVERS:
        yield _SERVERS[name]
    elif name in _HOSTS:
        yield _HOSTS[name], data["node"]
    else:
        # Not in the vocabulary yet: no case is made of it.
        raise KeyError(name)


def later(fault: Fault | Simulated) -> bool:
    """Return whether a fault acts only once all hosts are ready."""
    return any(kind in _PREPARES for kind, _ in _of(fault))


def _phase(kind: str, begin: Moment) -> str:
    if begin.stage or begin.status == "installing":
        return "installation"
    if kind in _PREPARES:
        return "preparation"
    if kind == "host-lost" and begin.seconds is None:
        # It had registered.
        return "validation"
    return _SHOWN_IN.get(kind, "validation")


def of(row: Row, topology: Topology) -> Truth | None:
    """Return a row's truth; None where one of its faults has no word in the vocabulary, or it has no fault that lasts.

    A row that completes in spite of its faults has no cause.
    """
    hosts = {node.name: node.ip for node in topology.nodes}
    if row.told is None:
        return Truth(case=row.id, causes=[], paths=[], hosts=hosts)
    try:
        found = sorted({Cause(*pair) for fault in row.faults for pair in _of(fault)})
    except KeyError:
        return None
    if not found:
        return None
    paths = [[cause.component, _phase(cause.kind, row.begin), "cluster"] for cause in found]
    return Truth(case=row.id, causes=found, paths=paths, hosts=hosts)


def leave(row: Row, topology: Topology, folder: Path) -> None:
    """Write a row's truth into the folder of a run's evidence, which becomes a case by that."""
    truth = of(row, topology)
    if truth is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_bytes(msgspec.yaml.encode(truth))


def read(folder: Path) -> Truth:
    """Return the truth of a case. Raises ValueError that names the file and what is wrong."""
    try:
        return msgspec.convert(yamltext.load((folder / FILE).read_bytes()), Truth)
    except (OSError, YamlError, msgspec.ValidationError) as error:
        raise ValueError(f"{folder / FILE}: {' '.join(str(error).split())}") from error


def shown(causes: Any) -> str:
    """Write causes as `kind@component`, in order."""
    return ", ".join(f"{cause.kind}@{cause.component}" for cause in sorted(causes)) or "none"
