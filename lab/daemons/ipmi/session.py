"""A client's session with an IPMI BMC, and the serial line in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyghmi.ipmi.private import constants, serversession

from drivers.console import FileConsole

_RETRY_SECONDS = 1.0
CHUNK_BYTES = 200
# Payload types of an open session's packets: IPMI messages, and the serial line (IPMI 2.0, table 13-16).
IN_SESSION = (0, 1)
# Completion code (IPMI 2.0, table 5-2).
WRONG_LENGTH = 0xC7
# NACK, in the status of a packet of the serial line (table 15-2).
_NACK = 0b0100_0000


class Session(serversession.ServerSession):  # type: ignore[misc]  # pyghmi has no types
    """A client's session, from its request to open one. `heard` is when its last packet came."""

    # pyghmi reads these before it has set them.
    k1 = None
    sol_handler: Callable[[bytearray], None] | None = None
    ipmicallback: Callable[[dict[str, Any]], None] | None = None
    clientpriv = 2

    def __new__(cls, *_arguments: Any) -> Session:
        """Make another one for each request; pyghmi has one a peer."""
        return object.__new__(cls)

    def __init__(self, server: Any, peer: Any, request: bytearray) -> None:
        self.heard = time.monotonic()
        self._last: tuple[Any, ...] = ()
        self._answer: dict[str, Any] = {}
        self._handshake = self._handshake_answer = b""
        super().__init__(server.authdata, None, peer, server.serversocket, request, server.uuid, server)
        # The registry of pyghmi's loop, which does not run.
        self.bmc_handlers.pop(peer, None)

    @property
    def id(self) -> bytes:
        """The BMC's name for it."""
        return bytes(self.managedsessionid)

    @property
    def open(self) -> bool:
        """Tell whether the client has proved that it knows the password."""
        return self.ipmicallback is not None

    def receive(self, packet: bytearray) -> None:
        """Act on a packet: of the handshake until the session is open, and from then on of the session. A message of
        the handshake that is sent again gets the same answer: another would have other random numbers in it."""
        in_session = packet[5] & 0b0011_1111 in IN_SESSION
        if not in_session and packet == self._handshake:
            self.socket.sendto(self._handshake_answer, self.sockaddr)
        elif in_session is self.open:
            before, received = self.netpacket, bytes(packet)
            self._handle_ipmi2_packet(packet)
            if not in_session and self.netpacket is not before:
                self._handshake, self._handshake_answer = received, bytes(self.netpacket)
            self.heard = time.monotonic()

    def handle_client_request(self, request: dict[str, Any]) -> None:
        """Do it; one that is sent again, since the answer took long or was lost, gets the same answer."""
        key = (self.seqlun, request["netfn"], request["command"], bytes(request["data"]))
        if key == self._last:
            super()._send_ipmi_net_payload(**self._answer)
            return
        try:
            super().handle_client_request(request)
        except IndexError:
            self.send_ipmi_response(code=WRONG_LENGTH)
        self._last = key

    def _send_ipmi_net_payload(self, **answer: Any) -> None:
        self._answer = answer
        super()._send_ipmi_net_payload(**answer)

    def close_server_session(self) -> None:
        """End it, when the client says so."""
        self.bmc.forget(self)


class Line:
    """The serial line in a client's session (SOL; IPMI 2.0, chapter 15): output from now on, a chunk at a time, sent
    again until the client acknowledges it."""

    def __init__(self, session: Session, console: FileConsole) -> None:
        self.session = session
        self._console = console
        self._position = self._size()
        self._chunk = b""
        self._number = 0
        self._sent = 0.0
        self._typed = 0
        session.sol_handler = self.receive

    def _size(self) -> int:
        log = self._console.log
        return log.stat().st_size if log.exists() else 0

    def receive(self, payload: bytearray) -> None:
        """Take what the client types, or its receipt of the chunk."""
        number, acknowledged, count, status, *typed = payload
        if number := number & 0b1111:
            self._send(bytes([0, number, len(typed), 0]))
            # Sent again by a client that has missed the acknowledgement.
            if number != self._typed:
                self._typed = number
                self._console.send(bytes(typed).decode(errors="replace"))
        if self._chunk and acknowledged & 0b1111 == self._number:
            self._chunk = self._chunk[count:] if status & _NACK else b""
            self._sent = 0.0
            self.show()

    def show(self) -> None:
        """Send what the machine has said, or what the client has not acknowledged."""
        if time.monotonic() < self._sent + _RETRY_SECONDS:
            return
        # A full log is cut.
        self._position = min(self._position, self._size())
        if not self._chunk and self._size() > self._position:
            with self._console.log.open("rb") as source:
                source.seek(self._position)
                self._chunk = source.read(CHUNK_BYTES)
            self._position += len(self._chunk)
        if self._chunk:
            if not self._sent:
                self._number = self._number % 15 + 1
            self._sent = time.monotonic()
            self._send(bytes([self._number, 0, 0, 0]) + self._chunk)
        else:
            self._sent = 0.0

    def _send(self, payload: bytes) -> None:
        self.session.send_payload(payload, payload_type=constants.payload_types["sol"], retry=False)
