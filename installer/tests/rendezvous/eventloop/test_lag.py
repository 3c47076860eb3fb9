"""The event loop is never busy for long: measured by itself while agents talk, logs are read and lists are asked for.

What is judged is the processor time of a turn, not how long it took on the clock: other programs on the machine must
not fail these tests, nor excuse what they find.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import re
import selectors
import socket
import sqlite3
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from installer.agent.swarm import command as swarm
from installer.agent.swarm import run as swarm_run
from installer.assisted.auth import Scheme
from installer.rendezvous import events
from installer.rendezvous.api.app import SERVICE
from installer.rendezvous.api.bodies import PIECE, joined
from installer.rendezvous.eventloop import heap, lag
from installer.rendezvous.eventloop.lag import AT_A_TIME, Lag, Selector, Sizes
from installer.rendezvous.reconcile.slices import SLICE, Slices
from installer.rendezvous.store import checkpoint
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.links import Connectivity
from installer.testing.service.api_kit import filled, header, serve
from installer.testing.service.fleet_kit import Fleet, Machine, Network
from installer.testing.service.lag_kit import LIMIT, LONGEST, measured
from installer.testing.service.rendezvous_kit import Running, running
from installer.testing.service.world_kit import World

NETWORK = IPv4Network("10.64.0.0/16")
MIB = 1024**2


def logs(service: Running, cluster: str, host: str, size: int) -> None:
    """A host's logs, put where an upload would leave them (the service is not running)."""
    place = service.directory / "data/logs" / cluster
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"host_{host}.tar.gz").open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


def test_the_loop_turns_while_agents_talk_and_logs_are_read(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        user = service.client()
        infra_envs = swarm.make_infra_envs(user, NETWORK, 3, 40)
        [cluster, *_] = [item["id"] for item in user.call("GET", "/clusters")]
        crowd = swarm_run.Swarm(
            swarm_run.Plan(
                120,
                service.url,
                service.keys.token("agentAuth"),
                service.ca,
                infra_envs,
                NETWORK,
                60,
                rate=20.0,
                share=40,
            )
        )
        service.process.terminate()
        service.process.wait(60)
        for number in range(3):
            logs(service, cluster, f"00000000-0000-4000-8000-00000000000{number}", 100 * MIB)
        service.start()
        seen: list[int] = []

        def read() -> None:
            command = ["curl", "-sS", "--fail", "--cacert", str(service.ca), "-o", "-"]
            command += ["-H", f"Watcher-Authorization: {service.keys.token('watcherAuth')}"]
            url = f"{service.url}api/assisted-install/v2/clusters/{cluster}/logs?logs_type=all"
            for _ in range(2):
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
            if len(crowd.tally.registered) == 120 and not reader.ident:
                reader.start()
            return bool(reader.ident) and not reader.is_alive()

        crowd.run(done)
        if reader.ident:
            reader.join(60)
        assert seen == [300 * MIB + 3 * 512 + 1024] * 2
        assert not crowd.tally.errors
        assert len(crowd.tally.registered) == 120
        found = measured(service)
        assert found["event_loop_lag_seconds_count"] > 1000
        assert 0 < found[LONGEST] < LIMIT, found


def in_turns(work: Callable[[], Any]) -> Lag:
    """Run a coroutine in a loop that measures itself."""
    found = Lag()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Selector(found))) as runner:

        async def start() -> None:
            # What setting up the loop took is not the work's.
            await asyncio.sleep(0)
            found.wall, found.cpu = Sizes(), Sizes()
            await work()

        runner.run(start())
    return found


def fleet_of(directory: Path, count: int, at: datetime | None = None) -> Fleet:
    """A cluster of hosts that have told everything, and that nobody has heard of since: all must be judged anew."""
    world = World(directory)
    world.clock.at = at or world.clock.at
    network = Network()
    machines = [Machine(number, network) for number in range(count)]
    fleet = Fleet(world, machines)
    fleet.discover()
    world.wait(1000)
    return fleet


