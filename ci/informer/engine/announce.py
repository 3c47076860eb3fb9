"""A host's announcement of itself, as numbers that Dask calls resources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from ci.informer.engine.unit import ROOT, Unit
from lab.errors import LabError
from lab.host import budget, kvm
from lab.host.paths import labs_dir
from lab.host.preflight import container_problems
from lab.subject.options import here

MIB, VCPU, GIB = "MiB", "vCPU", "GiB"
#: Whether machines of a kind can run, and virtual ones with KVM.
CONTAINER, KVM = "container", "kvm"
#: Prefixes of a host's code version, and of the digest of each release that it need not copy.
VERSION, RELEASE = "version:", "release:"


@cache
def version() -> str:
    """Return the version of the code that makes runs; hosts with another version get no units.

    It is a hash of the code of scenarios, lab, drivers, installer and informers, read once a process.
    """
    total = hashlib.sha256(metadata.version("distributed").encode())
    for room in ("ci/informer", "drivers", "installer", "lab", "scenarios"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".sh", ".service") and "tests" not in path.parts and path.is_file():
                total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def announced(most: budget.Amount | None = None, labs: Path | None = None) -> dict[str, float]:
    """Count what this machine has for labs (`most`: no more than that), and what it can run."""
    room = budget.capacity(labs or labs_dir())
    if most is not None:
        room = budget.Amount(min(room.mib, most.mib), min(room.vcpu, most.vcpu), min(room.disk_gib, most.disk_gib))
    has: dict[str, float] = {MIB: room.mib, VCPU: room.vcpu, GIB: room.disk_gib, VERSION + version(): 1}
    if not container_problems():
        has[CONTAINER] = 1
    try:
        has[KVM] = float(kvm.probe().usable)
    except LabError:
        has[KVM] = 0.0
    return has


def releases() -> dict[str, float]:
    """Return the releases that are on this machine already."""
    return {RELEASE + digest: 1 for digest in here()}


def amount(has: Mapping[str, float]) -> budget.Amount:
    """Return the resources, of what a host announced, that units take and give back."""
    return budget.Amount(int(has.get(MIB, 0)), int(has.get(VCPU, 0)), int(has.get(GIB, 0)))


def version_differs(has: Mapping[str, float]) -> bool:
    """Tell whether a host that announced this has code of another version than this."""
    return VERSION + version() not in has


def why_not(unit: Unit, has: Mapping[str, float]) -> str:
    """Return the reason why a host that announced this can never run a unit; empty when it can.

    Too few processors make a lab slow, not impossible (lab.host.budget).
    """
    if version_differs(has):
        theirs = next((name.removeprefix(VERSION) for name in has if name.startswith(VERSION)), "none")
        return f"its code is of version {theirs}, this is {version()}: update it"
    if unit.machines == "container" and not has.get(CONTAINER):
        return "it cannot run container machines"
    if unit.kvm and not has.get(KVM):
        return "it has no KVM"
    short = [what for what in unit.needs.short(amount(has)) if what != "vCPUs"]
    return f"too little {' and '.join(short)}: {unit.needs} wanted, {amount(has)} there" if short else ""
