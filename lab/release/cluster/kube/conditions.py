"""Conditions of ClusterVersion and ClusterOperator, as pure functions (reference/cluster.md §5)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Condition = dict[str, Any]
Status = dict[str, Any]

#: The order in which the real version operator appends its conditions (§8.2): readers depend on it.
VERSION_ORDER = (
    "ImplicitlyEnabledCapabilities",
    "ReleaseAccepted",
    "Available",
    "Failing",
    "Progressing",
    "RetrievedUpdates",
    "Upgradeable",
    "Invalid",
)

#: Entries of ClusterVersion's history.
MAX_HISTORY = 100


def stamp(now: dt.datetime) -> str:
    """Return a time as the API writes it."""
    return now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.get("type") == kind), None)


def is_status(conditions: Sequence[Condition], kind: str, status: str = "True") -> bool:
    """Return whether the condition is there with that status."""
    condition = find(conditions, kind)
    return condition is not None and condition.get("status") == status


def put(
    conditions: Sequence[Condition], kind: str, status: str, now: dt.datetime, *, reason: str = "", message: str = ""
) -> list[Condition]:
    """Return the conditions with one set; its lastTransitionTime moves only when its status changes."""
    old = find(conditions, kind)
    changed = old is None or old.get("status") != status
    new: Condition = {"type": kind, "status": status}
    new["lastTransitionTime"] = stamp(now) if changed or old is None else old["lastTransitionTime"]
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        return [*conditions, new]
    return [new if c.get("type") == kind else c for c in conditions]


@dataclass(frozen=True)
class Failure:
    """A pass's failure: reason and message of Failing, and the summary that Progressing quotes (§5.2)."""

    reason: str
    message: str
    summary: str


@dataclass(frozen=True)
class Work:
    """The version operator's progress: manifests applied of all, operators waited for, what went wrong, all done."""

    version: str
    image: str
    done: int = 0
    total: int = 0
    waiting: tuple[str, ...] = ()
    failure: Failure | None = None
    complete: bool = False
    reason: str = ""
    verified: bool = False
    accepted_risks: str = ""


#: Status, reason and message of a condition.
State = tuple[str, str, str]
NO_UPSTREAM: State = ("False", "NoUpstream", "No upstream server has been set to retrieve updates.")


@dataclass(frozen=True)
class Updates:
    """The part of ClusterVersion's status that tells of updates: conditions, of which those that are None do not apply,
    and the updates that there are. Without ``accepted`` the release's own payload is loaded."""

    accepted: State | None = None
    retrieved: State = NO_UPSTREAM
    available: Sequence[Mapping[str, str]] | None = None
    upgradeable: State | None = None
    invalid: State | None = None


def unavailable(names: Sequence[str]) -> Failure:
    """Return the failure of a pass that ended with operators that are not available; several are condensed (§5.2)."""
    ordered = sorted(names)
    if len(ordered) == 1:
        return Failure(
            "ClusterOperatorNotAvailable",
            f"Cluster operator {ordered[0]} is not available",
            f"the cluster operator {ordered[0]} is not available",
        )
    return Failure(
        "ClusterOperatorsNotAvailable",
        f"Cluster operators {', '.join(ordered)} are not available",
        "some cluster operators are not available",
    )


def degraded(name: str) -> Failure:
    """Return the failure of an update whose operator lacks something (§5.2)."""
    return Failure(
        "ClusterOperatorDegraded",
        f"Cluster operator {name} is degraded",
        f"the cluster operator {name} is degraded",
    )


def progress_message(work: Work) -> str:
    """Return the Progressing message of an installation or update that is under way."""
    text = f"Working towards {work.version}"
    if work.failure is not None:
        return f"Unable to apply {work.version}: {work.failure.summary}"
    if work.done:
        text += f": {work.done} of {work.total} done ({work.done * 100 // work.total}% complete)"
    if work.waiting:
        text += ("," if work.done else ":") + f" waiting on {', '.join(sorted(work.waiting))}"
    return text


def _history(status: Status, work: Work, now: dt.datetime) -> list[dict[str, Any]]:
    history = [dict(entry) for entry in status.get("history") or []]
    if not history or history[0]["image"] != work.image:
        # an entry that something newer replaced is over, done or not
        for entry in history[:1]:
            entry["completionTime"] = entry.get("completionTime") or stamp(now)
        history.insert(
            0,
            {
                "state": "Partial",
                "startedTime": stamp(now),
                "completionTime": None,
                "version": work.version,
                "image": work.image,
                "verified": work.verified,
            },
        )
        if work.accepted_risks:
            history[0]["acceptedRisks"] = work.accepted_risks
    if work.complete and history[0]["state"] != "Completed":
        history[0] |= {"state": "Completed", "completionTime": stamp(now)}
    # Of a cluster without a Completed entry it would be said that it is being installed.
    if not any(entry["state"] == "Completed" for entry in history[:MAX_HISTORY]):
        completed = [entry for entry in history[MAX_HISTORY:] if entry["state"] == "Completed"]
        history[MAX_HISTORY - 1 :] = completed[:1] or history[MAX_HISTORY - 1 :]
    return history[:MAX_HISTORY]


