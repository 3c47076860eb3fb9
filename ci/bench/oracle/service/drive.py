"""A scenario played to one service: registration, hosts, their answers, changes; then the states that the service
shows."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from ci.bench.oracle.service.programs import AGENT_IMAGE, Api
from ci.bench.oracle.service.worlds import PULL_SECRET, World
from installer.testing.service.words_kit import Scheme, StepType
from lab.waiting import wait_until

SETTLED_S, DEADLINE_S = 8.0, 300.0


@dataclass
class Played:
    """A scenario as played: the status code of each request, and the ids of cluster and infra-env."""

    world: World
    codes: list[tuple[str, int]] = field(default_factory=list)
    cluster_id: str = ""
    infra_env_id: str = ""

    def note(self, what: str, code: int) -> bool:
        """Record a request's code; whether it was successful."""
        self.codes.append((what, code))
        return 200 <= code < 300


def host_id(world: World, number: int) -> str:
    """A host's UUID, which both services are given."""
    return str(uuid5(NAMESPACE_URL, f"{world.name}/{number}"))


def play(api: Api, world: World) -> Played:
    """Register the cluster and its hosts, and send all that the hosts report."""
    played = Played(world)
    answer = api.ask("POST", "/clusters", world.cluster)
    if not played.note("POST clusters", answer.code):
        return played
    played.cluster_id = answer.body["id"]
    wanted = {"name": "bench", "pull_secret": PULL_SECRET, "cluster_id": played.cluster_id}
    answer = api.ask("POST", "/infra-envs", wanted)
    if not played.note("POST infra-envs", answer.code):
        return played
    played.infra_env_id = answer.body["id"]
    ids = [host_id(world, host.number) for host in world.hosts]
    hosts = f"/infra-envs/{played.infra_env_id}/hosts"
    for host, identity in zip(world.hosts, ids, strict=True):
        _arrive(api, played, hosts, host_id=identity, version=host.version, offset=host.clock_offset_s)
    final = {**world.cluster, **(world.patch or {})}
    replies_of_hosts = [host.replies(world.hosts, ids, final) for host in world.hosts]
    for identity, replies in zip(ids, replies_of_hosts, strict=True):
        _say(api, played, f"{hosts}/{identity}", [reply for reply in replies if reply[0] == StepType.INVENTORY])
    for host, identity in zip(world.hosts, ids, strict=True):
        for patch in host.patches:
            code = api.ask("PATCH", f"{hosts}/{identity}", patch).code
            played.note(f"PATCH host {json.dumps(patch)}", code)
    if world.patch:
        code = api.ask("PATCH", f"/clusters/{played.cluster_id}", world.patch).code
        played.note(f"PATCH cluster {json.dumps(world.patch)}", code)
    for identity, replies in zip(ids, replies_of_hosts, strict=True):
        _say(api, played, f"{hosts}/{identity}", [reply for reply in replies if reply[0] != StepType.INVENTORY])
    return played


def _arrive(api: Api, played: Played, hosts: str, *, host_id: str, version: str | None, offset: int) -> None:
    agent_version = AGENT_IMAGE if version == "" else version
    body = {"host_id": host_id, **({"discovery_agent_version": agent_version} if agent_version else {})}
    headers = {"discovery_agent_version": agent_version} if agent_version else {}
    code = api.ask("POST", hosts, body, scheme=Scheme.AGENT, headers=headers).code
    played.note("POST hosts", code)
    now = int(time.time()) + offset
    path = f"{hosts}/{host_id}/instructions?timestamp={now}"
    played.note("GET instructions", api.ask("GET", path, scheme=Scheme.AGENT, headers=headers).code)


def _say(api: Api, played: Played, host: str, replies: Sequence[tuple[str, str]]) -> None:
    for kind, output in replies:
        body = {"step_type": kind, "step_id": f"{kind}-1", "exit_code": 0, "output": output}
        code = api.ask("POST", f"{host}/instructions", body, scheme=Scheme.AGENT).code
        played.note(f"POST {kind}", code)


def seen(api: Api, played: Played) -> dict[str, Any]:
    """The cluster as the service shows it, with its hosts; empty where it was not taken."""
    if not played.cluster_id:
        return {}
    answer = api.ask("GET", f"/clusters/{played.cluster_id}")
    return answer.body if answer.code == 200 and isinstance(answer.body, dict) else {"status": f"code {answer.code}"}


def play_all(api: Api, worlds: Sequence[World]) -> list[tuple[Played, dict[str, Any]]]:
    """Play all scenarios; returns what the service shows of each once nothing changes any more."""
    with ThreadPoolExecutor(4) as pool:
        played = list(pool.map(lambda world: play(api, world), worlds))
        last: list[Any] = []
        since = time.monotonic()

        def is_settled() -> bool:
            nonlocal last, since
            statuses = [_statuses(item) for item in pool.map(lambda one: seen(api, one), played)]
            if statuses != last:
                last, since = statuses, time.monotonic()
            return time.monotonic() - since > SETTLED_S

        wait_until(is_settled, DEADLINE_S, f"{api.name}: statuses that stay", poll=2.0)
        return list(zip(played, pool.map(lambda one: seen(api, one), played), strict=True))


def _statuses(cluster: dict[str, Any]) -> list[Any]:
    hosts = cluster.get("hosts") or []
    return [
        *(cluster.get(key) for key in ("status", "validations_info")),
        *((host.get("status"), host.get("validations_info")) for host in hosts),
    ]