def test_a_big_cluster_is_judged_between_requests(tmp_path: Path) -> None:
    """The verdicts of one piece, in pieces of which none is long."""
    at = datetime.now(UTC)
    whole, sliced = fleet_of(tmp_path / "whole", 120, at), fleet_of(tmp_path / "sliced", 120, at)
    begin = time.thread_time()
    whole.tick()
    took = time.thread_time() - begin
    others = 0

    async def judge() -> None:
        nonlocal others
        task = asyncio.create_task(Slices(sliced.world.engine).reconcile(sliced.cluster_id))
        while not task.done():
            await asyncio.sleep(0)
            others += 1
        await task

    found = in_turns(judge)
    statuses, *rest = sliced.judgements()
    assert set(statuses) == {"disconnected"}
    # Each fleet called in at its own moment.
    moment = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
    assert moment.sub("then", repr((statuses, *rest))) == moment.sub("then", repr(whole.judgements()))
    assert others > 120 // SLICE
    assert found.cpu.longest < took / 2, (found.cpu.longest, took)
    for fleet in (whole, sliced):
        fleet.world.store.close()


def test_who_asks_for_a_cluster_that_is_being_judged_waits_for_that(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, 3 * SLICE)
    slices = Slices(fleet.world.engine)
    judged = 0
    original = fleet.world.engine.refresh_host

    def count(*args: Any) -> Any:
        nonlocal judged
        judged += 1
        return original(*args)

    async def ask() -> None:
        first, *others = (asyncio.create_task(slices.reconcile(fleet.cluster_id)) for _ in range(5))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(*others)

    with mock.patch.object(fleet.world.engine, "refresh_host", count):
        asyncio.run(ask())
    assert set(fleet.statuses()) == {"disconnected"}
    # A round that moves them, one that does not, and the last one in one piece; not five times that.
    assert judged <= 4 * 3 * SLICE
    assert not slices._under_way
    fleet.world.store.close()


def test_hosts_that_come_and_go_while_it_is_judged_are_no_trouble(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, 3 * SLICE)
    store, slices = fleet.world.store, Slices(fleet.world.engine)

    async def use() -> None:
        task = asyncio.create_task(slices.reconcile(fleet.cluster_id))
        await asyncio.sleep(0)
        with store.change():
            store.delete_host(fleet.infra_env_id, fleet.machines[-1].id)
        await asyncio.sleep(0)
        fleet.poll(fleet.machines[-2])
        await task

    asyncio.run(use())
    found = {host.id: host.status.value for host in store.hosts()}
    assert len(found) == 3 * SLICE - 1
    assert found.pop(fleet.machines[-2].id) != "disconnected"
    assert set(found.values()) == {"disconnected"}
    store.close()


# how it is measured


def test_sizes_tell_the_share_and_the_longest() -> None:
    sizes = Sizes()
    assert (sizes.share(0.99), sizes.longest, sizes.turns) == (0.0, 0.0, 0)
    for number in range(1, 1001):
        sizes.note(number / 1000)
    assert (sizes.longest, sizes.turns) == (1.0, 1000)
    for part in (0.01, 0.5, 0.9, 0.99, 1.0):
        assert part <= sizes.share(part) <= part * 2 ** (1 / lag.STEPS) + 0.001
    assert sizes.share(1.0) == 1.0
    for odd in (0.0, 1e-9, 1e-6, 1e9):
        sizes.note(odd)
    assert sizes.longest == 1e9
    assert sizes.share(0.0) <= 1e-6 * 2 ** (1 / lag.STEPS)


def test_a_busy_turn_is_seen_and_a_waiting_one_is_not() -> None:
    def compute() -> None:
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            pass

    async def busy() -> None:
        compute()
        await asyncio.sleep(0)

    async def waiting() -> None:
        await asyncio.sleep(0.1)
        await asyncio.to_thread(compute)

    found = in_turns(busy)
    assert found.cpu.longest >= 0.03
    # The two clocks are read one after the other, and do not step alike.
    assert found.wall.longest > 0.029
    assert in_turns(waiting).cpu.longest < 0.02


