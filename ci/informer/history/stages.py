"""The stages of an installation, as the installer's events tell them: parts of a run's phases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Step

#: The prefix of a stage's name, which tells it from a phase.
STAGE = "stage "
DISCOVERY, PREPARING, HANDING_OVER = "discovery", "preparing", "handing over to the hosts"
#: The image of the release that decides how long a stage takes.
COMPONENTS: Mapping[str, str] = {
    DISCOVERY: "agent-installer-node-agent",
    PREPARING: "agent-installer-api-server",
    HANDING_OVER: "agent-installer-orchestrator",
    "Starting installation": "agent-installer-orchestrator",
    "Installing": "agent-installer-orchestrator",
    "Waiting for bootkube": "cluster-bootstrap",
    "Writing image to disk": "machine-os-images",
    "Waiting for control plane": "agent-installer-csr-approver",
    "Waiting for controller": "agent-installer-csr-approver",
    "Rebooting": "machine-os-images",
}
#: Events that end one stage of all hosts and begin the next: name and end of the message.
_CLUSTER = (
    ("cluster_registration_succeeded", "", DISCOVERY),
    ("cluster_prepare_installation_started", "", PREPARING),
    ("cluster_status_updated", "to installing", HANDING_OVER),
)
_REACHED = re.compile(r"Host:? (?P<host>\S+?),? reached installation stage (?P<stage>[^:]+)")


def component_of(step: str) -> str:
    """Return the image that decides how long a step takes; empty where that is not one."""
    return COMPONENTS.get(step.removeprefix(STAGE), "") if step.startswith(STAGE) else ""


def _reached(events: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, datetime]]]:
    """Return the stages that were reached, with their times: of the cluster (host "") and of each host."""
    reached: dict[str, list[tuple[str, datetime]]] = {"": []}
    for event in events:
        name, message = str(event.get("name")), str(event.get("message"))
        try:
            at = datetime.fromisoformat(str(event.get("event_time")))
        except ValueError:
            continue
        for wanted, end, stage in _CLUSTER:
            if name == wanted and message.endswith(end) and stage not in dict(reached[""]):
                reached[""].append((stage, at))
        if name == "host_install_progress_updated" and (match := _REACHED.match(message)):
            stages = reached.setdefault(match["host"], [])
            if match["stage"] not in dict(stages):
                stages.append((match["stage"], at))
    return reached


def steps(file: Path, began: str) -> list[Step]:
    """Return the stages in a file of events (`events.json`) as steps of a run that began then; none where there is no
    such file. A stage takes as long as on the host that was slowest, up to its next one; the last has no end, and is
    none."""
    try:
        events = json.loads(file.read_text(errors="replace"))
        start = datetime.fromisoformat(began)
        reached = _reached(event for event in events if isinstance(event, dict))
    except (OSError, ValueError, TypeError, RecursionError):
        return []
    cluster = reached.pop("")
    lines = [[*cluster, *stages] for stages in reached.values()] or [cluster]
    longest: dict[str, Step] = {}
    try:
        for line in lines:
            for (stage, at), (_, end) in pairwise(line):
                seconds = max(0.0, (end - at).total_seconds())
                if stage not in longest or seconds > longest[stage].seconds:
                    after = max(0.0, (at - start).total_seconds())
                    longest[stage] = Step(f"{STAGE}{stage}", after, seconds, Outcome.PASSED, depth=1)
    except TypeError:  # times with and without a zone
        return []
    return list(longest.values())
