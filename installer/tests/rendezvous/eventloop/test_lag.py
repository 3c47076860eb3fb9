"""The event loop is never busy for long: measured by itself while agents talk, logs are read and lists are asked for.

What is judged is the processor time of a turn, not how long it took on the clock: other programs on the machine must
not fail these tests, nor excuse what they find.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Coroutine
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.agent.swarm import command as swarm
from installer.agent.swarm import run as swarm_run
from installer.assisted.auth import Scheme
from installer.rendezvous import events
from installer.rendezvous.api.bodies import PIECE, joined
from installer.rendezvous.store.links import Connectivity
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import filled, header, serve
from installer.testing.service.lag_kit import LIMIT, LONGEST, measured, quickest
from installer.testing.service.rendezvous_kit import Running, running

pytestmark = pytest.mark.slow

NETWORK = IPv4Network("10.64.0.0/16")
MIB = 1024**2


def logs(service: Running, cluster: str, host: str, size: int) -> None:
    """Put a host's logs where an upload would leave them (the service is not running)."""
    place = service.directory / "data/logs" / cluster
    place.mkdir(parents=True, exist_ok=True)
    (place / f"host_{host}.tar.gz").write_bytes(os.urandom(MIB) * (size // MIB))


def longest_turn_while_agents_talk(directory: Path) -> float:
    """Seconds of a service of its own, with 50 agents, and somebody who reads logs and lists."""
    directory.mkdir()
    with running(directory) as service:
        user = service.client()
        infra_envs = swarm.make_infra_envs(user, NETWORK, 2, 25)
        [cluster, *_] = [item["id"] for item in user.call("GET", "/clusters")]
        crowd = swarm_run.Swarm(
            swarm_run.Plan(
                50,
                service.url,
                service.keys.token("agentAuth"),
                service.ca,
                infra_envs=infra_envs,
                network=NETWORK,
                seconds=60,
                rate=20.0,
                share=25,
            )
        )
        service.process.terminate()
        service.process.wait(60)
        sizes = (100 * MIB, MIB, MIB)
        for number, size in enumerate(sizes):
            logs(service, cluster, f"00000000-0000-4000-8000-00000000000{number}", size)
        service.start()
        seen: list[int] = []

        def read() -> None:
            command = ["curl", "-sS", "--fail", "--cacert", str(service.ca), "-o", "-"]
            command += ["-H", f"Watcher-Authorization: {service.keys.token('watcherAuth')}"]
            url = f"{service.url}api/assisted-install/v2/clusters/{cluster}/logs?logs_type=all"
            with subprocess.Popen([*command, url], stdout=subprocess.PIPE) as curl:
                assert curl.stdout is not None
                size = 0
                while data := curl.stdout.read(MIB):
                    size += len(data)
            seen.append(size if curl.returncode == 0 else -1)
            for path in ("/clusters?with_hosts=true", "/events", f"/infra-envs/{infra_envs[0]}/hosts"):
                user.call("GET", path.partition("?")[0], query={"with_hosts": "true"} if "?" in path else None)

        reader = threading.Thread(target=read)

        def done() -> bool:
            if len(crowd.tally.registered) == 50 and not reader.ident:
                reader.start()
            return bool(reader.ident) and not reader.is_alive()

        crowd.run(done)
        if reader.ident:
            reader.join(60)
        assert seen == [sum(sizes) + 3 * 512 + 1024]
        assert not crowd.tally.errors
        assert len(crowd.tally.registered) == 50
        measurements = measured(service)
        assert measurements["event_loop_lag_seconds_count"] > 1000
        return measurements[LONGEST]


def test_the_loop_turns_while_agents_talk_and_logs_are_read(tmp_path: Path) -> None:
    assert 0 < quickest(lambda number: longest_turn_while_agents_talk(tmp_path / str(number))) < LIMIT


# what is made of it


def test_parts_are_joined_in_pieces() -> None:
    assert joined([]) == []
    assert joined([b"a", msgspec.Raw(b"b")]) == [b"ab"]
    parts = [bytes([number]) * (PIECE // 3) for number in range(10)]
    pieces = joined(parts)
    assert b"".join(pieces) == b"".join(parts)
    assert max(len(piece) for piece in pieces) < 2 * PIECE
    assert len(pieces) == 3
    assert joined([b"x" * PIECE]) == [b"x" * PIECE]


def test_large_lists_are_whole_and_go_out_in_pieces(tmp_path: Path) -> None:
    """The handlers' lists of two hundred hosts are the objects themselves."""

    async def use(client: Any, fleet: Fleet) -> None:
        store = fleet.world.store
        sample = fleet.host(fleet.machines[0])
        with store.change():
            for number in range(200):
                name = f"00000000-0000-4000-9000-{number:012d}"
                store.put_host(msgspec.structs.replace(sample, id=name, connectivity=Connectivity("x" * 5000)))
        user = header(Scheme.USER)
        for path in (
            "/clusters/{cluster_id}",
            "/clusters?with_hosts=true",
            "/infra-envs/{infra_env_id}/hosts",
            "/clusters/{cluster_id}/hosts?with-connectivity=true&with-inventory=true",
        ):
            answer = await client.get(filled(path, fleet), headers=user)
            text = await answer.read()
            assert len(text) == answer.content_length > 4 * PIECE, path
            body = json.loads(text)
            body = body[0] if path.startswith("/clusters?") else body
            shown = body["hosts"] if isinstance(body, dict) else body
            wanted = [host.id for host in store.hosts(infra_env_id=fleet.infra_env_id)]
            assert [host["id"] for host in shown] == wanted
            assert {host["connectivity"] for host in shown[3:]} == {"x" * 5000}
        short = await client.get(filled("/clusters/{cluster_id}/hosts?status=known&role=worker", fleet), headers=user)
        assert await short.json() == []
        assert (
            await (
                await client.get(filled("/clusters/{cluster_id}", fleet), headers={**user, "exclude-hosts": "true"})
            ).json()
        )["hosts"] == []

    serve(tmp_path, use)


async def watched(work: Coroutine[Any, Any, Any]) -> tuple[float, Any]:
    """Return a coroutine's result, and the longest turn of this loop meanwhile, in seconds of the processor."""
    longest, begin = 0.0, time.thread_time()
    task = asyncio.create_task(work)
    while not task.done():
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - begin)
        begin = time.thread_time()
    return longest, await task


def test_all_events_are_listed_without_stopping_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, readers = sqlite3.connect, set()

    def noted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        readers.add(threading.get_ident())
        connection: sqlite3.Connection = connect(*args, **kwargs)
        return connection

    async def use(client: Any, fleet: Fleet) -> None:
        store = fleet.world.store
        with store.change():
            for number in range(30_000):
                store.add_event(events.make("host_bootstrap_set", host=fleet.host(fleet.machines[number % 3])))
        user = header(Scheme.USER)
        await client.get(filled("/events?limit=1"), headers=user)
        monkeypatch.setattr("sqlite3.connect", noted)
        for _ in range(3):  # as `quickest`
            longest, answer = await watched(client.get(filled("/events"), headers=user))
            if longest < LIMIT:
                break
        body = await answer.json()
        assert readers
        assert threading.get_ident() not in readers
        assert len(body) == int(answer.headers["Event-Count"]) > 30_000
        assert sum(
            int(answer.headers[f"Severity-Count-{name}"]) for name in ("Info", "Warning", "Error", "Critical")
        ) == len(body)
        assert longest < LIMIT, longest
        page = await (await client.get(filled("/events?limit=5&offset=7&order=descending"), headers=user)).json()
        assert page == body[::-1][7:12]

    serve(tmp_path, use)


def test_a_large_manifest_is_parsed_beside_the_loop(tmp_path: Path) -> None:

    async def use(client: Any, fleet: Fleet) -> None:
        user = header(Scheme.USER)
        path = filled("/clusters/{cluster_id}/manifests", fleet)
        # Half a second of work for the parser.
        text = "kind: ConfigMap\ndata:\n" + "".join(f"  k{number}: v\n" for number in range(60_000))

        async def send(name: str, content: bytes, method: str = "POST", key: str = "content") -> int:
            body = {"file_name": name, key: base64.b64encode(content).decode()}
            answer = await client.request(method, path, json=body, headers=user)
            return int(answer.status)

        for name in ("a.yaml", "again.yaml", "and-again.yaml"):  # as `quickest`
            longest, status = await watched(send(name, text.encode()))
            assert status == 201
            if longest < LIMIT:
                break
        assert longest < LIMIT, longest
        for name, content, status in (
            ("b.yaml", b"a: [", 400),
            ("b.yaml", b"", 400),
            ("b.yaml.patch_1", b"a: [", 400),
            ("b.json.patch", b"a: [", 400),
            ("b.yaml.patch_1", b"- {op: remove, path: /a}", 201),
            ("b.txt", b"a: 1", 400),
        ):
            assert await send(name, content) == status, name
        assert await send("a.yaml", b"a: [", "PATCH", "updated_content") == 400
        unknown = await client.post(filled("/clusters/{cluster_id}/manifests"), json={}, headers=user)
        assert unknown.status == 404

    serve(tmp_path, use)