def ready_pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Connected sockets; the first of each has something to read."""
    pairs = [socket.socketpair() for _ in range(count)]
    for _, other in pairs:
        other.send(b"x")
    return pairs


def test_many_events_are_handed_out_a_few_at_a_time_and_none_is_lost() -> None:
    pairs = ready_pairs(2 * AT_A_TIME + 1)
    with Selector(Lag()) as selector:
        keys = [selector.register(mine, selectors.EVENT_READ) for mine, _ in pairs]
        parts = [selector.select(0) for _ in range(3)]
        assert [len(part) for part in parts] == [AT_A_TIME, AT_A_TIME, 1]
        assert {key for part in parts for key, _ in part} == set(keys)
        for mine, _ in pairs[1:]:
            mine.recv(1)
        assert [key for key, _ in selector.select(0)] == [keys[0]]  # found again: it was not read
    for pair in pairs:
        for one in pair:
            one.close()


def test_an_event_of_what_is_no_longer_watched_is_not_handed_out() -> None:
    pairs = ready_pairs(AT_A_TIME + 3)
    with Selector(Lag()) as selector:
        for mine, _ in pairs:
            selector.register(mine, selectors.EVENT_READ)
        first = {key.fd for key, _ in selector.select(0)}
        gone, changed, stays = (mine for mine, _ in pairs if mine.fileno() not in first)
        selector.unregister(gone)
        key = selector.modify(changed, selectors.EVENT_READ, "another reader")
        found = selector.select(0)
        assert [one.fd for one, _ in found] == [stays.fileno()]
        again = {one.fd: one for part in (selector.select(0), selector.select(0)) for one, _ in part}
        assert again[changed.fileno()] is key
        assert gone.fileno() not in again
    for pair in pairs:
        for one in pair:
            one.close()


def test_a_connection_with_the_number_of_one_that_was_closed_is_heard() -> None:
    """Among many that are ready one is closed, and the next to come gets its number, in the same turn."""
    heard: list[bytes] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()
        pairs = ready_pairs(5 * AT_A_TIME)
        newcomers: list[socket.socket] = []
        done = loop.create_future()

        def listen(mine: socket.socket) -> None:
            heard.append(mine.recv(9))
            loop.remove_reader(mine)
            done.set_result(None)

        def replace(mine: socket.socket) -> None:
            mine.recv(1)
            if newcomers:
                return
            victim = pairs[-1][0]
            number = victim.fileno()
            loop.remove_reader(victim)
            victim.close()
            newcomers.extend(socket.socketpair())
            newcomers.sort(key=lambda one: one.fileno() != number)
            assert newcomers[0].fileno() == number
            loop.add_reader(newcomers[0], listen, newcomers[0])
            newcomers[1].send(b"hello")

        loop.add_reader(pairs[0][0], replace, pairs[0][0])
        for mine, _ in pairs[1:]:
            loop.add_reader(mine, mine.recv, 1)
        await asyncio.wait_for(done, 30)
        for mine, _ in pairs[:-1]:
            loop.remove_reader(mine)
        for one in (*newcomers, *(one for pair in pairs for one in pair)):
            one.close()

    in_turns(use)
    assert heard == [b"hello"]


def test_timers_have_their_turn_among_many_connections() -> None:
    """Forty sockets that are ready at once, each a while's work: who sleeps does not wait for all of them."""
    turns: list[str] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()
        pairs = [socket.socketpair() for _ in range(5 * AT_A_TIME)]

        def work(mine: socket.socket) -> None:
            mine.recv(1)
            turns.append("work")
            loop.call_soon(turns.append, "other") if len(turns) == 1 else None

        for mine, other in pairs:
            loop.add_reader(mine, work, mine)
            other.send(b"x")
        while turns.count("work") < len(pairs):
            await asyncio.sleep(0)
        for pair in pairs:
            loop.remove_reader(pair[0])
            for one in pair:
                one.close()

    in_turns(use)
    assert turns.index("other") <= AT_A_TIME


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
    """What the handlers make of two hundred hosts is what the objects are."""

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
            found = json.loads(text)
            found = found[0] if path.startswith("/clusters?") else found
            shown = found["hosts"] if isinstance(found, dict) else found
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


def test_all_events_are_listed_without_stopping_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, readers = sqlite3.connect, set()

    def noted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        readers.add(threading.get_ident())
        found: sqlite3.Connection = connect(*args, **kwargs)
        return found

    async def use(client: Any, fleet: Fleet) -> None:
        store = fleet.world.store
        with store.change():
            for number in range(30_000):
                store.add_event(events.make("host_bootstrap_set", host=fleet.host(fleet.machines[number % 3])))
        user = header(Scheme.USER)
        await client.get(filled("/events?limit=1"), headers=user)
        monkeypatch.setattr("sqlite3.connect", noted)
        longest, begin = 0.0, time.thread_time()
        task = asyncio.create_task(client.get(filled("/events"), headers=user))
        while not task.done():
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)
            begin = time.thread_time()
        answer = await task
        found = await answer.json()
        assert readers
        assert threading.get_ident() not in readers
        assert len(found) == int(answer.headers["Event-Count"]) > 30_000
        assert sum(
            int(answer.headers[f"Severity-Count-{name}"]) for name in ("Info", "Warning", "Error", "Critical")
        ) == len(found)
        assert longest < LIMIT, longest
        page = await (await client.get(filled("/events?limit=5&offset=7&order=descending"), headers=user)).json()
        assert page == found[::-1][7:12]

    serve(tmp_path, use)


