"""Rules of the webhooks by kind, and the names that the field gives the webhooks (hub.md §3).

An object that is wrong already, such as one stored before there were webhooks, may still change: only mistakes that the
change adds are refused. Otherwise its finalizers could never be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from installer.hub.admission import baremetalhost, clusters
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLASSIFICATION,
    AGENT_CLUSTER_INSTALL,
    BARE_METAL_HOST,
    CLUSTER_DEPLOYMENT,
    INFRA_ENV,
    Json,
    Kind,
    is_deleted,
)

_AGENT_INSTALL = "admission.agentinstall.openshift.io"
Check = Callable[[Json | None, Json], list[str]]


@dataclass(frozen=True)
class Rule:
    """A kind's webhook: ``check`` gives what is wrong with a new object (no old one), or with a change."""

    name: str
    check: Check


RULES: Mapping[Kind, Rule] = {
    AGENT: Rule(f"agentvalidators.{_AGENT_INSTALL}", clusters.agent),
    AGENT_CLASSIFICATION: Rule(f"agentclassificationvalidators.{_AGENT_INSTALL}", clusters.agent_classification),
    AGENT_CLUSTER_INSTALL: Rule(f"agentclusterinstallvalidators.{_AGENT_INSTALL}", clusters.cluster_install),
    BARE_METAL_HOST: Rule("baremetalhost.metal3.io", baremetalhost.problems),
    CLUSTER_DEPLOYMENT: Rule("clusterdeploymentvalidators.admission.hive.openshift.io", clusters.cluster_deployment),
    INFRA_ENV: Rule(f"infraenvvalidators.{_AGENT_INSTALL}", clusters.infra_env),
}


def refusal(kind: Kind, old: Json | None, new: Json) -> str:
    """Return all that is wrong with a new object or a change, joined; empty where it may be stored."""
    if old is not None and is_deleted(new):
        return ""
    check = RULES[kind].check
    problems = check(old, new)
    if old is not None:
        known = check(None, old)
        problems = [problem for problem in problems if problem not in known]
    return "; ".join(problems)
