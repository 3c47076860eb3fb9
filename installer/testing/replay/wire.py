"""The network between hosts and service: TCP connections in memory, with latency, and whatever goes wrong with them.

A client's end is what ``socket.create_connection`` returns, so that all of the real client is in use; the service's end
is a transport of aiohttp's server, so that all of HTTP is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from installer.testing.replay.turns import Workers

#: How long after a late request its connection ends, s.
ANSWERED = 60.0


class Fate(Enum):
    """The fate of a piece of data: it arrives; nothing arrives any more; the connection is reset.

    Late: the client's end is reset, and the service gets it afterwards, as what a proxy or a full queue still holds. So
    it may come after what its sender asks next.
    """

    ARRIVES = "arrives"
    LOST = "lost"
    RESET = "reset"
    LATE = "late"


class Weather(Protocol):
    """The network's state."""

    def delay(self) -> float:
        """Return the time (s) that the next piece takes."""

    def fate(self, host: str) -> Fate:
        """Return what becomes of the next piece to or from this host."""

    def lateness(self) -> float:
        """Return how much later (s) than the client's reset a piece arrives."""


class Network:
    """Connections to one service. ``accept`` makes its end of one, None while nobody listens."""

    def __init__(self, workers: Workers, weather: Weather, addresses: Callable[[str], str]) -> None:
        self.workers, self.weather, self._addresses = workers, weather, addresses
        self.accept: Callable[[], asyncio.Protocol] | None = None
        self._links: dict[Link, None] = {}

    def connect(self, address: tuple[str, int], timeout: float) -> ClientSocket:
        """As socket.create_connection, from a worker. Raises OSError."""
        host = self.workers.me().host
        if self.weather.fate(host) is Fate.LOST:
            self.workers.sleep(timeout)
            raise TimeoutError("timed out")
        self.workers.sleep(self.weather.delay())
        if self.accept is None:
            raise ConnectionRefusedError(111, "Connection refused")
        link = Link(self, host, self._addresses(host), self.accept())
        self._links[link] = None
        return link.client

    def gone(self, link: Link) -> None:
        """Forget a connection that has ended."""
        self._links.pop(link, None)

    def cut(self) -> None:
        """End all connections: the service's process has ended."""
        self.accept = None
        for link in tuple(self._links):
            link.reset()


class Link:
    """One connection, both of its ends."""

    def __init__(self, network: Network, host: str, address: str, protocol: asyncio.Protocol) -> None:
        self._network, self._host, self._protocol = network, host, protocol
        self._loop = network.workers.loop
        self.client = ClientSocket(network.workers, self)
        self.server = ServerTransport(self, address, self._loop)
        # When the last piece in each direction arrives: none overtakes another.
        self._arrivals = {True: 0.0, False: 0.0}
        self._silent, self._open = False, True
        protocol.connection_made(self.server)

    def send(self, data: bytes | None, to_server: bool) -> None:
        """Send a piece, or the end of the stream."""
        if self._silent or not self._open:
            return
        fate = self._network.weather.fate(self._host)
        if fate is Fate.LOST:
            self._silent = True
            return
        # Timers of the same moment have no order.
        at = max(self._arrivals[to_server] + 1e-6, self._loop.time() + self._network.weather.delay())
        self._arrivals[to_server] = at
        if fate is Fate.RESET:
            self._loop.call_at(at, self.reset)
        elif fate is Fate.LATE and to_server:
            self._silent = True
            self.client.arrive(None, reset=True)
            late = at + self._network.weather.lateness()
            self._loop.call_at(late, self._to_server, data)
            # What has come is answered, to nobody.
            self._loop.call_at(late + ANSWERED, self.reset)
        else:
            self._loop.call_at(at, self._to_server if to_server else self.client.arrive, data)

    def _to_server(self, data: bytes | None) -> None:
        if not self._open:
            return
        if data is None:
            self._lose(None)
        else:
            self._protocol.data_received(data)

    def reset(self) -> None:
        """Tell both ends that the connection is no more."""
        if self._open:
            self._lose(ConnectionResetError(104, "Connection reset by peer"))
            if not self._silent:
                self.client.arrive(None, reset=True)

    def _lose(self, error: Exception | None) -> None:
        self._open = False
        self._network.gone(self)
        self._protocol.connection_lost(error)

    def server_closes(self) -> None:
        """Note that the service has closed its end: what it wrote before still arrives."""
        if self._open:
            self.send(None, False)
            self._loop.call_soon(self._lose_if_open)

    def _lose_if_open(self) -> None:
        if self._open:
            self._lose(None)


