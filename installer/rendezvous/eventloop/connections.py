"""Single connections and what they have to do in time; gate.py decides who stays."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import Protocol

# How many connections are looked at for one that is still silent: nearly always it is the oldest.
LOOKS = 32


class Keeper(Protocol):
    """The owner of the doors: makes an HTTP protocol for each, and is told when one ends."""

    protocol: Callable[[], asyncio.Protocol]
    heads: Deadline
    stalls: Deadline

    def free_place(self, door: Door) -> None:
        """The door's connection has ended."""


class Door(asyncio.Protocol):
    """One connection, from being accepted to its end; speaks through the HTTP protocol it is given."""

    def __init__(self, gate: Keeper, address: str, connection: socket.socket) -> None:
        self._gate, self.address, self.connection = gate, address, connection
        self.stranger = True
        # The server does not have it yet, only the gate.
        self.unread = True
        # When it was greeted.
        self.since = 0.0
        self.busy = self.asked = False
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
        self._gate.free_place(self)
        if self._http is not None:
            self._http.connection_lost(exc)
            self._http = None

    def end(self) -> None:
        """End it at once, whatever it is doing."""
        if self.transport is not None:
            self.transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()
        else:
            self._gate.free_place(self)

    def has_input(self) -> bool:
        """Is there something that nobody has read?"""
        try:
            waiting = fcntl.ioctl(self.connection, termios.FIONREAD, bytes(4))
        except (OSError, ValueError):
            return False
        return bool(struct.unpack("i", waiting)[0])


class Deadline:
    """Doors that something is awaited of, for at most so many seconds; one timer for all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # When each is to end, soonest first: all have the same time.
        self._ends: dict[Door, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many doors something is awaited of."""
        return len(self._ends)

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


class Strangers:
    """Strangers by how far they have come, in each the oldest first."""

    def __init__(self) -> None:
        self.silent: dict[Door, None] = {}
        self.waiting: dict[Door, None] = {}
        self.greeted: dict[Door, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.waiting) + len(self.greeted)

    def forget(self, door: Door) -> None:
        """It has gone, or is no stranger any more."""
        for some in (self.silent, self.waiting, self.greeted):
            some.pop(door, None)

    def idle(self) -> Door | None:
        """The oldest one that says nothing."""
        for _, door in zip(range(LOOKS), self.silent, strict=False):
            if not door.has_input():
                return door
        return None

    def overdue(self, before: float) -> Door | None:
        """The oldest one that was answered and proved nothing, or that was greeted before then and is not done."""
        for door in self.greeted:
            if (door.asked or door.since <= before) and not door.has_input():
                return door
        return None