def version_status(
    status: Status,
    work: Work,
    now: dt.datetime,
    *,
    generation: int,
    capabilities: Sequence[str],
    version_hash: str,
    updates: Updates = Updates(),
) -> Status:
    """Return the next status of ClusterVersion `version`."""
    history = _history(status, work, now)
    reached = bool(history[0]["state"] == "Completed")
    conditions: list[Condition] = [c for c in status.get("conditions") or [] if c["type"] in VERSION_ORDER]

    def set_(kind: str, state: str, reason: str = "", message: str = "") -> None:
        nonlocal conditions
        conditions = put(conditions, kind, state, now, reason=reason, message=message)

    set_("ImplicitlyEnabledCapabilities", "False", "AsExpected", "Capabilities match configured spec")
    loaded = f'Payload loaded version="{work.version}" image="{work.image}" architecture="amd64"'
    set_("ReleaseAccepted", *(updates.accepted or ("True", "PayloadLoaded", loaded)))
    if reached:
        set_("Available", "True", "", f"Done applying {work.version}")
    elif find(conditions, "Available") is None:
        set_("Available", "False")
    failure = work.failure
    if failure is not None:
        set_("Failing", "True", failure.reason, failure.message)
    else:
        set_("Failing", "False")
    if not reached:
        set_("Progressing", "True", failure.reason if failure else work.reason, progress_message(work))
    elif failure is not None:
        message = f"Error while reconciling {work.version}: {failure.summary}"
        set_("Progressing", "False", failure.reason, message)
    elif updates.invalid is not None:
        message = f"Stopped at {work.version}: the cluster version is invalid"
        set_("Progressing", "False", updates.invalid[1], message)
    else:
        set_("Progressing", "False", "", f"Cluster version is {work.version}")
    set_("RetrievedUpdates", *updates.retrieved)
    for kind, state in (("Upgradeable", updates.upgradeable), ("Invalid", updates.invalid)):
        conditions = [c for c in conditions if c["type"] != kind or state is not None]
        if state is not None:
            set_(kind, *state)
    return {
        **status,
        "desired": {"version": work.version, "image": work.image},
        "history": history,
        "observedGeneration": generation,
        "versionHash": version_hash,
        "capabilities": {"enabledCapabilities": list(capabilities), "knownCapabilities": list(capabilities)},
        "conditions": sorted(conditions, key=lambda c: VERSION_ORDER.index(c["type"])),
        "availableUpdates": None if updates.available is None else [dict(update) for update in updates.available],
    }


#: The condition that a bad finding changes, of an operator that has been available: Available where nothing serves any
#: more, Degraded where it serves and lacks something, Progressing where it serves and more of it starts (§5.5).
Changed = Literal["Available", "Degraded", "Progressing"]


@dataclass(frozen=True)
class Finding:
    """The result of one operator's probe; the message stays the same while nothing changes. A good one that changes
    Degraded tells of something that is asked for and never will be served."""

    good: bool
    message: str
    reason: str = "NotReady"
    condition: Changed = "Available"


#: For how long probes must fail before an available operator is called unavailable: emulated hosts stall.
PATIENCE_SECONDS = 10.0


def operator_status(
    status: Status, finding: Finding, bad_seconds: float, now: dt.datetime, *, versions: Sequence[dict[str, str]]
) -> Status:
    """Return the next status of a ClusterOperator; ``bad_seconds`` is for how long no probe was good.

    Progressing comes before Available: readers use the first condition that applies (§8.2).
    """
    conditions: list[Condition] = list(status.get("conditions") or [])
    first_time = not finding.good and not status.get("versions")
    serves = finding.good or (not first_time and finding.condition != "Available")
    lacks = finding.condition == "Degraded" if finding.good else not first_time and finding.condition != "Progressing"
    states = {
        "Progressing": first_time or (not finding.good and finding.condition == "Progressing"),
        "Available": serves,
        "Degraded": lacks,
    }
    unusual = {kind for kind, state in states.items() if state != (kind == "Available")}
    worse = any(is_status(conditions, kind, "True" if kind == "Available" else "False") for kind in unusual)
    if worse and not finding.good and bad_seconds < PATIENCE_SECONDS:
        return status
    for kind, state in states.items():
        reason = finding.reason if kind in unusual else "AsExpected"
        message = "" if kind == "Degraded" and kind not in unusual else finding.message
        conditions = put(conditions, kind, str(state), now, reason=reason, message=message)
    conditions = put(conditions, "Upgradeable", "True", now, reason="AsExpected")
    result = {**status, "conditions": conditions}
    if finding.good:
        # an operator reports its version once it has reached it
        result["versions"] = [dict(v) for v in versions]
    return result
