"""Who is connected: accepts connections, counts them, and ends those that only hold a place.

A *stranger* is a connection that has not proven anything yet (no token that was taken, no signed URL). Strangers have
few places; when those are taken, the oldest stranger goes, never the one that has just come: a host that has something
to say says it within milliseconds, whoever waits is not missed. A proven connection is never ended to make room.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("assisted-service")
# A connection at rest costs about 90 KiB, most of it TLS.
MOST = 8192
# Files, pipes and the database, besides connections.
OTHER_FILES = 256
BACKLOG = 1024


@dataclass(frozen=True)
class Limits:
    """Connections in number, times in seconds."""

    in_all: int = MOST
    # From being accepted until the first request's head is there, the TLS handshake included; of later requests, from
    # their first byte. An emulated host needs seconds for a handshake.
    head: float = 30.0
    # How long an answer waits for a reader that takes nothing of it.
    stalled: float = 120.0
    # How long a connection may rest between two requests.
    idle: float = 75.0
    # How long is waited for the rest of a body that was refused, and for the end of TLS: who is gone sends neither.
    farewell: float = 10.0

    @property
    def of_address(self) -> int:
        """All hosts may be behind one address (NAT, a proxy), and still others find a place."""
        return self.in_all * 5 // 8

    @property
    def strangers(self) -> int:
        """How many may be strangers at a time."""
        return max(1, self.in_all // 8)

    @property
    def strangers_of_address(self) -> int:
        """How many of them from one address."""
        return max(1, self.in_all // 32)


def by_files() -> Limits:
    """Limits for as many files as this process may open, which are as many as it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):
            log.info("not more than %d files can be opened", soft)
    return Limits(in_all=MOST if soft == resource.RLIM_INFINITY else max(32, min(MOST, soft - OTHER_FILES)))


class Door(asyncio.Protocol):
    """One connection, from being accepted to its end; speaks through the HTTP protocol it is given."""

    def __init__(self, gate: Gate, address: str) -> None:
        self._gate, self.address = gate, address
        self.stranger = True
        self.busy = False
        self.transport: asyncio.Transport | None = None
        self.greeting: asyncio.Task[None] | None = None
        self._http: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._http = self._gate.protocol()
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: of its head, when none is being answered."""
        assert self._http is not None
        if not self.busy:
            self._gate.heads.begin(self)
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer says no more."""
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        """The peer does not take what it asked for."""
        assert self._http is not None
        self._gate.stalls.begin(self)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """It has taken some."""
        assert self._http is not None
        self._gate.stalls.end(self)
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """All is over."""
        self._gate.left(self)
        if self._http is not None:
            self._http.connection_lost(exc)
            self._http = None

    def end(self) -> None:
        """End it at once, whatever it is doing."""
        if self.transport is not None:
            self.transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()


class Deadline:
    """Doors that something is awaited of, for at most so many seconds; one timer for all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # When each is to end, soonest first: all have the same time.
        self._ends: dict[Door, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, door: Door) -> None:
        """Start to wait, unless that has begun already."""
        if door not in self._ends:
            self._ends[door] = asyncio.get_running_loop().time() + self._seconds
            self._arm()

    def end(self, door: Door) -> None:
        """It has come."""
        self._ends.pop(door, None)

    def _arm(self) -> None:
        if self._timer is None and self._ends:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(next(iter(self._ends.values())), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        late = []
        for door, end in self._ends.items():
            if end > now:
                break
            late.append(door)
        for door in late:
            del self._ends[door]
            door.end()
        self._arm()

    def close(self) -> None:
        """Wait for nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._ends.clear()


class _Address:
    """What one address has."""

    def __init__(self) -> None:
        self.count = 0
        # Oldest first.
        self.strangers: dict[Door, None] = {}


