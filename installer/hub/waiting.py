"""``node0 hub wait-for``: a resource's conditions as progress, and its end as an exit code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from installer.common.redfish import causes
from installer.errors import EXIT_BOOTSTRAP_FAILED, EXIT_INSTALL_FAILED, ConfigError
from installer.hub.arguments import WAITED_FOR
from installer.hub.baremetal.status import INFRA_ENV
from installer.hub.conditions import condition
from installer.hub.kube import kinds
from installer.hub.kube.api import Api, Invalid, KubeError, Unauthorized
from installer.hub.kube.kinds import Json, Key, Kind
from installer.hub.tables.clusterspec import required

log = logging.getLogger("installer.hub")
NOT_IN_TIME, BLOCKED = EXIT_BOOTSTRAP_FAILED, EXIT_INSTALL_FAILED
# Between two looks (s); a resource changes some times a minute.
_LOOK = 2.0
# A resource that cannot go on has said the same for this long (s): what it lacks may just be on its way.
_SURE = 15.0
# A BMC may fail for a moment.
_BMC_ERRORS = 3


@dataclass
class Verdict:
    """A resource's state: ``sentences`` are its conditions, ``blocked`` the reasons why it cannot go on by itself."""

    done: bool = False
    blocked: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)


def _sentences(obj: Json, *types: str) -> Iterator[str]:
    for item in (obj.get("status") or {}).get("conditions") or ():
        if not types or item.get("type") in types:
            text = item.get("message") or ""
            yield f"{item.get('type')} {item.get('status')} {item.get('reason')}{': ' if text else ''}{text}"


def _is(obj: Json, kind: str, status: str, *reasons: str) -> bool:
    found = condition(obj, kind)
    return found.get("status") == status and (not reasons or found.get("reason") in reasons)


def _blocks(obj: Json, *rows: tuple[Any, ...]) -> list[str]:
    return [text for row in rows if _is(obj, *row) for text in _sentences(obj, row[0])]


def judge_install(obj: Json) -> Verdict:
    """Judge an AgentClusterInstall."""
    if _is(obj, "Completed", "True"):
        return Verdict(done=True, sentences=list(_sentences(obj, "Completed")))
    rows = [
        ("SpecSynced", "False", "InputError"),
        ("Failed", "True"),
        ("Stopped", "True"),
        ("Completed", "False", "InstallationOnHold"),
    ]
    return Verdict(blocked=_blocks(obj, *rows), sentences=list(_sentences(obj)))


def judge_deployment(obj: Json) -> Verdict:
    """Judge a ClusterDeployment."""
    if (obj.get("spec") or {}).get("installed"):
        return Verdict(done=True, sentences=["spec.installed is true"])
    rows = [("ProvisionStopped", "True"), ("ProvisionFailed", "True"), ("Provisioned", "Unknown", "Error")]
    return Verdict(blocked=_blocks(obj, *rows), sentences=list(_sentences(obj)))


def judge_infra_env(obj: Json) -> Verdict:
    """Judge an InfraEnv."""
    blocked = _blocks(obj, ("ImageCreated", "False"))
    return Verdict(_is(obj, "ImageCreated", "True"), blocked, list(_sentences(obj)))


def judge_agent(obj: Json) -> Verdict:
    """Judge an Agent."""
    rows = [("SpecSynced", "False", "InputError"), ("Installed", "False", "InstallationFailed")]
    rows += [("RequirementsMet", "False", "AgentIsNotApproved")]
    return Verdict(_is(obj, "Installed", "True"), _blocks(obj, *rows), list(_sentences(obj)))


def judge_host(obj: Json) -> Verdict:
    """Judge a BareMetalHost."""
    status = obj.get("status") or {}
    state = (status.get("provisioning") or {}).get("state", "")
    text = f"{state or 'new'}, {status.get('operationalStatus') or 'no status'}"
    if error := status.get("errorMessage"):
        text += f": {status.get('errorType')}: {error}"
    # A BMC that is not ready will be, by itself.
    lasts = int(status.get("errorCount") or 0) >= _BMC_ERRORS and causes.NOT_READY not in str(error)
    blocked = [text] if status.get("errorType") and lasts else []
    return Verdict(state in ("provisioned", "externally provisioned"), blocked, [text])


