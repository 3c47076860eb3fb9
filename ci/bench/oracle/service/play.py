"""Scenarios played to one service: registration, hosts, their answers, changes; then what the service shows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ci.bench.oracle.service.api import Api
from ci.bench.oracle.service.scenarios import Host, World
from installer.testing.service.words_kit import Scheme
from lab.waiting import wait_until

#: Seconds for which nothing may change (a stock service looks at its clusters every 10 s), and for all to come to rest.
SETTLED_S, DEADLINE_S = 22.0, 600.0
_PASSED = {"success", "disabled", "success-suppress-output"}
_HOST = ("requested_hostname", "role", "bootstrap", "installation_disk_id", "stage")
_CLUSTER = ("machine_networks", "api_vips", "ingress_vips", "network_type", "user_managed_networking", "platform")


@dataclass
class Played:
    """A scenario as one service has it. `facts`: what the service thinks of it, and its status codes, by name."""

    world: World
    cluster_id: str = ""
    infra_env_id: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def path(self, host: Host) -> str:
        """Return the host's path below the API's base."""
        return f"/infra-envs/{self.infra_env_id}/hosts/{host.id}"


def play(api: Api, scenarios: Sequence[Played], version: str) -> None:
    """Play all, until nothing changes any more; fills in their ids and facts. Raises TimeoutError."""
    image = api.agent_image()
    with ThreadPoolExecutor(4) as pool:

        def each(act: Callable[[Played], object]) -> None:
            list(pool.map(act, (played for played in scenarios if played.infra_env_id or act is begin)))

        def begin(played: Played) -> None:
            _register(api, played, version, image)

        def poll(played: Played) -> None:
            for host in played.world.hosts:
                _poll(api, played, host, image)

        each(begin)
        each(poll)  # they are asked for their inventory alone
        each(lambda played: _patch(api, played))
        last: list[dict[str, Any]] = []
        since = time.monotonic()

        def is_settled() -> bool:
            nonlocal last, since
            each(poll)
            each(lambda played: played.facts.update(_facts(api, played)))
            facts = [dict(played.facts) for played in scenarios]
            if facts != last:
                last, since = facts, time.monotonic()
            return time.monotonic() - since > SETTLED_S

        wait_until(is_settled, DEADLINE_S, f"{api.name}: statuses that stay", poll=1.0)


def _register(api: Api, played: Played, version: str, image: str) -> None:
    body = {**played.world.cluster, "openshift_version": version}
    code, answer = api.ask("POST", "/clusters", body)
    played.facts["code POST cluster"] = code
    if code != 201:
        return
    played.cluster_id = answer["id"]
    wanted = {"name": "bench", "pull_secret": body["pull_secret"], "cluster_id": played.cluster_id}
    code, answer = api.ask("POST", "/infra-envs", wanted)
    played.facts["code POST infra-env"] = code
    if code != 201:
        return
    played.infra_env_id = answer["id"]
    for host in played.world.hosts:
        agent = {"host_id": host.id, "discovery_agent_version": host.version or image}
        code, _ = api.ask("POST", f"/infra-envs/{played.infra_env_id}/hosts", agent, scheme=Scheme.AGENT)
        played.facts[f"code POST host of {host.number}"] = code


def _poll(api: Api, played: Played, host: Host, image: str) -> None:
    path = f"{played.path(host)}/instructions"
    headers = {"discovery_agent_version": host.version or image}
    query = f"{path}?timestamp={int(time.time()) + host.clock_offset}"
    code, answer = api.ask("GET", query, scheme=Scheme.AGENT, headers=headers)
    played.facts[f"code GET instructions of {host.number}"] = code
    for step in (answer.get("instructions") or []) if code == 200 else ():
        kind = step["step_type"]
        output = host.answer(kind, step.get("args") or [])
        if output is not None:
            reply = {"step_type": kind, "step_id": step["step_id"], "exit_code": 0, "output": json.dumps(output)}
            code, _ = api.ask("POST", path, reply, scheme=Scheme.AGENT)
            played.facts[f"code POST {kind} of {host.number}"] = code


def _patch(api: Api, played: Played) -> None:
    for host in played.world.hosts:
        for patch in host.patches:
            code, _ = api.ask("PATCH", played.path(host), patch)
            played.facts[f"code PATCH {json.dumps(patch)} of {host.number}"] = code
    if played.world.patch:
        code, _ = api.ask("PATCH", f"/clusters/{played.cluster_id}", played.world.patch)
        played.facts[f"code PATCH cluster {json.dumps(played.world.patch)}"] = code


def _facts(api: Api, played: Played) -> Iterator[tuple[str, Any]]:
    """Statuses, validations, and what follows from them."""
    code, cluster = api.ask("GET", f"/clusters/{played.cluster_id}")
    if code != 200:
        yield "cluster-status", f"code {code}"
        return
    yield "cluster-status", cluster["status"]
    yield from ((f"cluster-validation {name}", result) for name, result in _results(cluster))
    yield from ((f"cluster-field {name}", _plain(cluster.get(name))) for name in _CLUSTER)
    hosts = {host["id"]: host for host in cluster.get("hosts") or []}
    # Only how many have each role: among equal hosts the order of a database's rows decides.
    yield "roles", sorted(str(host.get("suggested_role") or "") for host in hosts.values())
    for host in played.world.hosts:
        view = hosts.get(host.id, {})
        yield f"host-status of {host.number}", view.get("status")
        yield from ((f"host-validation {name} of {host.number}", result) for name, result in _results(view))
        yield from ((f"host-field {name} of {host.number}", view.get(name) or None) for name in _HOST)
        for number, disk in enumerate(json.loads(view.get("inventory") or "{}").get("disks") or []):
            eligible = (disk.get("installation_eligibility") or {}).get("eligible")
            yield f"disk {number} of {host.number}", bool(eligible)


def _results(view: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield validations by id; a passed one is as good as one that is not there."""
    for group in json.loads(view.get("validations_info") or "{}").values():
        yield from ((line["id"], "passed" if line["status"] in _PASSED else line["status"]) for line in group or [])


def _plain(value: Any) -> Any:
    """Without what is empty, and without the ids of the cluster."""
    if isinstance(value, dict):
        inner = {key: _plain(item) for key, item in value.items() if key not in ("cluster_id", "verification")}
        return {key: item for key, item in inner.items() if item not in (None, "", [], {}, False)} or None
    return ([_plain(item) for item in value] if isinstance(value, list) else value) or None
