"""Pools and their nodes, as pure functions: which pool a node is in, which node is next, what a pool says of them
(reference/machine-configs.md §1, §2)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from lab.release.cluster.ignition.machineconfig import PREFIX, matches
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import is_status, put

CURRENT, DESIRED = f"{PREFIX}/currentConfig", f"{PREFIX}/desiredConfig"
STATE, REASON = f"{PREFIX}/state", f"{PREFIX}/reason"
DESIRED_DRAIN, APPLIED_DRAIN = f"{PREFIX}/desiredDrain", f"{PREFIX}/lastAppliedDrain"
#: What keeps the drain of a node from going on; the controller writes it.
HELD = f"{PREFIX}/drain-held-by"
DONE, WORKING = "Done", "Working"
DEGRADED, UNRECONCILABLE = "Degraded", "Unreconcilable"
_FAILING = (DEGRADED, UNRECONCILABLE)
#: Pools whose nodes are in no other, whatever their labels.
_OWN = ("master", "arbiter")


def notes(node: Object) -> dict[str, str]:
    """Return a node's annotations."""
    return node["metadata"].get("annotations") or {}


def candidate_pools(node: Object, pools: Iterable[Object]) -> list[str]:
    """Return the names of the pools that would configure a node: master or arbiter, else its custom pools, else worker.
    More than one is a mistake, and then none does (reference/machine-configs.md §1)."""
    labels = node["metadata"].get("labels") or {}
    names = [str(p["metadata"]["name"]) for p in pools if matches(p["spec"].get("nodeSelector"), labels)]
    own = [name for name in names if name in _OWN]
    custom = [name for name in names if name not in (*_OWN, "worker")]
    return own[:1] or custom or names


def primary(node: Object, pools: Iterable[Object]) -> str:
    """Return the name of the pool that configures a node; empty for a node of no pool, and of two custom ones."""
    chosen = candidate_pools(node, pools)
    return chosen[0] if len(chosen) == 1 else ""


def max_unavailable(pool: Object, count: int) -> int:
    """Return how many of a pool's nodes may be away at once: a number or a part of `count`, one by default and at
    least. Raises ValueError for anything else."""
    value = pool["spec"].get("maxUnavailable")
    if value is None or pool["metadata"]["name"] == "arbiter":
        return 1
    text = str(value)
    if isinstance(value, bool) or not text.removesuffix("%").isdecimal():
        raise ValueError(f"maxUnavailable: {text!r} must be a number of nodes, or a percentage of them")
    number = int(text.removesuffix("%"))
    return max(number * count // 100 if text.endswith("%") else number, 1)


def ready(node: Object) -> bool:
    """Return whether a node takes pods: Ready, not under pressure, not cordoned."""
    conditions = (node.get("status") or {}).get("conditions") or []
    bad = any(is_status(conditions, kind) for kind in ("DiskPressure", "NetworkUnavailable"))
    return is_status(conditions, "Ready") and not bad and not node["spec"].get("unschedulable")


def done(node: Object) -> bool:
    """Return whether a node runs the config that it was given."""
    own = notes(node)
    return bool(own.get(CURRENT)) and own.get(CURRENT) == own.get(DESIRED) and own.get(STATE) == DONE


def failing(node: Object) -> bool:
    """Return whether a node cannot go on by itself: it may be given another config."""
    return notes(node).get(STATE) in _FAILING


def unavailable(node: Object) -> bool:
    """Return whether a node is away, or on its way to a config."""
    return not ready(node) or not (done(node) or failing(node))


def draining(node: Object) -> bool:
    """Return whether a node waits for its pods to leave: nothing of its config has changed yet."""
    own = notes(node)
    return own.get(DESIRED_DRAIN, "").startswith("drain-") and own.get(APPLIED_DRAIN) != own[DESIRED_DRAIN]


def candidates(pool: Object, nodes: Sequence[Object], last: str = "") -> list[Object]:
    """Return the nodes that are to get the pool's config now, as many as may be away besides those that are: the eldest
    first, and `last`, by name, when no other is left.

    A node that has failed to reach another config, or drains for it, goes first: it takes no further node away. Nodes
    that have failed to reach this very config count as away. Raises ValueError.
    """
    wanted = pool["spec"]["configuration"]["name"]
    others = [node for node in nodes if notes(node).get(CURRENT) and notes(node).get(DESIRED) != wanted]
    turned = [node for node in others if failing(node) or draining(node)]
    away = [node for node in nodes if unavailable(node) or failing(node) or draining(node)]
    room = max(max_unavailable(pool, len(nodes)) - len(away), 0)
    eligible = [node for node in others if node not in away]

    def turn(node: Object) -> tuple[bool, str, str]:
        meta = node["metadata"]
        return meta["name"] == last, meta.get("creationTimestamp", ""), meta["name"]

    return turned + sorted(eligible, key=turn)[:room]


def status(pool: Object, nodes: Sequence[Object], now: dt.datetime, *, render_error: str, held: str = "") -> Object:
    """Return a pool's next status; `held` is what its next node waits for."""
    wanted = (pool["spec"].get("configuration") or {}).get("name", "")
    updated = [n for n in nodes if notes(n).get(CURRENT) == wanted and done(n)]
    here = [n for n in updated if ready(n)]
    away = [n for n in nodes if unavailable(n)]
    broken = [n for n in nodes if failing(n)]
    old = pool.get("status") or {}
    conditions = list(old.get("conditions") or [])

    def tell(kind: str, state: bool, message: str = "", reason: str = "") -> None:
        nonlocal conditions
        conditions = put(conditions, kind, str(state), now, reason=reason, message=message)

    whole = len(here) == len(nodes) and not away and bool(wanted)
    line = f"MachineConfig {wanted}"
    tell("Updated", whole, f"All nodes are updated with {line}" if whole else "")
    if pool["spec"].get("paused"):
        tell("Updating", False, "" if whole else f"Pool is paused; will not update to {line}")
    else:
        holds = [held] + [f"node {n['metadata']['name']}: {notes(n)[HELD]}" for n in nodes if notes(n).get(HELD)]
        text = "; ".join([f"All nodes are updating to {line}", *filter(None, holds)])
        tell("Updating", not whole, "" if whole else text)
    reasons = ", ".join(f'Node {n["metadata"]["name"]} is reporting: "{notes(n).get(REASON, "")}"' for n in broken)
    count = f"{len(broken)} nodes are reporting degraded status on sync" if broken else ""
    tell("NodeDegraded", bool(broken), reasons, count)
    failed = (
        f"Failed to render configuration for pool {pool['metadata']['name']}: {render_error}" if render_error else ""
    )
    tell("RenderDegraded", bool(failed), failed)
    tell("Degraded", bool(broken or failed), "; ".join(filter(None, (failed, reasons))))
    return {
        **old,
        **({"configuration": pool["spec"]["configuration"]} if whole else {}),
        "observedGeneration": pool["metadata"].get("generation", 0),
        "conditions": conditions,
        "machineCount": len(nodes),
        "updatedMachineCount": len(updated),
        "readyMachineCount": len(here),
        "unavailableMachineCount": len(away),
        "degradedMachineCount": len(broken),
    }