def test_a_large_manifest_is_parsed_beside_the_loop(tmp_path: Path) -> None:

    async def use(client: Any, fleet: Fleet) -> None:
        user = header(Scheme.USER)
        path = filled("/clusters/{cluster_id}/manifests", fleet)
        # Seconds of work for the parser.
        text = "kind: ConfigMap\ndata:\n" + "".join(f"  k{number}: v\n" for number in range(60_000))

        async def send(name: str, content: bytes, method: str = "POST", key: str = "content") -> int:
            body = {"file_name": name, key: base64.b64encode(content).decode()}
            answer = await client.request(method, path, json=body, headers=user)
            return int(answer.status)

        longest, begin = 0.0, time.thread_time()
        task = asyncio.create_task(send("a.yaml", text.encode()))
        while not task.done():
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)
            begin = time.thread_time()
        assert await task == 201
        assert longest < LIMIT, longest
        for name, content, status in (
            ("b.yaml", b"a: [", 400),
            ("b.yaml", b"", 400),
            ("b.yaml.patch_1", b"a: [", 400),
            ("b.json.patch", b"a: [", 400),
            ("b.yaml.patch_1", b"- a", 201),
            ("b.txt", b"a: 1", 400),
        ):
            assert await send(name, content) == status, name
        assert await send("a.yaml", b"a: [", "PATCH", "updated_content") == 400
        unknown = await client.post(filled("/clusters/{cluster_id}/manifests"), json={}, headers=user)
        assert unknown.status == 404

    serve(tmp_path, use)


def test_the_database_log_is_folded_in_by_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = Store(path)

    def fill(count: int) -> None:
        for _ in range(count):
            with store.change():
                store.put_file("c", "f", os.urandom(MIB))

    fill(6)
    log = checkpoint.log_of(path)
    before = log.stat().st_size
    # No write has waited for it.
    assert before > checkpoint.LARGE + MIB
    threads: set[str] = set()
    original = checkpoint.fold

    def fold(database: Path) -> None:
        threads.add(threading.current_thread().name)
        original(database)

    with mock.patch.object(checkpoint, "fold", fold):
        asyncio.run(checkpoint.when_large(path))
    assert threads
    assert threading.main_thread().name not in threads
    # The log is used from its beginning again.
    fill(3)
    assert log.stat().st_size == before
    content = store.file("c", "f")
    store.close()
    again = Store(path)
    assert again.file("c", "f") == content
    again.close()


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.db")
    with mock.patch.object(checkpoint, "fold", side_effect=AssertionError):
        asyncio.run(checkpoint.when_large(tmp_path / "x.db"))
    store.close()


def test_a_full_collection_looks_at_what_is_new(tmp_path: Path) -> None:
    async def use() -> None:
        task = asyncio.create_task(heap.tidy())
        await asyncio.sleep(0)
        kept = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
        gc.collect()
        assert gc.get_freeze_count() > 100_000
        begin = time.thread_time()
        gc.collect()
        again = time.thread_time() - begin
        gc.unfreeze()
        begin = time.thread_time()
        gc.collect()
        assert again < (time.thread_time() - begin) / 2
        del kept
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert heap.set_aside not in gc.callbacks
        assert gc.get_freeze_count() == 0

    asyncio.run(use())


def test_what_was_set_aside_is_looked_at_now_and_then() -> None:
    class Thing:
        pass

    async def use() -> None:
        first, second = Thing(), Thing()
        first.other, second.other = second, first  # type: ignore[attr-defined]
        gone = weakref.ref(first)
        with mock.patch.object(heap, "THOROUGH", 0.2):
            task = asyncio.create_task(heap.tidy())
            await asyncio.sleep(0)
            more = [[] for _ in range(gc.get_freeze_count())]  # type: ignore[var-annotated]
            gc.collect()
            del first, second
            gc.collect()
            assert gone() is not None
            end = time.monotonic() + 20
            while gone() is not None:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            del more
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(use())


def test_making_images_leaves_threads_for_the_others(tmp_path: Path) -> None:

    async def use(client: Any, fleet: Fleet) -> None:
        service = client.app[SERVICE]
        stop = threading.Event()
        slow = [asyncio.create_task(service.slowly(stop.wait, 60)) for _ in range(40)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 20) == 1
        stop.set()
        assert await asyncio.gather(*slow) == [True] * 40

    serve(tmp_path, use)
