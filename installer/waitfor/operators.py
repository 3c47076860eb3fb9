"""Judgements over ClusterVersion, ClusterOperators and Routes: pure (reference/cluster.md §5.4, installer.md §8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition; ``since`` is its lastTransitionTime or None when there is none that can be read."""

    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


def name_of(item: Json) -> str:
    """metadata.name."""
    metadata = item.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _time(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def conditions(item: Json) -> dict[str, Condition]:
    """status.conditions by type, in their order."""
    status = item.get("status")
    raw = status.get("conditions") if isinstance(status, Mapping) else None
    by_type = {}
    for entry in raw if isinstance(raw, list) else ():
        if isinstance(entry, Mapping):
            kind, state, reason, message = (
                str(entry.get(key) or "") for key in ("type", "status", "reason", "message")
            )
            by_type[kind] = Condition(
                type=kind, status=state, reason=reason, message=message, since=_time(entry.get("lastTransitionTime"))
            )
    return by_type


def initialized(version: Json) -> bool:
    """Available is True, and Failing and Progressing are there and False."""
    by_type = conditions(version)
    wanted = {"Available": "True", "Failing": "False", "Progressing": "False"}
    return all(kind in by_type and by_type[kind].status == status for kind, status in wanted.items())


def progress(version: Json) -> str:
    """Return the cluster version's occupation: the message of Failing when True, else of Progressing."""
    by_type = conditions(version)
    failing = by_type.get("Failing")
    if failing is not None and failing.status == "True":
        return failing.message or failing.reason
    return by_type["Progressing"].message if "Progressing" in by_type else "no conditions yet"


def complaints(operators: Sequence[Json]) -> tuple[tuple[bool, str], ...]:
    """(is an error, line) for each condition that is not as it should be."""
    good = {"Available": "True", "Degraded": "False", "Progressing": "False", "Upgradeable": "True"}
    lines = []
    for operator in operators:
        for condition in conditions(operator).values():
            if condition.type in good and condition.status != good[condition.type]:
                because = f" with {condition.reason}" if condition.reason else ""
                text = f"Cluster operator {name_of(operator)} {condition.type} is {condition.status}{because}"
                bad = condition.type in ("Available", "Degraded")
                lines.append((bad, f"{text}: {condition.message}" if condition.message else text))
    return tuple(lines)


@dataclass
class Stability:
    """Operators that have not been progressing for ``period`` seconds.

    Known by lastTransitionTime and the cluster's own clock, or by having watched that long without a change. This
    machine's wall clock does not count: it may be hours away from the cluster's, and be set at any time.
    """

    period: float
    _seen: dict[str, tuple[datetime | None, float]] = field(default_factory=dict, init=False)

    def unstable(self, operators: Sequence[Json], now: datetime | None, monotonic: float) -> tuple[str, ...]:
        """Names of operators that are not stable yet; none at all when there are no operators.

        ``now`` by the cluster's clock, None when it is not known.
        """
        names = []
        for operator in operators:
            name, condition = name_of(operator), conditions(operator).get("Progressing")
            if condition is None or condition.status != "False":
                self._seen.pop(name, None)
                names.append(name)
                continue
            if name not in self._seen or self._seen[name][0] != condition.since:
                self._seen[name] = (condition.since, monotonic)
            watched = monotonic - self._seen[name][1]
            claimed = (now - condition.since).total_seconds() if condition.since and now else 0.0
            if max(watched, claimed) <= self.period:
                names.append(name)
        return tuple(names)


def route_url(route: Json) -> str | None:
    """URL of a Route's first admitted ingress, or None while none is admitted (cluster.md §7.4)."""
    spec, status = route.get("spec"), route.get("status")
    scheme = "https" if isinstance(spec, Mapping) and spec.get("tls") else "http"
    ingresses = status.get("ingress") if isinstance(status, Mapping) else None
    for ingress in ingresses if isinstance(ingresses, list) else ():
        if isinstance(ingress, Mapping) and ingress.get("host"):
            admitted = conditions({"status": ingress}).get("Admitted")
            if admitted is not None and admitted.status == "True":
                return f"{scheme}://{ingress['host']}"
    return None
