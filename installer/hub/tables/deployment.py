"""ClusterDeployment: Hive's half, from the AgentClusterInstall's conditions to those that Hive's clients wait for.

To be held against hub.md §4. No Hive runs beside this hub.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from installer.hub.conditions import Condition
from installer.hub.tables.facts import FALSE, TRUE, UNKNOWN, Json

#: The conditions of a cluster's installation without which the contract is broken.
CONTRACT = ("RequirementsMet", "Completed", "Failed", "Stopped")
PREFIX = "ClusterInstall"
TYPES = (*(f"{PREFIX}{name}" for name in CONTRACT), "ProvisionFailed", "ProvisionStopped", "Provisioned")
_METADATA = ("clusterID", "infraID")
_SECRETS = ("adminKubeconfigSecretRef", "adminPasswordSecretRef")


def by_type(conditions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return conditions by their types."""
    return {str(item.get("type")): item for item in conditions}


def conditions(
    name: str, install: Mapping[str, Any] | None, *, is_installed: bool = False, problem: str = ""
) -> list[Condition]:
    """Return all conditions of a ClusterDeployment. ``is_installed``: spec.installed, which never goes back.

    ``install``: its AgentClusterInstall, None where there is none; ``problem``: why the one that it names is not its.
    """
    found = by_type(((install or {}).get("status") or {}).get("conditions") or ())
    missing = [item for item in CONTRACT if item not in found]
    if missing:
        reason, subject = "Initialized", f"ClusterDeployment {name}"
        lacks = f"has no condition {', '.join(missing)} yet" if install else "does not exist yet"
        text = f"{subject}: {problem or f'its AgentClusterInstall {lacks}'}"
        wanted = [Condition(item, UNKNOWN, reason, text) for item in TYPES[:-1]]
        if is_installed:
            return [*wanted, Condition("Provisioned", TRUE, "Provisioned", f"{subject} is installed")]
        if found or problem:
            return [*wanted, Condition("Provisioned", UNKNOWN, "Error", text)]
        return [*wanted, Condition("Provisioned", FALSE, "Provisioning", text)]
    copied = [Condition(f"{PREFIX}{item}", *_rest(found[item])) for item in CONTRACT]
    _, completed, failed, stopped = copied
    gave_up = stopped.status == failed.status == TRUE and completed.status != TRUE
    ended = replace(stopped, type="ProvisionStopped")
    if gave_up:
        text = f"ClusterDeployment {name}: {failed.message}"
        ended = replace(ended, reason="InstallAttemptsLimitReached", message=text)
    return [*copied, replace(failed, type="ProvisionFailed"), ended, _provisioned(name, copied, is_installed)]


def _rest(item: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(item.get("status") or UNKNOWN), str(item.get("reason") or ""), str(item.get("message") or "")


def _provisioned(name: str, copied: list[Condition], is_installed: bool) -> Condition:
    _, completed, failed, stopped = copied
    if is_installed or completed.status == stopped.status == TRUE:
        return Condition("Provisioned", TRUE, "Provisioned", f"ClusterDeployment {name} is installed")
    if stopped.status == failed.status == TRUE:
        text = f"ClusterDeployment {name} could not be installed: {failed.message}"
        return Condition("Provisioned", FALSE, "ProvisionStopped", text)
    if stopped.status == TRUE:
        text = f"the installation of ClusterDeployment {name} stopped: {stopped.message}"
        return Condition("Provisioned", FALSE, "ProvisionStopped", text)
    text = f"ClusterDeployment {name} is to be installed: {completed.message}"
    return Condition("Provisioned", FALSE, "Provisioning", text)


def is_complete(install: Mapping[str, Any] | None) -> bool:
    """Return whether the installation is complete, so that spec.installed becomes true."""
    found = by_type(((install or {}).get("status") or {}).get("conditions") or ())
    return all((found.get(name) or {}).get("status") == TRUE for name in ("Completed", "Stopped"))


def metadata(install: Mapping[str, Any]) -> Json | None:
    """Return spec.clusterMetadata as it is to be copied from the AgentClusterInstall; None until it is whole."""
    found = (install.get("spec") or {}).get("clusterMetadata") or {}
    whole = all(found.get(key) for key in _METADATA) and all((found.get(key) or {}).get("name") for key in _SECRETS)
    return dict(found) if whole else None


def timestamps(old: Mapping[str, Any], install: Mapping[str, Any] | None) -> Json:
    """Return installStartedTimestamp and installedTimestamp as they are to be, from ``old``, the status until now.

    A start's time is that of RequirementsMet becoming true; neither changes with a reason or message alone.
    """
    found = by_type(((install or {}).get("status") or {}).get("conditions") or ())
    before = by_type(old.get("conditions") or ())
    times: Json = {}
    for field, name in (("installStartedTimestamp", "RequirementsMet"), ("installedTimestamp", "Completed")):
        condition = found.get(name) or {}
        was = old.get(field)
        if condition.get("status") != TRUE:
            times |= {field: was} if was else {}
            continue
        is_new = not was or (before.get(f"{PREFIX}{name}") or {}).get("status") != TRUE
        times[field] = condition.get("lastTransitionTime") if is_new else was
    return {key: value for key, value in times.items() if value}
