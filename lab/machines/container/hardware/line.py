"""A machine's serial line: its output goes to a file and to the clients of a socket, who may type."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 16
# A machine that never stops talking shall not fill the host's disk. An installation writes less than a MiB.
LOG_BYTES = 64 << 20
_FULL = b"\r\nnode0: this log is full; what follows goes to who is connected only\r\n"


class SerialLine:
    """A pseudo terminal with its log and its socket; `terminal` is the slave's path."""

    def __init__(self, log: Path, socket_path: Path, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._master, slave = os.openpty()
        self.terminal = os.ttyname(slave)
        # Held open: without any opener of the slave the master would only report errors.
        self._slave = slave
        os.set_blocking(self._master, False)
        self.log: BinaryIO = log.open("ab", buffering=0)
        self._left = LOG_BYTES - log.stat().st_size
        socket_path.unlink(missing_ok=True)
        self._path = socket_path
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(socket_path))
        self._server.listen()
        self._server.setblocking(False)
        self._clients: list[socket.socket] = []
        # Input for which the terminal has no room yet.
        self._typing = b""
        selector.register(self._master, selectors.EVENT_READ, self._ready)
        selector.register(self._server, selectors.EVENT_READ, self._connected)

    def say(self, data: bytes) -> None:
        """Write on the line as the machine does."""
        if self._left > 0:
            self.log.write(data[: self._left])
            if self._left <= len(data):
                self.log.write(_FULL)
            self._left -= len(data)
        for client in list(self._clients):
            try:
                client.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                # A client that does not read misses something: the machine does not wait.
                continue
            except OSError:
                self._drop(client)

    def _ready(self) -> None:
        """Handle output of the terminal, or its room for input."""
        if self._typing:
            self._pass_on()
        try:
            data = os.read(self._master, _CHUNK)
        except BlockingIOError:
            return
        self.say(data)

    def drain(self) -> None:
        """Read the output that is left."""
        while True:
            try:
                self.say(os.read(self._master, _CHUNK))
            except OSError:
                return

    def _connected(self) -> None:
        client, _ = self._server.accept()
        client.setblocking(False)
        self._clients.append(client)
        if not self._typing:
            self._listen_to(client)

    def _listen_to(self, client: socket.socket) -> None:
        self._selector.register(client, selectors.EVENT_READ, lambda: self._typed(client))

    def _ignore(self, client: socket.socket) -> None:
        if client in self._selector.get_map():
            self._selector.unregister(client)

    def _typed(self, client: socket.socket) -> None:
        if self._typing or client not in self._clients:
            # Another client's input has just filled the terminal, or output has just found this one gone.
            return
        try:
            # No more than a terminal takes at once.
            data = client.recv(1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return
        self._typing = data
        self._pass_on()
        if self._typing:
            self._selector.modify(self._master, selectors.EVENT_READ | selectors.EVENT_WRITE, self._ready)
            for other in self._clients:
                self._ignore(other)

    def _pass_on(self) -> None:
        """Give the terminal as much input as it takes. Until it has all, further input waits in the sockets."""
        with contextlib.suppress(BlockingIOError):
            while self._typing:
                self._typing = self._typing[os.write(self._master, self._typing) :]
            self._selector.modify(self._master, selectors.EVENT_READ, self._ready)
            for client in self._clients:
                self._ignore(client)
                self._listen_to(client)

    def _drop(self, client: socket.socket) -> None:
        self._ignore(client)
        self._clients.remove(client)
        client.close()

    def close(self) -> None:
        """Hang up."""
        self.drain()
        for client in list(self._clients):
            self._drop(client)
        for thing in (self._master, self._server):
            self._selector.unregister(thing)
        self._server.close()
        self._path.unlink(missing_ok=True)
        os.close(self._master)
        os.close(self._slave)
        self.log.close()
