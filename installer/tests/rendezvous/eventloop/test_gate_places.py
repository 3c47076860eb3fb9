"""Connections, with real sockets and TLS: there is a place for who works, however many only hold one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

from installer.rendezvous.api.context import SLOW_THREADS
from installer.rendezvous.eventloop import gate
from installer.rendezvous.eventloop.gate import Limits
from installer.testing.service.api_kit import KEYS, filled
from installer.testing.service.place_kit import AGENT, HALF, USER, Peer, Place, at, end_as, gone, until
from installer.testing.service.rendezvous_kit import running, wait_for


def test_strangers_make_room_for_each_other_and_nobody_else_is_touched(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers_of_address
        worker = await place.connect()
        assert await worker.get("/clusters", USER) == 200
        silent = [await place.connect(tls=False) for _ in range(most)]
        await until(lambda: place.gate.count == most + 1)
        assert await gone(silent) == [False] * most
        more = [await place.connect(tls=False) for _ in range(3)]
        await end_as(silent, [True] * 3 + [False] * (most - 3))
        assert await gone(more) == [False] * 3
        assert place.gate.count == most + 1
        # A newcomer with something to say takes the oldest's place and gives it back.
        await place.works()
        assert await worker.get("/clusters", USER) == 200
        # Another address has its own.
        left = place.gate.limits.strangers - most
        other = [await place.connect(tls=False, local="127.0.0.2") for _ in range(left)]
        await until(lambda: place.gate.count >= most + left)
        assert not any(await gone(other))

    at(tmp_path, use, in_all=48, head=60.0)


def test_all_strangers_together_have_so_many_places(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers
        worker = await place.connect()
        assert await worker.get("/clusters", USER) == 200
        peers = [await place.connect(tls=False, local=f"127.0.1.{n % 8}") for n in range(2 * most)]
        await until(lambda: place.gate.count == most + 1)
        await end_as(peers, [True] * most + [False] * most)
        await place.works()
        assert await worker.get("/clusters", USER) == 200

    at(tmp_path, use, in_all=32, head=60.0)


@pytest.mark.parametrize("addresses", [1, 20])
def test_all_agents_of_one_address_may_come_at_once(tmp_path: Path, addresses: int) -> None:
    """As after the service's own start, from behind a NAT or not: more than can be greeted, and none is lost."""

    async def use(place: Place) -> None:
        many = 2 * place.gate.limits.greeted
        assert many <= place.gate.limits.strangers_of_address

        async def agent(number: int) -> int:
            peer = await place.connect(local=f"127.0.3.{1 + number % addresses}")
            # Each has its own pace.
            await asyncio.sleep(0.01 * (number % 10))
            return await peer.get("/clusters", USER)

        results = await asyncio.gather(*(agent(number) for number in range(many)), return_exceptions=True)
        assert results == [200] * many
        assert place.gate.count == many

    at(tmp_path, use, in_all=256, head=60.0, patience=60.0)


def test_a_waiting_connection_is_not_ended_for_a_new_one(tmp_path: Path) -> None:
    """While nobody is idle, newcomers wait outside, and an address's surplus goes away."""

    async def use(place: Place) -> None:
        limits = place.gate.limits
        peers = []
        for number in range(limits.strangers):
            peers.append(await place.connect(tls=False, local=f"127.0.2.{1 + number % 2}"))
            await peers[-1].say(HALF)
        await until(lambda: len(place.gate.strangers.silent) == 0 and place.gate.count == limits.strangers)
        assert len(place.gate.strangers.greeted) == 2
        outside = asyncio.create_task(place.works())
        _, waits = await asyncio.wait([outside], timeout=1.0)
        assert waits
        assert place.gate.count == limits.strangers
        assert not any(await gone(peers))
        for peer in peers[:2]:
            peer.close()
        await asyncio.wait_for(outside, 20)
        assert not any(await gone(peers[2:]))

    at(tmp_path, use, in_all=32, head=60.0, patience=60.0)


