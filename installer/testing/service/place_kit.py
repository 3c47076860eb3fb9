"""A service's listening socket with limits of its own, and connections to it as somebody outside has them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from installer.assisted.auth import Scheme
from installer.rendezvous.api import serving
from installer.rendezvous.api.context import Service
from installer.rendezvous.eventloop.gate import Limits
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import filled, header, secured, service_of
from installer.testing.service.rendezvous_kit import make_tls

USER, AGENT = header(Scheme.USER), header(Scheme.AGENT)
# The first bytes of a handshake, and no more.
HALF = b"\x16\x03\x01\x02\x00\x01\x00"
Use = Callable[["Place"], Awaitable[None]]


class Place:
    """A service that listens, with limits of its own."""

    def __init__(self, service: Service, fleet: Fleet, context: ssl.SSLContext) -> None:
        assert service.gate is not None
        self.service, self.fleet, self.context, self.gate = service, fleet, context, service.gate
        self.peers: list[Peer] = []

    async def connect(self, tls: bool = True, local: str = "127.0.0.1") -> Peer:
        """Return a new connection from an address of this machine."""
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
        """Send it as it is."""
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer, awaited for at most 20 seconds each."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)
        length = next((int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0)
        return int(head.split()[1]), await asyncio.wait_for(self.reader.readexactly(length), 20)

    async def get(self, path: str, headers: dict[str, str]) -> int:
        """Return the status of a GET."""
        await self.say(request("GET", path, headers))
        return (await self.answer())[0]

    async def gone(self) -> float:
        """Seconds until the other side ends it. Raises TimeoutError if it is silent and stays for 20."""
        begin = time.monotonic()
        try:
            while await asyncio.wait_for(self.reader.read(65536), 20):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        return time.monotonic() - begin

    async def is_gone(self) -> bool:
        """Return whether the other side has ended it."""
        try:
            return not await asyncio.wait_for(self.reader.read(1), 0.05)
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            return True

    def close(self) -> None:
        """End it without sending anything."""
        self.writer.transport.abort()


def request(method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> str:
    """Return a request as it goes over the wire."""
    lines = [f"{method} {filled(path)} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines) + "\r\n\r\n" + ("" if body is None else body.decode())


def at(directory: Path, use: Use, **limits: Any) -> None:
    """Run `use` with a service of three hosts that listens; limits are `Limits`', a head has 10 seconds unless told."""
    fleet = secured(directory)
    service = service_of(fleet.world)
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
        fleet.world.store.close()
    # No error may have been swallowed by the event loop.
    assert not problems


async def until(seen: Callable[[], bool]) -> None:
    """Wait until it is so, for at most 20 seconds."""
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def gone(peers: Sequence[Peer]) -> list[bool]:
    """Tell of each of these connections if the other side has ended it by now."""
    return list(await asyncio.gather(*(peer.is_gone() for peer in peers)))


async def end_as(peers: Sequence[Peer], wanted: Sequence[bool]) -> None:
    """Wait until those and no others are gone, for at most 20 seconds."""
    end = time.monotonic() + 20
    while (seen := await gone(peers)) != list(wanted):
        assert time.monotonic() < end, seen
