"""Faults drawn at random: a seed decides which, when and for how long, always in the same way.

Faults are drawn as rows of faults/*.yaml, so that one which has found a defect can be kept there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import msgspec
import yaml

from lab.faults import (
    BlackHole,
    DiskFull,
    Fault,
    Freeze,
    Hang,
    LinkDown,
    Loss,
    NameMissing,
    Outage,
    RegistryCertificate,
    RegistryImage,
    RegistryRefuses,
    Reset,
)
from lab.faults.moments import Moment
from lab.topology import Topology
from scenarios.catalogue.faulty import Completes, Row

#: Most faults of a seed; percentage of faults that never end.
MOST, FOR_EVER = 3, 12
_IMAGES = ("agent-installer-node-agent", "agent-installer-orchestrator", "etcd", "hyperkube")
# The moment `registered` is that of any host: the one whose agent fails may not have registered yet.
_HOST_FAILS = r"never registered|connect|disconnected|lost|not heard|reach|answer|timeout|timed out"


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how one is drawn, when it can begin, and how long it lasts at most (seconds; 0: over at once).

    `cause` are words one of which names it: a regular expression. `at_rendezvous`: of the rendezvous host, which alone
    has the service and bootstraps.
    """

    draw: Callable[[random.Random, str], Fault]
    moments: Sequence[Callable[[random.Random, str], Moment]]
    lasts: int
    cause: str
    _: KW_ONLY
    may_stay: bool = True
    at_rendezvous: bool = False


def _early(rng: random.Random, _node: str) -> Moment:
    return Moment(seconds=rng.randint(0, 90))


def _registered(_rng: random.Random, _node: str) -> Moment:
    return Moment(event="registered")


def _installing(_rng: random.Random, _node: str) -> Moment:
    return Moment(status="installing")


def _bootkube(_rng: random.Random, node: str) -> Moment:
    return Moment(stage="Waiting for bootkube", host=node)


def _killed(*processes: str) -> Callable[[random.Random, str], Fault]:
    return lambda rng, node: msgspec.convert(
        {"type": "Kill", "node": node, "process": rng.choice(processes)}, type=Fault
    )


_REGISTRY = r"registry|pull|image|x509|certificate|unauthorized|digest|manifest"
_NAMES = r"resol|lookup|no such host|[Nn]ame or service|DNS|registry|api"
_ANY = (_early, _registered, _installing)
#: The kinds, by the names that docs and --help have for them.
KINDS: dict[str, Kind] = {
    "registry-gone": Kind(lambda rng, node: Outage("registry"), _ANY, 120, _REGISTRY),
    "registry-hangs": Kind(lambda rng, node: Hang("registry"), _ANY, 90, _REGISTRY),
    "registry-refuses": Kind(lambda rng, node: RegistryRefuses(), _ANY, 120, _REGISTRY),
    "registry-certificate": Kind(lambda rng, node: RegistryCertificate(), _ANY, 120, _REGISTRY),
    "registry-image": Kind(
        lambda rng, node: RegistryImage(rng.choice(_IMAGES), rng.choice(("absent", "truncated", "wrong", "error"))),
        (_early,),
        120,
        _REGISTRY,
    ),
    "dns-hangs": Kind(lambda rng, node: Hang("dnsmasq"), _ANY, 90, _NAMES),
    "dns-gone": Kind(lambda rng, node: Outage("dnsmasq"), _ANY, 90, _NAMES),
    "name-missing": Kind(lambda rng, node: NameMissing(rng.choice(("api", "api-int", "registry"))), _ANY, 120, _NAMES),
    "ntp-gone": Kind(lambda rng, node: Outage("chronyd"), _ANY, 120, r"ntp|time source|clock"),
    "bmc-gone": Kind(lambda rng, node: Outage("bmc"), (_registered, _installing), 120, r"BMC"),
    "cable": Kind(lambda rng, node: LinkDown(node), _ANY, 60, _HOST_FAILS, may_stay=False),
    "loss": Kind(lambda rng, node: Loss(rng.randint(1, 25)), _ANY, 120, _HOST_FAILS, may_stay=False),
    "mtu": Kind(lambda rng, node: BlackHole(rng.choice((600, 900, 1300, 1400))), _ANY, 90, _HOST_FAILS, may_stay=False),
    "agent-killed": Kind(_killed("agent"), (_registered,), 0, _HOST_FAILS),
    "service-killed": Kind(_killed("assisted-service"), (_registered, _installing), 0, _HOST_FAILS, at_rendezvous=True),
    "cluster-killed": Kind(
        _killed("kubelet", "etcd", "kube-apiserver", "containerd"), (_bootkube,), 0, _HOST_FAILS, at_rendezvous=True
    ),
    "agent-frozen": Kind(lambda rng, node: Freeze(node, "agent"), (_registered,), 120, _HOST_FAILS),
    "service-frozen": Kind(
        lambda rng, node: Freeze(node, "assisted-service"),
        (_registered, _installing),
        60,
        _HOST_FAILS,
        at_rendezvous=True,
    ),
    "reset": Kind(lambda rng, node: Reset(node), (_registered,), 0, _HOST_FAILS),
    "disk-full": Kind(
        lambda rng, node: DiskFull(node, "/var", rng.randint(0, 64)), (_registered,), 60, r"space|disk|full"
    ),
}


