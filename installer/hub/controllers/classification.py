"""AgentClassification: counts of Agents with its label, which the Agents' own controller sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from installer.hub.admission.clusters import agent_classification
from installer.hub.conditions import HEARTBEAT, set_conditions
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLASSIFICATION,
    Json,
    Key,
    Kind,
    is_deleted,
    key_of,
    labels_of,
)
from installer.hub.kube.manager import Hub
from installer.hub.tables import classification as table

FINALIZER = "agentclassification.agent-install.openshift.io"


class ClassificationController:
    """Reconciles AgentClassifications."""

    kind = AGENT_CLASSIFICATION

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        hub.caches[AGENT].index("classification", _labels)

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return the classifications whose labels an agent has."""
        return {AGENT: self._of_agent}

    def reconcile(self, key: Key) -> float | None:
        """Count; let it go once no agent has its label any more."""
        found = self._hub.caches[AGENT_CLASSIFICATION].get(key)
        if found is None:
            return None
        rule = table.rule(found)
        agents = self._hub.caches[AGENT].by("classification", f"{key.namespace} {rule.label}")
        counts, condition = table.status(rule, map(labels_of, agents), "; ".join(agent_classification(None, found)))
        if is_deleted(found):
            if not counts:
                self._hub.remove_finalizer(AGENT_CLASSIFICATION, found, FINALIZER)
                return None
        else:
            found = self._hub.add_finalizer(AGENT_CLASSIFICATION, found, FINALIZER)
        old = (found.get("status") or {}).get("conditions") or []
        conditions = set_conditions(old, [condition], self._hub.now(), second=HEARTBEAT)
        self._hub.write_status(AGENT_CLASSIFICATION, found, {**counts, "conditions": conditions})
        return None

    def _of_agent(self, agent: Json) -> list[Key]:
        keys = {name.removeprefix(table.PREFIX) for name in labels_of(agent) if name.startswith(table.PREFIX)}
        if not keys:
            return []
        items = self._hub.caches[AGENT_CLASSIFICATION].list(key_of(agent).namespace)
        return [key_of(item) for item in items if table.rule(item).key in keys]


def _labels(agent: Json) -> list[str]:
    return [f"{key_of(agent).namespace} {name}" for name in labels_of(agent) if name.startswith(table.PREFIX)]
