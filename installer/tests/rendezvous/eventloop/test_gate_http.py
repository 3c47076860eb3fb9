"""Malformed HTTP is refused before any handler, and is not logged as the service's fault."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from installer.testing.service.api_kit import filled
from installer.testing.service.place_kit import AGENT, USER, Place, at, request, until
from installer.testing.service.rendezvous_kit import Running


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
def test_malformed_http_is_refused_before_any_handler(tmp_path: Path, text: str, status: int) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        target = text.replace("/clusters", filled("/clusters"), 1)
        # Whatever is hidden in the body must not be taken for a request of its own.
        hidden = request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER) if status == 400 else ""
        await peer.say((target + hidden).encode("latin-1"))
        assert (await peer.answer())[0] == status
        if status == 400:
            await peer.gone()
        assert place.fleet.world.store.clusters()
        await place.works()

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


@pytest.mark.parametrize(
    "text", ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /x HTTP/1.1\r\n\r\nbody", "G" * 20000, "get / HTTP/1.1\r\n\r\n"]
)
def test_plain_http_is_told_the_https_url(tmp_path: Path, text: str) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect(tls=False)
        for part in (text[:1], text[1:]):
            await peer.say(part)
            await asyncio.sleep(0.05)
        url = place.service.settings.base_url
        assert await peer.answer() == (400, f"This port speaks HTTPS: {url}\n".encode())
        # The rest of a body is read: to reset the connection would take the answer from a client that still writes.
        for _ in range(40):
            await peer.say(b"x" * 65536)
        peer.writer.write_eof()
        assert await peer.gone() < 5
        await place.works()

    at(tmp_path, use)


def test_an_endless_body_of_plain_http_ends_in_time(tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect(tls=False)
        await peer.say("POST /x HTTP/1.1\r\n\r\n")
        assert (await peer.answer())[0] == 400
        begin = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < begin + 10:
                await peer.say(b"x")
                await asyncio.sleep(0.05)
        assert time.monotonic() < begin + 5

    at(tmp_path, use, head=1)


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    service = Running(tmp_path)
    with socket.create_server(("127.0.0.1", service.port)):
        command = [sys.executable, "-m", "installer.rendezvous"]
        ended = subprocess.run(command, env=service.env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    prefix = f"assisted-service: LISTEN_HOST, LISTEN_PORT (--listen): 127.0.0.1:{service.port} cannot be listened on: "
    assert ended.stderr.splitlines()[-1] == f"{prefix}Address already in use"
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\n",
        b"5\r\n{}   zz",
        b"5;\0\r\n",
        b"fffffffffffffffff\r\n",
        b"0\r\nX : y\r\n\r\n",
        b"0\r\nX: " + b"y" * 9000,
    ],
    ids=["a size that is none", "no end", "an extension", "a size past all", "a trailer", "a long trailer"],
)
@pytest.mark.parametrize("where", ["/clusters", "/clusters/{cluster_id}/logs?logs_type=controller", "/nowhere", ""])
def test_a_body_that_breaks_off_is_told_at_once(
    tmp_path: Path, where: str, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Its head has long been read: whoever reads on would wait until it is too late for more."""
    kinds = {"/clusters": "application/json"}

    async def use(place: Place) -> None:
        peer = await place.connect()
        # Nobody reads the body of a GET, whose answer is there first.
        path = where.replace("{cluster_id}", place.fleet.cluster_id) or "/clusters"
        kind = kinds.get(where, "multipart/form-data; boundary=a")
        headers = {**(AGENT if "logs" in path else USER), "Content-Type": kind, "Transfer-Encoding": "chunked"}
        await peer.say(request("POST" if where else "GET", path, headers) + "2\r\n--\r\n")
        unread = {"": 200, "/nowhere": 404}.get(where)
        if unread:
            assert (await peer.answer())[0] == unread
        else:
            await until(lambda: not place.gate.strangers)  # the head is read, and whose it is known
        await peer.say(rest + request("DELETE", f"/clusters/{place.fleet.cluster_id}", USER).encode())
        if not unread:
            status, text = await peer.answer()
            assert status == 400
            assert b"body cannot be decoded: " in text
        assert await peer.gone() < 2
        assert place.fleet.world.store.clusters()
        assert not [file for file in place.service.settings.work_dir.rglob("logs/*/*") if file.is_file()]
        await place.works()

    at(tmp_path, use)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("disposition", ["form-data; name=\xff", "form-data; name*=utf-8''%ff", "; ;;="])
def test_a_form_whose_parts_have_no_name_is_refused(tmp_path: Path, disposition: str) -> None:
    async def use(place: Place) -> None:
        peer = await place.connect()
        body = f"--a\r\nContent-Disposition: {disposition}\r\n\r\nx\r\n--a--\r\n".encode("latin-1")
        kind = {"Content-Type": "multipart/form-data; boundary=a", "Content-Length": str(len(body))}
        await peer.say(request("POST", f"/clusters/{place.fleet.cluster_id}/logs?logs_type=controller", AGENT | kind))
        await peer.say(body)
        status, text = await peer.answer()
        assert (status, json.loads(text)["reason"]) == (400, "body must have one field, upfile")

    at(tmp_path, use)
