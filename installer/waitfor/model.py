"""One look at the cluster and its hosts, read tolerantly from the REST API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from installer.assisted.enums import NEVER, ClusterStatus, HostStatus, LogsState, Result, Role, Stage, member
from installer.common.formats import jsontext

Json = Mapping[str, Any]
FAILED = (Result.FAILURE, Result.ERROR)


@dataclass(frozen=True)
class Check:
    """One validation; ``status`` as in reference/installer.md §5.4."""

    id: str
    status: Result | str
    message: str

    @property
    def failed(self) -> bool:
        """Failure or error."""
        return self.status in FAILED


@dataclass(frozen=True)
class HostSeen:
    """One registered host. ``logs_sent``: its logs have come, or it has given up sending them."""

    id: str
    name: str
    status: HostStatus | str
    _: KW_ONLY
    status_info: str = ""
    stage: Stage | str = ""
    role: Role | str = ""
    checks: tuple[Check, ...] = ()
    logs_sent: bool = False
    macs: frozenset[str] = frozenset()
    stage_info: str = ""
    # Whether it runs the service and the temporary control plane.
    bootstrap: bool = False
    # Ids of the hosts that it reports to have reached.
    reaches: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ClusterSeen:
    """The cluster as the service reports it."""

    id: str
    status: ClusterStatus | str
    status_info: str = ""
    checks: tuple[Check, ...] = ()


def checks_of(raw: object) -> tuple[Check, ...]:
    """``validations_info``: JSON text or object {category: [{id, status, message}]}; unreadable parts are left out."""
    if isinstance(raw, str):
        try:
            raw = jsontext.parsed(raw) if raw else {}
        except ValueError:
            return ()
    if not isinstance(raw, Mapping):
        return ()
    checks = []
    for items in raw.values():
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and item.get("id"):
                status = member(Result, str(item.get("status") or ""))
                checks.append(Check(str(item["id"]), status, str(item.get("message") or "")))
    return tuple(checks)


def host_of(raw: Json) -> HostSeen:
    """Return a host of GET /v2/infra-envs/{id}/hosts; its name is the requested one, else the inventory's, else its
    id."""
    identity = str(raw.get("id") or "")
    inventory = _object(raw.get("inventory"))
    name = str(raw.get("requested_hostname") or "") or str(inventory.get("hostname") or "") or identity
    progress = raw.get("progress")
    role = str(raw.get("role") or "")
    nics = inventory.get("interfaces")
    macs = [nic.get("mac_address") for nic in nics if isinstance(nic, Mapping)] if isinstance(nics, list) else []
    return HostSeen(
        id=identity,
        name=name,
        status=member(HostStatus, str(raw.get("status") or "")),
        status_info=str(raw.get("status_info") or ""),
        stage=member(Stage, str(progress.get("current_stage") or "")) if isinstance(progress, Mapping) else "",
        role=member(Role, str(raw.get("suggested_role") or "") if role in ("", Role.AUTO) else role),
        checks=checks_of(raw.get("validations_info")),
        logs_sent=raw.get("logs_collected_at") not in (None, "", NEVER)
        or raw.get("logs_info") in (LogsState.COMPLETED, LogsState.TIMEOUT),
        stage_info=str(progress.get("progress_info") or "") if isinstance(progress, Mapping) else "",
        macs=frozenset(str(mac).lower() for mac in macs if mac),
        bootstrap=bool(raw.get("bootstrap")),
        reaches=_reaches(raw.get("connectivity")),
    )


def _reaches(raw: object) -> frozenset[str]:
    report = _object(raw)
    peers = report.get("remote_hosts")
    return frozenset(
        str(peer.get("host_id"))
        for peer in (peers if isinstance(peers, list) else ())
        if isinstance(peer, Mapping) and any(_links(peer, layer) for layer in ("l2_connectivity", "l3_connectivity"))
    )


def _links(peer: Json, layer: str) -> bool:
    links = peer.get(layer)
    return isinstance(links, list) and any(isinstance(link, Mapping) and link.get("successful") for link in links)


def _object(raw: object) -> Json:
    """JSON text or an object; empty when it cannot be read."""
    try:
        value = jsontext.parsed(raw) if isinstance(raw, str) and raw else raw
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


def cluster_of(raw: Json) -> ClusterSeen:
    """Return the answer of GET /v2/clusters/{id}."""
    return ClusterSeen(
        id=str(raw.get("id") or ""),
        status=member(ClusterStatus, str(raw.get("status") or "")),
        status_info=str(raw.get("status_info") or ""),
        checks=checks_of(raw.get("validations_info")),
    )
