"""Single connections and what they have to do in time; gate.py decides who stays."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from installer.rendezvous.eventloop.gate import Gate

# How many connections are looked at for one that is still silent: nearly always it is the oldest.
LOOKS = 32
LONGEST_HEAD = 16 * 1024


class Connection(asyncio.Protocol):
    """One connection, from being accepted to its end; speaks through the HTTP protocol it is given."""

    def __init__(self, gate: Gate, address: str, sock: socket.socket) -> None:
        self._gate, self.address, self.sock = gate, address, sock
        self.stranger = True
        # Only the gate has the connection yet, the HTTP server does not.
        self.unread = True
        # When its greeting began, by the loop's clock.
        self.since = 0.0
        self.busy = self.asked = False
        self.transport: asyncio.Transport | None = None
        self.greeting: asyncio.Task[None] | None = None
        self._http: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is done, or that there is none."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        encrypted = transport.get_extra_info("ssl_object") is not None
        self._http = self._gate.protocol() if encrypted or not self._gate.url else PlainHttp(self._gate.url)
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: of its head, when none is being answered."""
        assert self._http is not None
        if not self.busy:
            self._gate.heads.begin(self)
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """Note that the peer will send nothing more."""
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        """Note that the peer does not read its answer."""
        assert self._http is not None
        self._gate.stalls.begin(self)
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Note that the peer reads its answer again."""
        assert self._http is not None
        self._gate.stalls.end(self)
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place of a connection that is closed."""
        self._gate.free_place(self)
        if self._http is not None:
            self._http.connection_lost(exc)
            self._http = None

    def end(self) -> None:
        """Close the connection at once, whatever it is doing."""
        if self.transport is not None:
            self.transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()
        else:
            self._gate.free_place(self)

    def speaks_http(self) -> bool:
        """Return whether the peer's unread bytes begin a request of plain HTTP.

        A method begins with a letter. A record of TLS begins with its type, which is none.
        """
        try:
            return self.sock.recv(1, socket.MSG_PEEK).isalpha()
        except OSError:
            return False

    def has_input(self) -> bool:
        """Return whether the peer has sent bytes that nobody has read."""
        try:
            waiting = fcntl.ioctl(self.sock, termios.FIONREAD, bytes(4))
        except (OSError, ValueError):
            return False
        return bool(struct.unpack("i", waiting)[0])


class PlainHttp(asyncio.Protocol):
    """The answer to plain HTTP where TLS is spoken: a request's head is read, then the caller learns the right URL."""

    def __init__(self, url: str) -> None:
        self._body = f"This port speaks HTTPS: {url}\n".encode()
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the head is whole, or too long.

        A body is read and dropped until the peer ends, or its time does: unread bytes would reset the connection, and
        the answer would be lost.
        """
        assert self._transport is not None
        if self._answered:
            return
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > LONGEST_HEAD:
            self._answered = True
            head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(self._body)}\r\n"
            self._transport.write(f"{head}Connection: close\r\n\r\n".encode() + self._body)
            self._transport.write_eof()


class Deadline:
    """Connections whose peers have to do something within so many seconds; one timer for all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # When each is to end, soonest first: all have the same time.
        self._ends: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of connections that are waited for."""
        return len(self._ends)

    def begin(self, connection: Connection) -> None:
        """Wait for this connection's peer from now on, unless that has begun already."""
        if connection not in self._ends:
            self._ends[connection] = asyncio.get_running_loop().time() + self._seconds
            self._arm()

    def end(self, connection: Connection) -> None:
        """Note that the peer has done what was waited for."""
        self._ends.pop(connection, None)

    def _arm(self) -> None:
        if self._timer is None and self._ends:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(next(iter(self._ends.values())), self._end_late_ones)

    def _end_late_ones(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        late = []
        for connection, end in self._ends.items():
            if end > now:
                break
            late.append(connection)
        for connection in late:
            del self._ends[connection]
            connection.end()
        self._arm()

    def close(self) -> None:
        """Wait for no peer any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._ends.clear()


class Strangers:
    """Strangers by how far they have come, in each the oldest first."""

    def __init__(self) -> None:
        self.silent: dict[Connection, None] = {}
        self.waiting: dict[Connection, None] = {}
        self.greeted: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.waiting) + len(self.greeted)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that has ended, or has proven something."""
        for some in (self.silent, self.waiting, self.greeted):
            some.pop(connection, None)

    def idle(self) -> Connection | None:
        """Return the oldest connection that has sent nothing."""
        for _, connection in zip(range(LOOKS), self.silent, strict=False):
            if not connection.has_input():
                return connection
        return None

    def overdue(self, before: float) -> Connection | None:
        """Return the oldest one that was answered and proved nothing, or that was greeted before then and is not
        done."""
        for connection in self.greeted:
            if (connection.asked or connection.since <= before) and not connection.has_input():
                return connection
        return None
