"""AgentClassification: queries over inventories, the labels that follow, and the resource's status.

Queries are jq programs; upstream's gojq differs in what no query of an inventory needs (numbers of more than 64 bits,
order of keys, input and output, modules).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from installer.hub.conditions import Condition
from installer.hub.tables.facts import FALSE, TRUE, Json

PREFIX = "agentclassification.agent-install.openshift.io/"
ERROR = "QUERYERROR"
#: The name part of a label's key, and its value.
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# Characters of a query, and of a label's value.
LONGEST_QUERY, LONGEST_VALUE = 4096, 63
# The operator's own environment, and files.
_FOREIGN = re.compile(r"(?<![.\w])(?:\$ENV|(?:env|inputs?|input_filename|import|include)\b)")


@dataclass(frozen=True)
class Rule:
    """An AgentClassification's spec; ``is_over``: it is being deleted, so that its label goes."""

    key: str
    value: str
    query: str
    is_over: bool = False

    @property
    def label(self) -> str:
        """The label's whole key."""
        return PREFIX + self.key

    @property
    def error(self) -> str:
        """The label's value where the query fails."""
        return f"{ERROR}-{self.value}"[:LONGEST_VALUE].rstrip("-_.")


def rule(classification: Mapping[str, Any]) -> Rule:
    """Return the rule of an AgentClassification."""
    spec = classification.get("spec") or {}
    key, value, query = (str(spec.get(name) or "") for name in ("labelKey", "labelValue", "query"))
    return Rule(key, value, query, bool(classification["metadata"].get("deletionTimestamp")))


@lru_cache(256)
def _compiled(query: str) -> Any:
    import jq

    if found := _FOREIGN.search(query):
        raise ValueError(f"{found[0]} reads what is no inventory")
    return jq.compile(query)


def query_problem(query: str) -> str:
    """Return why a text is no query; empty where it is."""
    if not query.strip() or len(query) > LONGEST_QUERY:
        return f"must be a jq program of 1 to {LONGEST_QUERY} characters"
    try:
        _compiled(query)
    except ValueError as error:
        return str(error).splitlines()[0]
    return ""


def matches(query: str, inventory: Mapping[str, Any]) -> bool:
    """Return whether an inventory is one that the query asks for. Raises ValueError unless it gives one boolean."""
    if problem := query_problem(query):
        raise ValueError(problem)
    results = []
    for value in _compiled(query).input_value(inventory):
        results.append(value)
        if len(results) > 1:
            break
    if len(results) != 1 or not isinstance(results[0], bool):
        found = "several values" if len(results) > 1 else "no value" if not results else type(results[0]).__name__
        raise ValueError(f"the query gives {found}, not one boolean")
    return results[0]


def labels(rules: Iterable[Rule], inventory: Mapping[str, Any], present: Mapping[str, str]) -> dict[str, str | None]:
    """Return the classifications' labels of an Agent that are to change; None: taken off.

    Rules with the same key: the first that matches counts. A label with a value of nobody's is left alone.
    """
    wanted: dict[str, str | None] = {}
    owned: dict[str, set[str]] = {}
    for item in rules:
        owned.setdefault(item.label, set()).update((item.value, item.error))
        value = None
        if not item.is_over and inventory and LABEL.fullmatch(item.key) and LABEL.fullmatch(item.value):
            try:
                value = item.value if matches(item.query, inventory) else None
            except ValueError:
                value = item.error
        if wanted.get(item.label) is None:
            wanted[item.label] = value
    changes: dict[str, str | None] = {}
    for key, value in wanted.items():
        now = present.get(key)
        if value != now and (value is not None or now in owned[key]):
            changes[key] = value
    return changes


def status(item: Rule, agents: Iterable[Mapping[str, str]], problem: str = "") -> tuple[Json, Condition]:
    """Return counts and the condition of an AgentClassification from its Agents' labels; ``problem``: its own."""
    values = [labels_of.get(item.label) for labels_of in agents]
    matched, failed = values.count(item.value), values.count(item.error)
    counts = {name: count for name, count in (("matchedCount", matched), ("errorCount", failed)) if count}
    if problem:
        return counts, Condition("QueryErrors", TRUE, "HasQueryErrors", problem)
    if failed:
        text = f"spec.query fails for {failed} agents, or gives no boolean: they have the value {item.error}"
        return counts, Condition("QueryErrors", TRUE, "HasQueryErrors", text)
    return counts, Condition("QueryErrors", FALSE, "NoQueryErrors", "spec.query fails for no agent")