class ServerTransport(asyncio.Transport):
    """The service's end."""

    def __init__(self, link: Link, address: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": (address, 40000), "sockname": ("192.0.2.1", 8090)})
        self._link, self._closing = link, False
        self._loop = loop

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it."""
        self._link.send(bytes(data), False)

    def is_closing(self) -> bool:
        """Return whether it has been closed."""
        return self._closing

    def close(self) -> None:
        """End the connection."""
        if not self._closing:
            self._closing = True
            self._link.server_closes()

    def abort(self) -> None:
        """End the connection."""
        self.close()

    def is_reading(self) -> bool:
        """Return whether pieces are taken: always."""
        return True

    def pause_reading(self) -> None:
        """Take all the same: pieces are small."""

    def resume_reading(self) -> None:
        """Go on: reading was never paused."""


class ClientSocket:
    """A client's end, as far as installer.assisted.transport uses a socket."""

    def __init__(self, workers: Workers, link: Link) -> None:
        self._workers, self._link = workers, link
        self._timeout: float | None = None
        self._inbox = bytearray()
        self._ended = self._reset = False
        # The socket itself and what reads from it: the connection ends with the last of them.
        self._users = 1
        self._reader: Any = None

    def setsockopt(self, *option: int) -> None:
        """Take any option."""

    def settimeout(self, seconds: float | None) -> None:
        """Bound each of the following operations."""
        self._timeout = seconds

    def sendall(self, data: bytes) -> None:
        """Send it. Raises OSError."""
        if self._reset or self._ended:
            raise ConnectionResetError(104, "Connection reset by peer")
        self._link.send(bytes(data), True)

    def arrive(self, data: bytes | None, reset: bool = False) -> None:
        """Take what the service sent, or its end; whoever waits for it goes on."""
        if data is None:
            self._ended, self._reset = True, self._reset or reset
        else:
            self._inbox += data
        reader, self._reader = self._reader, None
        if reader is not None:
            self._workers.run(reader)

    def is_readable(self) -> bool:
        """Return whether there is something to read, or nothing will come any more."""
        return bool(self._inbox) or self._ended

    def makefile(self, mode: str, buffering: int) -> ClientSocket:
        """Return what reads from it."""
        self._users += 1
        return self

    def readinto(self, buffer: Any) -> int:
        """Wait for data. Raises OSError; 0 at the end."""
        if not self.is_readable():
            self._reader = self._workers.me()
            timer = self._workers.loop.call_later(self._timeout or 0.0, self._time_out, self._reader)
            try:
                self._workers.pause()
            finally:
                timer.cancel()
                self._reader = None
        if self._inbox:
            view = memoryview(buffer).cast("B")
            count = min(len(view), len(self._inbox))
            view[:count] = self._inbox[:count]
            del self._inbox[:count]
            return count
        if self._reset:
            raise ConnectionResetError(104, "Connection reset by peer")
        if not self._ended:
            raise TimeoutError("timed out")
        return 0

    def _time_out(self, reader: Any) -> None:
        self._reader = None
        self._workers.run(reader)

    def close(self) -> None:
        """Close it, or what reads from it."""
        self._users -= 1
        if self._users == 0:
            self._link.send(None, True)