_JUDGES: dict[str, tuple[Kind, Callable[[Json], Verdict]]] = {
    "clusterdeployment": (kinds.CLUSTER_DEPLOYMENT, judge_deployment),
    "agentclusterinstall": (kinds.AGENT_CLUSTER_INSTALL, judge_install),
    "infraenv": (kinds.INFRA_ENV, judge_infra_env),
    "agent": (kinds.AGENT, judge_agent),
    "baremetalhost": (kinds.BARE_METAL_HOST, judge_host),
}


def run(api: Api, resource: str, namespace: str, seconds: float) -> int:
    """Wait until the resource is done (0), cannot go on by itself (6) or the time is over (5); says what changes.

    Raises ConfigError for what is no resource, KubeError where the API refuses.
    """
    name, _, of = resource.partition("/")
    names = {alias: known for known, (short, _) in WAITED_FOR.items() for alias in (known, known + "s", short) if alias}
    known = names.get(name.lower())
    if known is None or not of:
        raise ConfigError(f"{resource}: must be KIND/NAME, where KIND is one of {', '.join(WAITED_FOR)}")
    kind, judge = _JUDGES[known]
    deadline = time.monotonic() + seconds
    said: set[str] = set()
    blocked: tuple[list[str], float] = ([], 0.0)
    while True:
        verdict = _look(api, kind, Key(namespace, of), judge)
        for sentence in verdict.sentences:
            if sentence not in said:
                log.info("%s", sentence)
        said = set(verdict.sentences)
        now = time.monotonic()
        if verdict.done:
            return 0
        if verdict.blocked != blocked[0]:
            blocked = verdict.blocked, now
        if verdict.blocked and now - blocked[1] >= _SURE:
            log.error("%s cannot go on: %s", resource, "; ".join(verdict.blocked))
            return BLOCKED
        if now > deadline:
            log.error("%s is not done after %.0f s: %s", resource, seconds, "; ".join(verdict.sentences))
            return NOT_IN_TIME
        time.sleep(_LOOK)


def _blocked_hosts(api: Api, deployment: Key, needed: int) -> list[str]:
    """Return what keeps the hosts of a ClusterDeployment's own InfraEnvs from booting; nothing where as many as are
    `needed` can boot, or where the user may not list them all."""
    blocked, able = [], 0
    try:
        for env in api.list(kinds.INFRA_ENV)[0]:
            reference = (env.get("spec") or {}).get("clusterRef") or {}
            if (reference.get("namespace"), reference.get("name")) != deployment:
                continue
            key = kinds.key_of(env)
            if no_image := judge_infra_env(env).blocked:
                blocked += [f"InfraEnv {key}: {text}" for text in no_image]
                continue
            for bmh in api.list(kinds.BARE_METAL_HOST, key.namespace, f"{INFRA_ENV}={key.name}")[0]:
                texts = judge_host(bmh).blocked
                blocked += [f"BareMetalHost {kinds.key_of(bmh)}: {text}" for text in texts]
                able += not texts
    except Invalid:
        return []
    return blocked if able < needed else []


def _look(api: Api, kind: Kind, key: Key, judge: Callable[[Json], Verdict]) -> Verdict:
    try:
        obj = api.get(kind, key)
        if obj is None:
            return Verdict(sentences=[f"{kind.name} {key} does not exist"])
        verdict = judge(obj)
        reference = (obj.get("spec") or {}).get("clusterInstallRef")
        if kind is kinds.CLUSTER_DEPLOYMENT and reference and not verdict.done:
            install = api.get(kinds.AGENT_CLUSTER_INSTALL, Key(key.namespace, reference.get("name", "")))
            of_install = judge_install(install) if install else Verdict()
            blocked = verdict.blocked or of_install.blocked
            # Once it has begun it no longer depends on BMCs.
            if not blocked and condition(install or {}, "Completed").get("reason") != "InstallationInProgress":
                blocked = _blocked_hosts(api, key, max(1, sum(required(install or {}))))
            return Verdict(False, blocked, of_install.sentences or verdict.sentences)
    except (Invalid, Unauthorized):
        raise
    except KubeError as error:
        return Verdict(sentences=[str(error)])
    return verdict