@dataclass(frozen=True)
class Drawn:
    """One fault of a seed: a row of its own, its kind, and the words that name it."""

    row: Row
    kind: str
    cause: str


def drawn(seed: int, scenario: str, topology: Topology, only: Sequence[int] = ()) -> tuple[Drawn, ...]:
    """Return the faults of a seed in a scenario: one to three, of different kinds; with `only`, those of them.

    Raises ValueError where `only` names one that the seed has not.
    """
    rng = random.Random(f"{seed} {scenario}")
    faults = []
    for place, name in enumerate(rng.sample(sorted(KINDS), rng.randint(1, MOST))):
        kind = KINDS[name]
        node = rng.choice([candidate.name for candidate in topology.nodes])
        if kind.at_rendezvous:
            node = topology.masters[0].name
        begin = rng.choice(kind.moments)(rng, node)
        stays = rng.randint(1, 100) <= FOR_EVER and kind.may_stay
        end = None if stays or not kind.lasts else Moment(seconds=rng.randint(5, kind.lasts))
        row = Row(
            name=f"chaos_{seed}_{place}",
            scenario=scenario,
            faults=(kind.draw(rng, node),),
            begin=begin,
            end=end,
            why=f"drawn by seed {seed}: {name}",
            completes=Completes(factor=10),
        )
        faults.append(Drawn(row, name, kind.cause))
    if wrong := [place for place in only if place >= len(faults)]:
        raise ValueError(f"seed {seed} has faults 0 to {len(faults) - 1}, not {wrong[0]}")
    return tuple(faults[place] for place in only) if only else tuple(faults)


def as_yaml(rows: Sequence[Row]) -> str:
    """Rows as faults/*.yaml have them."""
    return yaml.safe_dump(msgspec.to_builtins(rows), sort_keys=False, width=120)


def seeds(text: str) -> list[tuple[int, tuple[int, ...]]]:
    """`--chaos`: `17`, `17,23`, `1-50`, and `17:0,2` for two faults of one seed. Raises ValueError."""
    # CHAOS, the pattern of such words in ids, allows no more.
    if re.search(r"\d{10}", text):
        raise ValueError(f"{text!r}: a seed has nine digits at most")
    head, colon, places = text.partition(":")
    try:
        if colon:
            return [(int(head), tuple(int(place) for place in places.split(",")))]
        chosen: list[tuple[int, tuple[int, ...]]] = []
        for part in head.split(","):
            first, dash, last = part.partition("-")
            chosen += [(seed, ()) for seed in range(int(first), int(last if dash else first) + 1)]
    except ValueError:
        raise ValueError(f"{text!r}: want seeds like 17 or 1-50, or faults of one like 17:0,2") from None
    if not chosen:
        raise ValueError(f"{text!r}: no seed")
    return chosen
