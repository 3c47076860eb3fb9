"""Rules of clusters, InfraEnvs, agents and classifications at admission: what is refused where there are webhooks.

Where it asks none, the rules that need no earlier object are conditions (SpecSynced False InputError), and the service
refuses the others. To be held against hub.md §3, §4, §6 and §7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from installer.hub.conditions import condition
from installer.hub.kube.kinds import Json
from installer.hub.tables import agent as agents
from installer.hub.tables import classification, hostspec
from installer.hub.tables.cluster import Numbers
from installer.hub.tables.clusterspec import SpecError, ignition_endpoint_problem, required, spec_of

#: Fields of an AgentClusterInstall that may change after its start, and after its end as well.
AFTER_START = frozenset({"clusterMetadata", "ignitionEndpoint"})
AFTER_END = AFTER_START | {"provisionRequirements"}
_STARTED = frozenset({"InstallationInProgress", "InstallationFailed", "InstallationCompleted"})


def differences(old: Any, new: Any, path: str = "spec") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, old and new value of what differs; members that are absent and those that say nothing are alike."""
    if isinstance(old, dict) or isinstance(new, dict):
        old, new = old or {}, new or {}
        if isinstance(old, dict) and isinstance(new, dict):
            for key in sorted(old.keys() | new.keys()):
                yield from differences(old.get(key), new.get(key), f"{path}.{key}")
            return
    if (old or None) != (new or None):
        yield path, old, new


def cluster_install(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with an AgentClusterInstall, or with a change of it."""
    problems = [*_networking(new)]
    if problem := ignition_endpoint_problem(new):
        problems.append(problem)
    numbers = required(new)
    if not (1 <= numbers.masters <= 5) or (numbers.masters == 2 and not numbers.arbiters):
        field = f"spec.provisionRequirements.controlPlaneAgents: {numbers.masters}"
        problems.append(f"{field}: must be 1, 3, 4 or 5, or 2 with an arbiter")
    if old is None:
        return problems
    changed = list(differences(spec_of(old), spec_of(new)))
    reason = condition(old, "Completed").get("reason")
    allowed = AFTER_START if reason == "InstallationInProgress" else AFTER_END
    for path, before, after in changed:
        field = path.split(".")[1]
        if field == "imageSetRef":
            problems.append(f"{path}: cannot change from {before!r} to {after!r}")
        elif path == "spec.external.platformName" and before not in (None, "", "Unknown"):
            problems.append(f"{path}: cannot change from {before!r} to {after!r} once it is set")
        elif reason in _STARTED and field not in allowed:
            problems.append(f"{path}: cannot change from {before!r} to {after!r}: the installation has begun")
    return problems


def _networking(install: Json) -> Iterator[str]:
    spec = spec_of(install)
    managed = (spec.get("networking") or {}).get("userManagedNetworking")
    field = f"spec.networking.userManagedNetworking: {str(managed).lower()}"
    platform = spec.get("platformType") or ""
    if managed is False and required(install) == Numbers(1):
        yield f"{field}: must be true or left out for a single node"
    elif managed is False and platform in ("None", "External"):
        yield f"{field}: must be true or left out with spec.platformType {platform}"
    elif managed is True and platform in ("BareMetal", "Nutanix") and required(install) != Numbers(1):
        yield f"{field}: must be false or left out with spec.platformType {platform}"


def cluster_deployment(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with a change of a ClusterDeployment."""
    if old is None or not spec_of(old).get("installed"):
        return []
    problems = [] if spec_of(new).get("installed") else ["spec.installed: never becomes false again"]
    before, after = (spec_of(item).get("clusterMetadata") for item in (old, new))
    changed = differences(before, after, "spec.clusterMetadata")
    return problems + [f"{path}: cannot change once the cluster is installed" for path, _, _ in changed]


def infra_env(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with an InfraEnv, or with a change of it."""
    spec = spec_of(new)
    if old is None:
        both = spec.get("clusterRef") and spec.get("osImageVersion")
        return ["spec.osImageVersion: not together with spec.clusterRef in a new InfraEnv"] if both else []
    changed = {path.split(".")[1] for path, _, _ in differences(spec_of(old), spec)}
    return [f"spec.{name}: cannot change" for name in ("clusterRef", "cpuArchitecture") if name in changed]


def agent(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with an Agent, or with a change of it."""
    problems = []
    try:
        hostspec.check(spec_of(new))
        hostspec.token_key(new)
    except SpecError as error:
        problems.append(str(error))
    if old is None:
        return problems
    state = str(((old.get("status") or {}).get("debugInfo") or {}).get("state") or "")
    is_second_day = (old.get("status") or {}).get("kind") == "AddToExistingClusterHost"
    changed = differences(spec_of(old).get("clusterDeploymentName"), spec_of(new).get("clusterDeploymentName"))
    if any(changed) and state in agents.INSTALLING and not is_second_day:
        problems.append(f"spec.clusterDeploymentName: cannot change while the agent is in state {state}")
    return problems


def agent_classification(old: Json | None, new: Json) -> list[str]:
    """Return what is wrong with an AgentClassification, or with a change of it."""
    rule = classification.rule(new)
    problems = [
        f"spec.{name}: cannot change" for name in ("labelKey", "labelValue") if old and _differs(old, new, name)
    ]
    if not classification.LABEL.fullmatch(rule.key):
        problems.append(f"spec.labelKey: {rule.key!r}: must be the name part of a label's key")
    if not classification.LABEL.fullmatch(rule.value) or rule.value.startswith(classification.ERROR):
        problems.append(
            f"spec.labelValue: {rule.value!r}: must be a label's value, and not begin with {classification.ERROR}"
        )
    if problem := classification.query_problem(rule.query):
        problems.append(f"spec.query: {problem}")
    return problems


def _differs(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    return bool(spec_of(old).get(name) != spec_of(new).get(name))