def test_an_address_with_too_many_who_said_something_gets_no_more(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers_of_address
        peers = [await place.connect(tls=False) for _ in range(most)]
        for peer in peers:
            await peer.say(HALF)
        await until(lambda: len(place.gate.strangers.silent) == 0 and place.gate.count == most)
        turned_away = await place.connect(tls=False)
        await turned_away.gone()
        assert not any(await gone(peers))
        # Others are let in at once.
        other = await place.connect(local="127.0.0.2")
        assert await other.get("/clusters", USER) == 200

    at(tmp_path, use, in_all=64, head=60.0, patience=60.0)


def test_a_waiting_connection_is_let_in_when_a_greeting_takes_too_long(tmp_path: Path) -> None:
    """Though nothing else happens then."""

    async def use(place: Place) -> None:
        begin = time.monotonic()  # before its time begins: a machine that is busy then makes this longer, never shorter
        slow = await place.connect(tls=False)
        await slow.say(HALF)
        await until(lambda: len(place.gate.strangers.greeted) == 1)
        await asyncio.wait_for(place.works(), 20)
        assert time.monotonic() - begin > 0.9
        assert await slow.is_gone()

    at(tmp_path, use, in_all=32, head=60.0, patience=1.0)


@pytest.mark.parametrize("tls", [False, True])
def test_a_slow_greeting_is_ended_only_while_others_wait(tmp_path: Path, tls: bool) -> None:
    """A handshake or a head that comes byte by byte keeps nobody out for long, of its own address or another."""

    async def use(place: Place) -> None:
        limits = place.gate.limits
        worker = await place.connect()
        assert await worker.get("/clusters", USER) == 200
        slow = [await place.connect(tls=tls, local=f"127.0.4.{1 + number % 4}") for number in range(limits.greeted)]

        async def trickle(peer: Peer) -> None:
            text = HALF + bytes(500) if not tls else b"GET / HTTP/1.1\r\nX: " + b"x" * 5000
            with contextlib.suppress(ConnectionError):
                for byte in text:
                    await peer.say(bytes([byte]))
                    await asyncio.sleep(0.05)

        tasks = [asyncio.create_task(trickle(peer)) for peer in slow]
        try:
            await until(lambda: len(place.gate.strangers.greeted) == limits.greeted)
            # Nobody waits: their time is up, and they stay.
            await asyncio.sleep(2 * limits.patience)
            assert place.gate.count == limits.greeted + 1
            # For the first all places are taken, for the second those of its address.
            for local in ("127.0.0.9", "127.0.4.2"):
                peer = await place.connect(local=local)
                assert await asyncio.wait_for(peer.get("/clusters", USER), 10) == 200
            assert await worker.get("/clusters", USER) == 200
            await end_as(slow, [True] * 2 + [False] * (limits.greeted - 2))
        finally:
            for task in tasks:
                task.cancel()

    at(tmp_path, use, in_all=128, head=60.0, patience=0.5)


def test_one_address_never_has_all_places(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        workers = []
        for _ in range(40):
            peer = await place.connect()
            assert await peer.get("/clusters", USER) == 200
            workers.append(peer)
        # Its next one finds no place, though it has a token: it has shown none yet.
        turned_away = await place.connect(tls=False)
        await turned_away.gone()
        assert place.gate.count == 40
        other = await place.connect(local="127.0.0.2")
        assert await other.get("/clusters", USER) == 200
        assert [await peer.get("/clusters", USER) for peer in workers] == [200] * 40
        workers.pop().close()
        await until(lambda: place.gate.count == 40)
        await place.works()

    at(tmp_path, use, in_all=64, head=60.0)


def test_places_run_out_and_are_free_again(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        workers = []
        for number in range(32):
            peer = await place.connect(local=f"127.0.0.{1 + number // 16}")
            assert await peer.get("/clusters", USER) == 200
            workers.append(peer)
        turned_away = await place.connect(tls=False, local="127.0.0.9")
        await turned_away.gone()
        assert [await peer.get("/clusters", USER) for peer in workers] == [200] * 32
        for peer in workers[:4]:
            peer.close()
        await until(lambda: place.gate.count == 28)
        await place.works()

    at(tmp_path, use, in_all=32, head=60.0)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/page/stream", "/clusters"])
def test_only_a_token_or_signature_ends_being_a_stranger(tmp_path: Path, path: str) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        target = path if path != "/clusters" else filled(path)
        await peer.say(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.answer()
        await asyncio.sleep(0.1)
        assert not await peer.is_gone()
        for _ in range(place.gate.limits.greeted_of_address):
            await (await place.connect(tls=False)).say(HALF)
        await peer.gone()

    at(tmp_path, use, in_all=256, head=60.0, patience=60.0)


def test_connections_that_end_in_any_way_leave_nothing(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        for tls, first_bytes in ((False, b""), (False, b"GET / HTTP/1.1\r\n\r\n"), (True, b""), (True, b"\0" * 100)):
            for _ in range(5):
                peer = await place.connect(tls=tls)
                await peer.say(first_bytes)
                peer.close()
        await until(lambda: place.gate.count == 0)
        assert not place.gate.addresses
        assert not len(place.gate.strangers)
        assert not place.gate.turns
        assert len(place.gate.heads) == 0

    at(tmp_path, use, head=60.0)


def test_slow_work_does_not_keep_new_connections_out(tmp_path: Path) -> None:
    """Handshakes and the checks of proofs wait for no thread: not for those that make images, nor for any other."""

    async def use(place: Place) -> None:
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        slow = [asyncio.create_task(place.service.slowly(stop.wait, 60)) for _ in range(3 * SLOW_THREADS)]
        slow += [asyncio.ensure_future(loop.run_in_executor(None, stop.wait, 60)) for _ in range(64)]
        try:
            # A token that has not been seen yet, too.
            for caller in (USER, AGENT, {"Authorization": KEYS.token("userAuth", exp=2**33)}):
                peer = await place.connect()
                path = "/clusters" if "Authorization" in caller else f"/infra-envs/{place.fleet.infra_env_id}"
                assert await asyncio.wait_for(peer.get(path, caller), 20) == 200
        finally:
            stop.set()
            assert await asyncio.gather(*slow) == [True] * len(slow)

    at(tmp_path, use)


def test_silent_connections_do_not_stop_a_service(tmp_path: Path) -> None:
    """As it is started: more silence than there is room for, and somebody who works."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # As many files as the service will have.
    most = gate.by_files().strangers_of_address
    silent: list[socket.socket] = []
    try:
        with running(tmp_path) as service:
            client = service.client("userAuth")
            silent += [socket.create_connection(("127.0.0.1", service.port), timeout=10) for _ in range(most + 200)]
            assert client.call("GET", "/clusters") == []
            files = f"/proc/{service.process.pid}/fd"
            assert most - 10 < len(os.listdir(files)) < most + 60
            for sock in silent:
                sock.close()
            wait_for("the silent to be forgotten", lambda: len(os.listdir(files)) < 60)
            assert client.call("GET", "/clusters") == []
    finally:
        for sock in silent:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limits_follow_the_files_a_process_may_open() -> None:
    unlimited = resource.RLIM_INFINITY
    for soft, hard, places in (
        (1024, 1024, 768),
        (1024, 4096, 3840),
        (1024, 10**6, gate.MOST),
        (unlimited, unlimited, gate.MOST),
        (100, 100, 32),
    ):
        with (
            mock.patch.object(resource, "getrlimit", return_value=(soft, hard)),
            mock.patch.object(resource, "setrlimit") as setrlimit,
        ):
            limits = gate.by_files()
        assert limits.in_all == places
        assert [call.args[1] for call in setrlimit.call_args_list] == ([] if soft == hard else [(hard, hard)])
        assert 1 <= limits.strangers_of_address < limits.strangers < limits.of_address < limits.in_all
        assert 1 <= limits.greeted_of_address < limits.greeted < limits.strangers_of_address
    with (
        mock.patch.object(resource, "getrlimit", return_value=(1024, 4096)),
        mock.patch.object(resource, "setrlimit", side_effect=ValueError),
    ):
        assert gate.by_files().in_all == 768
    # The swarm's most agents, all behind one address.
    assert Limits().of_address >= 5000
