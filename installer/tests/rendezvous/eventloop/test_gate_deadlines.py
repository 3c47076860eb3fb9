"""Connections, with real sockets and TLS: who says nothing goes, who works stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from installer.rendezvous.api import bodies
from installer.testing.service.place_kit import AGENT, HALF, USER, Place, at, request, until

FORM = b'--a\r\nContent-Disposition: form-data; name="upfile"; filename="x"\r\n\r\n'


def test_a_silent_connection_is_ended(tmp_path: Path) -> None:
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
                for number in range(5000):
                    await silent["a head without end"].say(f"X-{number}: y\r\n")
                    await asyncio.sleep(0.02)

        task = asyncio.create_task(trickle())
        for kind, peer in silent.items():
            assert await peer.gone() < 20, kind
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
        await late.gone()
        # A connection may rest for longer than a head may take.
        assert not await resting.is_gone()
        assert await resting.get("/clusters", USER) == 200

    at(tmp_path, use, head=2.0)


def test_a_connection_at_rest_is_ended(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        assert await peer.get("/clusters", USER) == 200
        assert await peer.gone() > 0.5

    at(tmp_path, use, idle=1.0)


def test_a_slow_request_within_its_time_is_answered(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        for part in (text := request("GET", "/clusters", USER))[: len(text) // 2], text[len(text) // 2 :]:
            await peer.say(part)
            await asyncio.sleep(0.2)
        assert (await peer.answer())[0] == 200

    at(tmp_path, use, head=5.0)


def test_a_connection_that_waits_for_its_answer_is_not_ended(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()

        async def long(cluster_id: str) -> None:
            # Longer than a head may take: the request is there, the answer is ours to give.
            await asyncio.sleep(3.0)

        with mock.patch.object(place.service.logs, "forget", long):
            await peer.say(request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER))
            assert (await peer.answer())[0] == 204

    at(tmp_path, use, head=2.0)


def test_closing_twice_during_an_answer_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(place: Place) -> None:
        peer, begin, messages = await place.connect(), place.gate.begin, []

        def noted(transport: asyncio.Transport | None) -> None:
            messages.append(transport)
            begin(transport)

        over = asyncio.Event()

        async def close(cluster_id: str) -> None:
            for _ in range(2):
                messages[-1].close()
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
            caller = AGENT if "logs" in path else USER
            await peer.say(request("POST", path, {**caller, "Content-Type": kind, "Content-Length": "100000"}))
            await peer.say(FORM if "logs" in path else b'{"name"')
            status, text = await peer.answer()
            assert (status, json.loads(text)["code"]) == (408, "408")
            assert b"in 0 s" in text
            await peer.gone()
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


def test_a_reader_that_takes_nothing_is_ended(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        cluster = place.fleet.cluster_id
        async with place.service.logs.upload(place.service.logs.path(cluster, None)) as upload:
            for _ in range(64):
                await upload.write(bytes(1024**2))
        for kind in ("all", "controller"):
            peer = await place.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.say(request("GET", f"/clusters/{cluster}/logs?logs_type={kind}", USER))
            await until(lambda: place.service.gate is not None and place.gate.count == 0)
        # A caller that reads slowly gets it all.
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
