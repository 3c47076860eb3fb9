"""Conditions of a status: new ones from wanted ones, with times that change when their content does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = dict[str, Any]
_TRANSITION = "lastTransitionTime"
#: The second time of a condition, where the resource's schema has it: Hive's, openshift's, Metal3's.
PROBE, HEARTBEAT, NO_SECOND = "lastProbeTime", "lastHeartbeatTime", ""


@dataclass(frozen=True)
class Condition:
    """A wanted condition; ``status``: True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""


def timestamp(now: datetime) -> str:
    """Return a time as the API has it: UTC, whole seconds. ``now`` has a zone of UTC."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def set_conditions(
    old: Iterable[Json], wanted: Sequence[Condition], now: datetime, *, second: str = PROBE
) -> list[Json]:
    """Return the conditions of a status; those of ``old`` that nobody wants here are others', and kept.

    Seen of the real controllers: both times change with status, reason or message (hub.md §3).
    """
    left = {condition.type: condition for condition in wanted}
    found = []
    for item in old:
        condition = left.pop(item.get("type", ""), None)
        found.append(item if condition is None else _updated(condition, item, now, second))
    return found + [_updated(condition, {}, now, second) for condition in left.values()]


def _updated(wanted: Condition, old: Json, now: datetime, second: str) -> Json:
    content = {"type": wanted.type, "status": wanted.status, "reason": wanted.reason, "message": wanted.message}
    if all(old.get(name) == value for name, value in content.items()):
        return old
    times = dict.fromkeys(filter(None, (second, _TRANSITION)), timestamp(now))
    return content | times


def condition(obj: Json, kind: str) -> Json:
    """Return an object's condition of that type; empty if it has none."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), {})
