"""Connections, with real sockets and TLS: who says nothing goes, who works stays, however many there are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from installer.assisted.auth import Authenticator, Scheme
from installer.rendezvous.api import bodies, serving
from installer.rendezvous.api.context import SLOW_THREADS, Service
from installer.rendezvous.eventloop import gate
from installer.rendezvous.eventloop.gate import Limits
from installer.testing.service.api_kit import KEYS, filled, header
from installer.testing.service.fleet_kit import Fleet, Machine, Network
from installer.testing.service.rendezvous_kit import make_tls, running, wait_for
from installer.testing.service.world_kit import World

USER, AGENT = header(Scheme.USER), header(Scheme.AGENT)
FORM = b'--a\r\nContent-Disposition: form-data; name="upfile"; filename="x"\r\n\r\n'
Use = Callable[["Place"], Awaitable[None]]


class Place:
    """A service that listens, with limits of its own."""

    def __init__(self, service: Service, fleet: Fleet, context: ssl.SSLContext) -> None:
        assert service.gate is not None
        self.service, self.fleet, self.context, self.gate = service, fleet, context, service.gate
        self.peers: list[Peer] = []

    async def connect(self, tls: bool = True, local: str = "127.0.0.1") -> Peer:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            self.gate.port,
            ssl=self.context if tls else None,
            server_hostname="127.0.0.1" if tls else None,
            local_addr=(local, 0),
        )
        self.peers.append(Peer(reader, writer))
        return self.peers[-1]

    async def works(self) -> None:
        """Somebody with a token is served, on a connection of its own."""
        peer = await self.connect()
        assert await peer.get("/clusters", USER) == 200
        peer.close()


class Peer:
    """One connection, seen from outside."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)
        length = next((int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0)
        return int(head.split()[1]), await asyncio.wait_for(self.reader.readexactly(length), 20)

    async def get(self, path: str, headers: dict[str, str]) -> int:
        await self.say(request("GET", path, headers))
        return (await self.answer())[0]

    async def gone(self) -> float:
        """Seconds until the other side ends it, at most 20."""
        begin = time.monotonic()
        try:
            while await asyncio.wait_for(self.reader.read(65536), 20):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        return time.monotonic() - begin

    async def is_gone(self) -> bool:
        try:
            return not await asyncio.wait_for(self.reader.read(1), 0.05)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            return True

    def close(self) -> None:
        self.writer.transport.abort()


def request(method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> str:
    lines = [f"{method} {filled(path)} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines) + "\r\n\r\n" + ("" if body is None else body.decode())


def at(directory: Path, use: Use, **limits: Any) -> None:
    world = World(directory, AUTH_TYPE="agent-installer-local", EC_PUBLIC_KEY_PEM=KEYS.public_base64)
    fleet = Fleet(world, [Machine(number, Network()) for number in range(3)])
    fleet.discover()
    auth = Authenticator("agent-installer-local", KEYS.public_base64)
    service = Service(world.engine, world.engine.settings, auth, lambda job: {})
    make_tls(directory / "tls")
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(directory / "tls/service.crt", directory / "tls/service.key")
    outside = ssl.create_default_context(cafile=str(directory / "tls/ca.crt"))

    problems: list[Any] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        runner = await serving.opened(service, "127.0.0.1", 0, inside, limits=Limits(**{"head": 10.0, **limits}))
        place = Place(service, fleet, outside)
        try:
            await use(place)
        finally:
            for peer in place.peers:
                peer.close()
                with contextlib.suppress(OSError):
                    await peer.writer.wait_closed()
            await place.gate.close()
            await runner.cleanup()

    try:
        asyncio.run(run())
    finally:
        world.store.close()
    # Nothing has gone wrong where nobody looks.
    assert not problems


# deadlines


def test_who_says_nothing_goes(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        silent = {
            "nothing at all": await place.connect(tls=False),
            "half a handshake": await place.connect(tls=False),
            "a handshake": await place.connect(),
            "half a head": await place.connect(),
            "a head without end": await place.connect(),
        }
        await silent["half a handshake"].say(HALF)
        await silent["half a head"].say("GET /health HTTP/1.1\r\nHost: x\r\nX-")
        await silent["a head without end"].say("GET /health HTTP/1.1\r\nHost: x\r\n")

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                for number in range(1000):
                    await silent["a head without end"].say(f"X-{number}: y\r\n")
                    await asyncio.sleep(0.02)

        task = asyncio.create_task(trickle())
        for what, peer in silent.items():
            assert await peer.gone() < 5, what
        task.cancel()
        assert place.gate.count == 0
        await place.works()

    at(tmp_path, use, head=2.0)


def test_the_next_request_of_a_connection_must_come_as_a_whole_too(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        resting, late = await place.connect(), await place.connect()
        for peer in (resting, late):
            assert await peer.get("/clusters", USER) == 200
        await late.say("GET /health")
        assert await late.gone() < 5
        # A connection may rest for longer than a head may take.
        assert not await resting.is_gone()
        assert await resting.get("/clusters", USER) == 200

    at(tmp_path, use, head=2.0)


def test_a_rest_has_an_end(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        assert await peer.get("/clusters", USER) == 200
        assert 0.5 < await peer.gone() < 10

    at(tmp_path, use, idle=1.0)


def test_a_slow_request_is_one_as_long_as_it_comes_in_time(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        for part in (text := request("GET", "/clusters", USER))[: len(text) // 2], text[len(text) // 2 :]:
            await peer.say(part)
            await asyncio.sleep(0.2)
        assert (await peer.answer())[0] == 200

    at(tmp_path, use, head=5.0)


def test_an_answer_that_takes_long_is_no_silence(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()

        async def long(cluster_id: str) -> None:
            # Longer than a head may take: the request is there, the answer is ours to give.
            await asyncio.sleep(3.0)

        with mock.patch.object(place.service.logs, "forget", long):
            await peer.say(request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER))
            assert (await peer.answer())[0] == 204

    at(tmp_path, use, head=2.0)


def test_who_is_closed_twice_while_it_is_answered_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(place: Place) -> None:
        peer, begin, found = await place.connect(), place.gate.begin, []

        def noted(transport: asyncio.Transport | None) -> None:
            found.append(transport)
            begin(transport)

        over = asyncio.Event()

        async def close(cluster_id: str) -> None:
            for _ in range(2):
                found[-1].close()
            over.set()

        with mock.patch.object(place.gate, "begin", noted), mock.patch.object(place.service.logs, "forget", close):
            await peer.say(request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER))
            await asyncio.wait_for(over.wait(), 20)
            await peer.gone()

    at(tmp_path, use)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_body_that_stops_ends_the_request(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        for path, kind in (
            ("/clusters", "application/json"),
            (f"/clusters/{place.fleet.cluster_id}/logs?logs_type=controller", "multipart/form-data; boundary=a"),
        ):
            peer = await place.connect()
            who = AGENT if "logs" in path else USER
            await peer.say(request("POST", path, {**who, "Content-Type": kind, "Content-Length": "100000"}))
            await peer.say(FORM if "logs" in path else b'{"name"')
            status, text = await peer.answer()
            assert (status, json.loads(text)["code"]) == (408, "408")
            assert b"in 0 s" in text
            assert await peer.gone() < 15
        assert not [file for file in place.service.settings.work_dir.rglob("logs/*/*") if file.is_file()]

    with _window(0.3, 1000):
        at(tmp_path, use, farewell=0.2)


def _window(window: float, least: int) -> Any:
    """Bodies are judged sooner than they are."""
    return mock.patch.object(bodies.steady.__wrapped__, "__defaults__", (window, least))


def test_a_slow_upload_that_goes_on_is_taken(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        path = f"/clusters/{place.fleet.cluster_id}/logs?logs_type=controller"
        peer = await place.connect()
        parts = [b"x" * 700] * 30
        body = FORM + b"".join(parts) + b"\r\n--a--\r\n"
        kind = {"Content-Type": "multipart/form-data; boundary=a", "Content-Length": str(len(body))}
        await peer.say(request("POST", path, {**AGENT, **kind}))
        await peer.say(FORM)
        for part in parts:
            await peer.say(part)
            await asyncio.sleep(0.1)
        await peer.say(b"\r\n--a--\r\n")
        assert (await peer.answer())[0] == 204
        [file] = place.service.logs.files(place.fleet.cluster_id)
        assert file.read_bytes() == b"".join(parts)

    # Several windows, and longer than a head may take.
    with _window(0.5, 100):
        at(tmp_path, use, head=2.0)


def test_a_service_that_reads_slowly_does_not_blame_the_sender(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        from installer.rendezvous.store.logs import Upload

        original = Upload.write

        async def slow(self: Upload, data: bytes) -> None:
            await asyncio.sleep(1.0 if self.size == 0 else 0)
            await original(self, data)

        path = f"/clusters/{place.fleet.cluster_id}/logs?logs_type=controller"
        peer = await place.connect()
        body = FORM + b"x" * 8 * 1024**2 + b"\r\n--a--\r\n"
        kind = {"Content-Type": "multipart/form-data; boundary=a", "Content-Length": str(len(body))}
        with mock.patch.object(Upload, "write", slow):
            await peer.say(request("POST", path, {**AGENT, **kind}))
            await peer.say(body)
            assert (await peer.answer())[0] == 204

    with _window(0.2, 1000):
        at(tmp_path, use)


def test_who_does_not_take_the_answer_goes(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        cluster = place.fleet.cluster_id
        async with place.service.logs.upload(place.service.logs.path(cluster, None)) as upload:
            for _ in range(64):
                await upload.write(bytes(1024**2))
        for kind in ("all", "controller"):
            peer = await place.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.say(request("GET", f"/clusters/{cluster}/logs?logs_type={kind}", USER))
            await _until(lambda: place.service.gate is not None and place.gate.count == 0)
        # Who takes it slowly gets it all.
        peer = await place.connect()
        await peer.say(request("GET", f"/clusters/{cluster}/logs?logs_type=controller", USER))
        assert (await peer.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        left = 64 * 1024**2
        while left:
            data = await asyncio.wait_for(peer.reader.read(1024**2), 20)
            assert data
            left -= len(data)
            await asyncio.sleep(0.001)

    at(tmp_path, use, stalled=1.0, head=30.0)


# places


def test_strangers_make_room_for_each_other_and_nobody_else_is_touched(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers_of_address
        worker = await place.connect()
        assert await worker.get("/clusters", USER) == 200
        silent = [await place.connect(tls=False) for _ in range(most)]
        await _until(lambda: place.gate.count == most + 1)
        assert [await peer.is_gone() for peer in silent] == [False] * most
        more = [await place.connect(tls=False) for _ in range(3)]
        assert [await peer.is_gone() for peer in silent] == [True] * 3 + [False] * (most - 3)
        assert [await peer.is_gone() for peer in more] == [False] * 3
        assert place.gate.count == most + 1
        # A newcomer with something to say takes the oldest's place and gives it back.
        await place.works()
        assert await worker.get("/clusters", USER) == 200
        # Another address has its own.
        left = place.gate.limits.strangers - most
        other = [await place.connect(tls=False, local="127.0.0.2") for _ in range(left)]
        await _until(lambda: place.gate.count >= most + left)
        assert not any([await peer.is_gone() for peer in other])

    at(tmp_path, use, in_all=48, head=60.0)


def test_all_strangers_together_have_so_many_places(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers
        worker = await place.connect()
        assert await worker.get("/clusters", USER) == 200
        peers = [await place.connect(tls=False, local=f"127.0.1.{n % 8}") for n in range(2 * most)]
        await _until(lambda: place.gate.count == most + 1)
        assert [await peer.is_gone() for peer in peers] == [True] * most + [False] * most
        await place.works()
        assert await worker.get("/clusters", USER) == 200

    at(tmp_path, use, in_all=32, head=60.0)


# The first bytes of a handshake, and no more.
HALF = b"\x16\x03\x01\x02\x00\x01\x00"


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

        found = await asyncio.gather(*(agent(number) for number in range(many)), return_exceptions=True)
        assert found == [200] * many
        assert place.gate.count == many

    at(tmp_path, use, in_all=256, head=60.0, patience=60.0)


def test_two_thousand_agents_of_one_address_have_places() -> None:
    limits = Limits()
    assert min(limits.strangers_of_address, limits.of_address) >= 2000
    # In one go, while the service is busy with those who came first.
    assert gate.BACKLOG >= 2000


def test_who_waits_is_not_ended_for_who_comes(tmp_path: Path) -> None:
    """Where nobody is idle, newcomers wait outside, and what an address has too many of goes away."""

    async def use(place: Place) -> None:
        limits = place.gate.limits
        said = []
        for number in range(limits.strangers):
            said.append(await place.connect(tls=False, local=f"127.0.2.{1 + number % 2}"))
            await said[-1].say(HALF)
        await _until(lambda: len(place.gate.strangers.silent) == 0 and place.gate.count == limits.strangers)
        assert len(place.gate.strangers.greeted) == 2
        outside = asyncio.create_task(place.works())
        _, waits = await asyncio.wait([outside], timeout=1.0)
        assert waits
        assert place.gate.count == limits.strangers
        assert not any([await peer.is_gone() for peer in said])
        for peer in said[:2]:
            peer.close()
        await asyncio.wait_for(outside, 20)
        assert not any([await peer.is_gone() for peer in said[2:]])

    at(tmp_path, use, in_all=32, head=60.0, patience=60.0)


def test_an_address_with_too_many_who_said_something_gets_no_more(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        most = place.gate.limits.strangers_of_address
        said = [await place.connect(tls=False) for _ in range(most)]
        for peer in said:
            await peer.say(HALF)
        await _until(lambda: len(place.gate.strangers.silent) == 0 and place.gate.count == most)
        turned_away = await place.connect(tls=False)
        assert await turned_away.gone() < 5
        assert not any([await peer.is_gone() for peer in said])
        # Others are let in at once.
        other = await place.connect(local="127.0.0.2")
        assert await other.get("/clusters", USER) == 200

    at(tmp_path, use, in_all=64, head=60.0, patience=60.0)


def test_who_waits_is_let_in_when_somebodys_time_is_up(tmp_path: Path) -> None:
    """Though nothing else happens then."""

    async def use(place: Place) -> None:
        slow = await place.connect(tls=False)
        await slow.say(HALF)
        await _until(lambda: len(place.gate.strangers.greeted) == 1)
        begin = time.monotonic()
        await asyncio.wait_for(place.works(), 20)
        assert time.monotonic() - begin > 0.9
        assert await slow.is_gone()

    at(tmp_path, use, in_all=32, head=60.0, patience=1.0)


@pytest.mark.parametrize("tls", [False, True])
def test_who_is_slow_is_ended_when_others_wait_and_then_only(tmp_path: Path, tls: bool) -> None:
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
            await _until(lambda: len(place.gate.strangers.greeted) == limits.greeted)
            # Nobody waits: their time is up, and they stay.
            await asyncio.sleep(2 * limits.patience)
            assert place.gate.count == limits.greeted + 1
            # For the first all places are taken, for the second those of its address.
            for local in ("127.0.0.9", "127.0.4.2"):
                peer = await place.connect(local=local)
                assert await asyncio.wait_for(peer.get("/clusters", USER), 10) == 200
            assert await worker.get("/clusters", USER) == 200
            assert [await peer.is_gone() for peer in slow] == [True] * 2 + [False] * (limits.greeted - 2)
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
        assert await turned_away.gone() < 5
        assert place.gate.count == 40
        other = await place.connect(local="127.0.0.2")
        assert await other.get("/clusters", USER) == 200
        assert [await peer.get("/clusters", USER) for peer in workers] == [200] * 40
        workers.pop().close()
        await _until(lambda: place.gate.count == 40)
        await place.works()

    at(tmp_path, use, in_all=64, head=60.0)


def test_places_come_to_an_end_for_all_and_back(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        workers = []
        for number in range(32):
            peer = await place.connect(local=f"127.0.0.{1 + number // 16}")
            assert await peer.get("/clusters", USER) == 200
            workers.append(peer)
        turned_away = await place.connect(tls=False, local="127.0.0.9")
        assert await turned_away.gone() < 5
        assert [await peer.get("/clusters", USER) for peer in workers] == [200] * 32
        for peer in workers[:4]:
            peer.close()
        await _until(lambda: place.gate.count == 28)
        await place.works()

    at(tmp_path, use, in_all=32, head=60.0)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/page/stream", "/clusters"])
def test_only_a_proof_makes_no_stranger(tmp_path: Path, path: str) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        target = path if path != "/clusters" else filled(path)
        await peer.say(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        await peer.answer()
        await asyncio.sleep(0.1)
        assert not await peer.is_gone()
        for _ in range(place.gate.limits.greeted_of_address):
            await (await place.connect(tls=False)).say(HALF)
        assert await peer.gone() < 5

    at(tmp_path, use, in_all=256, head=60.0, patience=60.0)


def test_nothing_is_left_of_those_who_go_in_any_way(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        for tls, said in ((False, b""), (False, b"GET / HTTP/1.1\r\n\r\n"), (True, b""), (True, b"\0" * 100)):
            for _ in range(5):
                peer = await place.connect(tls=tls)
                await peer.say(said)
                peer.close()
        await _until(lambda: place.gate.count == 0)
        assert not place.gate.addresses
        assert not len(place.gate.strangers)
        assert not place.gate.turns
        assert len(place.gate.heads) == 0

    at(tmp_path, use, head=60.0)


async def _until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def test_slow_work_keeps_nobody_out(tmp_path: Path) -> None:
    """Handshakes and the checks of proofs wait for no thread: not for those that make images, nor for any other."""

    async def use(place: Place) -> None:
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        slow = [asyncio.create_task(place.service.slowly(stop.wait, 60)) for _ in range(3 * SLOW_THREADS)]
        slow += [asyncio.ensure_future(loop.run_in_executor(None, stop.wait, 60)) for _ in range(64)]
        try:
            # A token that has not been seen yet, too.
            for who in (USER, AGENT, {"Authorization": KEYS.token("userAuth", exp=2**33)}):
                peer = await place.connect()
                path = "/clusters" if "Authorization" in who else f"/infra-envs/{place.fleet.infra_env_id}"
                assert await asyncio.wait_for(peer.get(path, who), 20) == 200
        finally:
            stop.set()
            assert await asyncio.gather(*slow) == [True] * len(slow)

    at(tmp_path, use)


# what is no good HTTP


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("GET /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400),
        ("POST /clusters HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nhello", 400),
        ("GET /clusters HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n", 400),
        ("GET /clusters HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n", 400),
        ("GET /clusters HTTP/1.1\r\nHost: x\r\nX: " + "y" * 20000 + "\r\n\r\n", 400),
        ("GET /clusters?" + "y" * 20000 + " HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /clusters HTTP/1.1\r\n" + "".join(f"X{n}: y\r\n" for n in range(1000)) + "\r\n", 400),
        ("GET /clusters HTTP/3.0\r\nHost: x\r\n\r\n", 400),
        ("GET /clus\0ters HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("GET /clusters HTTP/1.1\r\nHost: x\r\n\r\n", 401),
        ("GET https://other/clusters HTTP/1.1\r\nHost: x\r\n\r\n", 401),
        ("GET //clusters HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /./clusters HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /x/../clusters HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /clusters%2f HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /clusters;x HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    ],
)
def test_games_with_http_end_at_the_door(tmp_path: Path, text: str, status: int) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        target = text.replace("/clusters", filled("/clusters"), 1)
        # Whatever is hidden in the body must not be taken for a request of its own.
        hidden = request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER) if status == 400 else ""
        await peer.say((target + hidden).encode("latin-1"))
        assert (await peer.answer())[0] == status
        if status == 400:
            assert await peer.gone() < 15
        assert place.fleet.world.store.clusters()
        await place.works()

    at(tmp_path, use)


def test_a_body_is_not_unpacked(tmp_path: Path) -> None:
    """A small one may be large inside."""
    import gzip

    async def use(place: Place) -> None:
        body = gzip.compress(b" " * 1024**2 + b"{}")
        peer = await place.connect()
        headers = {**USER, "Content-Type": "application/json", "Content-Encoding": "gzip"}
        await peer.say(request("POST", "/clusters", {**headers, "Content-Length": str(len(body))}))
        await peer.say(body)
        status, text = await peer.answer()
        assert (status, json.loads(text)["code"]) == (400, 400)
        assert b"not JSON" in text

    at(tmp_path, use)


def test_no_charset_is_the_services_fault(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        kind = {"Content-Type": "application/json; charset=bogus"}
        await peer.say(request("POST", "/clusters", {**USER, **kind}, b"{}"))
        assert (await peer.answer())[0] == 400

    at(tmp_path, use)


def test_what_is_no_http_does_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(place: Place) -> None:
        for text in (
            b"\0" * 10 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nX : y\r\n\r\n",
            b"GET /images/a%0ab/c HTTP/1.1\r\n\r\n",
        ):
            peer = await place.connect()
            await peer.say(text)
            await peer.answer()

    with caplog.at_level("INFO"):
        at(tmp_path, use)
    assert not [record for record in caplog.records if record.name in ("aiohttp.server", "assisted-service")]


# the process


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
            for one in silent:
                one.close()
            wait_for("the silent to be forgotten", lambda: len(os.listdir(files)) < 60)
            assert client.call("GET", "/clusters") == []
    finally:
        for one in silent:
            one.close()
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
            mock.patch.object(resource, "setrlimit") as given,
        ):
            limits = gate.by_files()
        assert limits.in_all == places
        assert [call.args[1] for call in given.call_args_list] == ([] if soft == hard else [(hard, hard)])
        assert 1 <= limits.strangers_of_address < limits.strangers < limits.of_address < limits.in_all
        assert 1 <= limits.greeted_of_address < limits.greeted < limits.strangers_of_address
    with (
        mock.patch.object(resource, "getrlimit", return_value=(1024, 4096)),
        mock.patch.object(resource, "setrlimit", side_effect=ValueError),
    ):
        assert gate.by_files().in_all == 768
    # The swarm's most agents, all behind one address.
    assert Limits().of_address >= 5000


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        import subprocess
        import sys

        second = subprocess.run(
            [sys.executable, "-m", "installer.rendezvous"],
            env={**service.env, "WORK_DIR": str(tmp_path / "second")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1
        assert second.stderr.splitlines()[-1].startswith("assisted-service: LISTEN_HOST, LISTEN_PORT: cannot be")
        assert "Traceback" not in second.stderr
