"""Parts that several tables share: the result of passing a spec on, and validations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from installer.assisted.enums import NEVER, Result
from installer.common.formats import jsontext
from installer.hub.conditions import Condition

Json = dict[str, Any]
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True)
class SyncProblem:
    """A reason that keeps a spec from the service; ``is_input``: its author has to change the resource or its input."""

    message: str
    is_input: bool


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A resource's name, what keeps its spec from the service, and what the service has for it."""

    name: str
    problem: SyncProblem | None = None

    @property
    def known(self) -> Json:
        """The service's cluster or host; empty while there is none."""
        raise NotImplementedError

    @property
    def status(self) -> str:
        """The status of what the service has; empty without it."""
        return str(self.known.get("status", ""))

    @property
    def info(self) -> str:
        """The service's sentence on it."""
        return str(self.known.get("status_info") or "")


def debug_info(facts: Facts, events_url: str, logs_url: str, collected: str) -> Json:
    """Return status.debugInfo; ``collected``: the member of the service's object with the time of its logs."""
    return {
        "eventsURL": events_url if facts.known else "",
        "logsURL": logs_url if facts.known.get(collected, NEVER) != NEVER else "",
        "state": facts.status,
        "stateInfo": facts.info,
    }


def spec_synced(kind: str, name: str, problem: SyncProblem | None) -> Condition:
    """Return SpecSynced of a resource."""
    if problem is None:
        return Condition("SpecSynced", TRUE, "SyncOK", f"{kind} {name}: all of its spec has been passed on")
    reason, cause = ("InputError", "an error in its input") if problem.is_input else ("BackendError", "the service")
    return Condition(
        "SpecSynced", FALSE, reason, f"{kind} {name}: its spec was not passed on because of {cause}: {problem.message}"
    )


def validations(item: Mapping[str, Any]) -> Json:
    """Return a cluster's or host's validations by category; empty while none are computed."""
    try:
        found = jsontext.parsed(item.get("validations_info") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def messages(found: Mapping[str, Iterable[Mapping[str, Any]]], *results: Result) -> str:
    """Return the messages of those validations that have one of these results, joined by commas."""
    rows = (row for category in found.values() for row in category or ())
    return ", ".join(str(row.get("message") or row.get("id")) for row in rows if row.get("status") in results)
