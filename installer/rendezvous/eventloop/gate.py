"""The gate: accepts connections, counts them, and ends those that only hold a place.

A *stranger* is a connection that has not proven anything yet (no token that was taken, no signed URL). It is *silent*
until its first byte is there, which costs a file and no more; it then *waits*, unread, until it can be *greeted*: TLS
and the first request. Few are greeted at a time, and addresses take turns.

A place is taken only from who does not use it: one that says nothing, one that was answered without having proven
anything, one whose greeting takes too long while others wait; the oldest first. Where no such one is found, newcomers
wait in the kernel's queue. A proven connection is never ended to make room.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass

from installer.rendezvous.eventloop.connections import Connection, Deadline, Strangers

log = logging.getLogger("assisted-service")
# A connection at rest costs about 90 KiB, most of it TLS.
MOST = 8192
# Files, pipes and the database, besides connections.
OTHER_FILES = 256
# Connections that wait in the kernel while nobody can be let in; net.core.somaxconn may make it fewer.
BACKLOG = 4096
#: Seconds between two looks whether somebody's time is up, while others wait.
LOOK = 0.25


@dataclass(frozen=True)
class Limits:
    """Connections in number, times in seconds."""

    in_all: int = MOST
    # From being accepted to the first byte, and from being greeted until the first request's head is there, the TLS
    # handshake included; of later requests, from their first byte.
    head: float = 30.0
    # How long a greeting may take while others wait for its place. An emulated host needs seconds for a handshake.
    patience: float = 10.0
    _: KW_ONLY
    # How long an answer waits for a reader that takes nothing of it.
    stalled: float = 120.0
    # How long a connection may rest between two requests.
    idle: float = 75.0
    # How long to wait for the rest of a refused body, and for the end of TLS: a peer that is gone sends neither.
    farewell: float = 10.0

    @property
    def of_address(self) -> int:
        """All hosts may be behind one address (NAT, a proxy), and still others find a place."""
        return self.in_all * 5 // 8

    @property
    def strangers(self) -> int:
        """The most strangers at a time."""
        return max(1, self.in_all // 2)

    @property
    def strangers_of_address(self) -> int:
        """The most strangers from one address: all agents of a big cluster come at once after a restart."""
        return max(1, self.in_all * 5 // 16)

    @property
    def greeted(self) -> int:
        """The most strangers that are greeted at a time."""
        return max(1, self.in_all // 8)

    @property
    def greeted_of_address(self) -> int:
        """The most strangers from one address that are greeted at a time."""
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


class _Address:
    """The connections of one address."""

    def __init__(self) -> None:
        self.count = 0
        self.strangers = Strangers()


class Gate:
    """Accepts connections for an HTTP server; ``protocol`` makes the protocol of one.

    ``url``: the address, with TLS, in the answer to plain HTTP.
    """

    def __init__(
        self, protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None, limits: Limits, url: str = ""
    ) -> None:
        self.protocol, self._context, self.limits = protocol, context, limits
        self.url = url if context is not None else ""
        self.heads, self.stalls = Deadline(self.limits.head), Deadline(self.limits.stalled)
        self.count = 0
        self.strangers = Strangers()
        self.addresses: dict[str, _Address] = {}
        # Addresses of those who wait, in the order of their turns.
        self.turns: dict[str, None] = {}
        self._next_turn: asyncio.Handle | None = None
        self._soon = False
        # Set when a connection has ended, or has proven something.
        self._changed = asyncio.Event()
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The first socket's port."""
        return int(self._sockets[0].getsockname()[1])

    def listen(self, host: str, port: int) -> None:
        """Accept connections from now on; all addresses of this machine without a host. Raises OSError."""
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        problem: OSError | None = None
        for family, kind, protocol, _, address in addresses:
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
        self._accepting = [asyncio.create_task(self._accept(listening)) for listening in self._sockets]

    async def close(self) -> None:
        """Accept nothing more; connections stay."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._close()
        for some in (self.strangers.silent, self.strangers.waiting, self.strangers.greeted):
            for connection in [connection for connection in some if connection.transport is None]:
                connection.end()
        if self._next_turn is not None:
            self._next_turn.cancel()
        self.heads.close()
        self.stalls.close()

    def _close(self) -> None:
        for listening in self._sockets:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, peer = await loop.sock_accept(listening)
            except ConnectionError:
                continue
            except OSError as error:
                # No file descriptor is left: ending an idle connection gives one back.
                log.error("a connection cannot be accepted: %s", error)
                self._end(self._idle(self.strangers))
                await asyncio.sleep(0.1)
                continue
            await self._admit_or_refuse(sock, str(peer[0]))
            # A flood of connections must not keep those that are in from being served.
            await asyncio.sleep(0)

    async def _admit_or_refuse(self, sock: socket.socket, address: str) -> None:
        with ExitStack() as stack:
            stack.enter_context(sock)
            if not self._has_share(address):
                return
            # Wait until a connection ends; refuse this one where none is going to.
            while self._is_full() and not self._end(self._idle(self.strangers)):
                if not len(self.strangers):
                    return
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK)
            stack.pop_all()
            self._admit(sock, address)

    def _is_full(self) -> bool:
        return self.count >= self.limits.in_all or len(self.strangers) >= self.limits.strangers

    def _idle(self, strangers: Strangers) -> Connection | None:
        """Return a connection that has a place and does not use it, if there is one."""
        return strangers.idle() or self._overdue(strangers)

    def _overdue(self, strangers: Strangers) -> Connection | None:
        return strangers.overdue(asyncio.get_running_loop().time() - self.limits.patience)

    def _end(self, connection: Connection | None) -> bool:
        if connection is None:
            return False
        connection.end()
        # Its place is free at once; its socket and buffers only with the loop's next turns.
        self.free_place(connection)
        return True

    def _has_share(self, address: str) -> bool:
        """Return whether this address may have one more connection. An idle one of it is ended for that."""
        peer = self.addresses.get(address)
        if peer is None:
            return True
        crowded = len(peer.strangers) >= self.limits.strangers_of_address
        return not (crowded or peer.count >= self.limits.of_address) or self._end(self._idle(peer.strangers))

    def _admit(self, sock: socket.socket, address: str) -> None:
        connection = Connection(self, address, sock)
        peer = self.addresses.setdefault(address, _Address())
        peer.count += 1
        self.count += 1
        peer.strangers.silent[connection] = self.strangers.silent[connection] = None
        self.heads.begin(connection)
        asyncio.get_running_loop().add_reader(sock, self._has_spoken, connection)

    def _has_spoken(self, connection: Connection) -> None:
        """Note that a silent connection has sent its first byte, or has ended."""
        if not connection.has_input():
            connection.end()
            return
        asyncio.get_running_loop().remove_reader(connection.sock)
        # Waiting for a greeting is not the peer's delay.
        self.heads.end(connection)
        for strangers in (self.strangers, self.addresses[connection.address].strangers):
            del strangers.silent[connection]
            strangers.waiting[connection] = None
        self.turns.setdefault(connection.address)
        self._take_turns()

    # greeting

    def _take_turns(self) -> None:
        """Greet as many of those who wait as there are places, one of each address in turn."""
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._next_turn, self._soon = None, False
        left = len(self.turns)
        while left and self.turns and self._can_greet(self.strangers, self.limits.greeted):
            left -= 1
            address = next(iter(self.turns))
            del self.turns[address]
            strangers = self.addresses[address].strangers
            if self._can_greet(strangers, self.limits.greeted_of_address) and self._free(strangers):
                self._greet(next(iter(strangers.waiting)))
                left = len(self.turns) + 1
            if strangers.waiting:
                self.turns[address] = None
        if self.turns:
            self._next_turn = asyncio.get_running_loop().call_later(LOOK, self._take_turns)

    def _can_greet(self, strangers: Strangers, most: int) -> bool:
        return len(strangers.greeted) < most or self._overdue(strangers) is not None

    def _free(self, strangers: Strangers) -> bool:
        """Return whether there is room to greet one more of these. An overdue one is ended for that."""
        if len(strangers.greeted) >= self.limits.greeted_of_address:
            return self._end(self._overdue(strangers))
        return len(self.strangers.greeted) < self.limits.greeted or self._end(self._overdue(self.strangers))

    def _greet(self, connection: Connection) -> None:
        connection.since = asyncio.get_running_loop().time()
        for strangers in (self.strangers, self.addresses[connection.address].strangers):
            del strangers.waiting[connection]
            strangers.greeted[connection] = None
        self.heads.begin(connection)
        connection.greeting = asyncio.create_task(self._hand_over(connection))
        connection.greeting.add_done_callback(lambda done: self._handed_over(connection))

    async def _hand_over(self, connection: Connection) -> None:
        connection.unread = False
        loop, tls = asyncio.get_running_loop(), self._context is not None and not connection.speaks_http()
        # No TLS, gone again, too slow, or asked to leave.
        with suppress(OSError, asyncio.CancelledError):
            await loop.connect_accepted_socket(
                lambda: connection,
                connection.sock,
                ssl=self._context if tls else None,
                ssl_handshake_timeout=self.limits.head if tls else None,
                ssl_shutdown_timeout=self.limits.farewell if tls else None,
            )

    def _handed_over(self, connection: Connection) -> None:
        connection.greeting = None
        if connection.transport is None:
            self.free_place(connection)

    def _wake_waiting(self) -> None:
        """Let those who wait look again: a place may be free."""
        self._changed.set()
        if self.turns and not self._soon:
            if self._next_turn is not None:
                self._next_turn.cancel()
            self._next_turn, self._soon = asyncio.get_running_loop().call_soon(self._take_turns), True

    def free_place(self, connection: Connection) -> None:
        """Free the connection's place; to call this again changes nothing."""
        peer = self.addresses.get(connection.address)
        if connection.address and peer is not None:
            self._forget_stranger(connection)
            peer.count -= 1
            self.count -= 1
            if not peer.count:
                del self.addresses[connection.address]
            connection.address = ""
            if connection.unread:
                asyncio.get_running_loop().remove_reader(connection.sock)
                connection.sock.close()
        self.heads.end(connection)
        self.stalls.end(connection)
        self._wake_waiting()

    def _forget_stranger(self, connection: Connection) -> None:
        strangers = self.addresses[connection.address].strangers
        strangers.forget(connection)
        self.strangers.forget(connection)
        if not strangers.waiting:
            self.turns.pop(connection.address, None)

    def _connection_of(self, transport: asyncio.Transport | None) -> Connection | None:
        try:
            protocol = None if transport is None else transport.get_protocol()
        except AttributeError:
            return None  # CPython 3.11: a TLS transport that was closed twice has let go of its protocol
        return protocol if isinstance(protocol, Connection) else None

    def vouch(self, transport: asyncio.Transport | None) -> None:
        """Note that the caller on this transport has shown a token or a signature that was accepted."""
        connection = self._connection_of(transport)
        if connection is not None and connection.stranger and connection.address:
            connection.stranger = False
            self._forget_stranger(connection)
            self._wake_waiting()

    def begin(self, transport: asyncio.Transport | None) -> None:
        """Note that a request's head has come on this transport, and is being answered."""
        connection = self._connection_of(transport)
        if connection is not None:
            connection.busy = connection.asked = True
            self.heads.end(connection)

    def end(self, transport: asyncio.Transport | None) -> None:
        """Note that the request on this transport has been answered."""
        connection = self._connection_of(transport)
        if connection is not None:
            connection.busy = False


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