class Gate:
    """Accepts connections for an HTTP server; ``protocol`` makes the protocol of one."""

    def __init__(
        self, protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None, limits: Limits
    ) -> None:
        self.protocol, self._context, self.limits = protocol, context, limits
        self.heads, self.stalls = Deadline(self.limits.head), Deadline(self.limits.stalled)
        self.count = 0
        self._strangers: dict[Door, None] = {}
        self._addresses: dict[str, _Address] = {}
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """Of the first socket."""
        return int(self._sockets[0].getsockname()[1])

    def listen(self, host: str, port: int) -> None:
        """Accept connections from now on; all addresses of this machine without a host. Raises OSError."""
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        problem: OSError | None = None
        for family, kind, protocol, _, address in found:
            try:
                self._sockets.append(_bound(family, kind, protocol, address))
            except OSError as error:
                # A machine without IPv6 still says that it has its wildcard address.
                problem = error
                if host:
                    break
        if problem is not None and (host or not self._sockets):
            self._close()
            raise problem
        self._accepting = [asyncio.create_task(self._accept(one)) for one in self._sockets]

    async def close(self) -> None:
        """Accept nothing more; connections stay."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._close()
        for door in [door for door in self._strangers if door.transport is None]:
            door.end()
        self.heads.close()
        self.stalls.close()

    def _close(self) -> None:
        for one in self._sockets:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except ConnectionError:
                continue
            except OSError as error:
                # No file is left: the oldest stranger's will be.
                log.error("a connection cannot be accepted: %s", error)
                self._end_one(self._strangers)
                await asyncio.sleep(0.1)
                continue
            address = str(peer[0])
            if self._room(address):
                self._admit(connection, address)
            else:
                connection.close()
            # A flood of connections must not keep those that are in from being served.
            await asyncio.sleep(0)

    def _end_one(self, strangers: dict[Door, None]) -> bool:
        oldest = next(iter(strangers), None)
        if oldest is None:
            return False
        oldest.end()
        # Its place is free now; what it holds goes with the loop's next turns.
        self.left(oldest)
        return True

    def _room(self, address: str) -> bool:
        """Is there a place for one more of this address? Strangers are asked to leave for it."""
        known = self._addresses.get(address)
        if known is not None:
            crowded = len(known.strangers) >= self.limits.strangers_of_address
            if (crowded or known.count >= self.limits.of_address) and not self._end_one(known.strangers):
                return False
        crowded = len(self._strangers) >= self.limits.strangers
        return not (crowded or self.count >= self.limits.in_all) or self._end_one(self._strangers)

    def _admit(self, connection: socket.socket, address: str) -> None:
        door = Door(self, address)
        known = self._addresses.setdefault(address, _Address())
        known.count += 1
        self.count += 1
        known.strangers[door] = self._strangers[door] = None
        self.heads.begin(door)
        door.greeting = asyncio.create_task(self._greet(door, connection))

    async def _greet(self, door: Door, connection: socket.socket) -> None:
        loop, tls = asyncio.get_running_loop(), self._context is not None
        try:
            await loop.connect_accepted_socket(
                lambda: door,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self.limits.head if tls else None,
                ssl_shutdown_timeout=self.limits.farewell if tls else None,
            )
        except (OSError, asyncio.CancelledError):
            # No TLS, gone again, too slow, or asked to leave.
            pass
        finally:
            door.greeting = None
            if door.transport is None:
                self.left(door)

    def left(self, door: Door) -> None:
        """The connection's place is free; more than once is once."""
        known = self._addresses.get(door.address)
        if door.address and known is not None:
            self._forget_stranger(door)
            known.count -= 1
            self.count -= 1
            if not known.count:
                del self._addresses[door.address]
            door.address = ""
        self.heads.end(door)
        self.stalls.end(door)

    def _forget_stranger(self, door: Door) -> None:
        self._strangers.pop(door, None)
        self._addresses[door.address].strangers.pop(door, None)

    def _door(self, transport: asyncio.Transport | None) -> Door | None:
        found = None if transport is None else transport.get_protocol()
        return found if isinstance(found, Door) else None

    def vouch(self, transport: asyncio.Transport | None) -> None:
        """Whoever is connected there has proven something."""
        door = self._door(transport)
        if door is not None and door.stranger and door.address:
            door.stranger = False
            self._forget_stranger(door)

    def begin(self, transport: asyncio.Transport | None) -> None:
        """A request's head is there, and it is being answered."""
        door = self._door(transport)
        if door is not None:
            door.busy = True
            self.heads.end(door)

    def end(self, transport: asyncio.Transport | None) -> None:
        """It has been answered."""
        door = self._door(transport)
        if door is not None:
            door.busy = False


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.setblocking(False)
        one.bind(address)
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one
