"""systemd's private socket in the initramfs, as far as Ignition asks it: for its version, when a config has units with
instances (ignition 2.14, warnOnOldSystemdVersion). There is no systemd, but one would answer.

The messages are D-Bus's (D-Bus specification 0.43, "Message Protocol"), little-endian as every client here sends them.
"""

from __future__ import annotations

import contextlib
import os
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

SOCKET = "run/systemd/private"
_RETURN, _ERROR = 2, 3
_ERROR_NAME, _REPLY_SERIAL, _SIGNATURE = 4, 5, 8
_MESSAGE_MAX = 1 << 16
_LINE_MAX = 1024
_GUID = b"0" * 32


@contextlib.contextmanager
def listening(tree: Path, version: str) -> Iterator[None]:
    """Answer for systemd's manager in the initramfs at `tree`, as long as the context lasts. Raises OSError."""
    place = tree / SOCKET
    place.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The path itself may be longer than an address can be.
        server = _Server(f"/proc/self/fd/{directory}/{place.name}", _Handler)
    finally:
        os.close(directory)
    server.version = version
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        place.unlink(missing_ok=True)
        thread.join()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    version = ""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            reader = cast(BinaryIO, self.rfile)
            if reader.read(1) == b"\0" and self._authenticate(reader):
                while message := _read(reader):
                    self.wfile.write(answer(message, cast(_Server, self.server).version))

    def _authenticate(self, reader: BinaryIO) -> bool:
        """Let everybody in who can open the socket: root in the initramfs. False when the client goes away."""
        while line := reader.readline(_LINE_MAX):
            words = line.split()
            if words == [b"BEGIN"]:
                return True
            if words[:2] == [b"AUTH", b"EXTERNAL"]:
                self.wfile.write(b"OK " + _GUID + b"\r\n")
            elif words[:1] == [b"AUTH"]:
                self.wfile.write(b"REJECTED EXTERNAL\r\n")
            else:
                self.wfile.write(b"ERROR\r\n")
        return False


def _read(reader: BinaryIO) -> bytes:
    """One message, or nothing when there is none, or none that anybody sends."""
    head = reader.read(16)
    if len(head) < 16 or head[:1] != b"l":
        return b""
    body, _, fields = struct.unpack_from("<III", head, 4)
    length = -(-fields // 8) * 8 + body
    return head + reader.read(length) if length <= _MESSAGE_MAX else b""


def answer(message: bytes, version: str) -> bytes:
    """The reply to a call: the property Version, or an error for whatever else is wanted."""
    serial, fields = struct.unpack_from("<II", message, 8)
    body = message[16 + -(-fields // 8) * 8 :]
    reply = _field(_REPLY_SERIAL, b"u", struct.pack("<I", serial))
    if body.endswith(b"Version\0"):
        body = b"\x01s\0\0" + _string(version.encode())
        return _message(_RETURN, [reply, _field(_SIGNATURE, b"g", b"\x01v\0")], body)
    name = _field(_ERROR_NAME, b"s", _string(b"org.freedesktop.DBus.Error.UnknownMethod"))
    return _message(_ERROR, [reply, name, _field(_SIGNATURE, b"g", b"\0\0")], b"")


def _field(code: int, signature: bytes, value: bytes) -> bytes:
    return bytes([code, 1]) + signature + b"\0" + value


def _string(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text + b"\0"


def _message(kind: int, fields: list[bytes], body: bytes) -> bytes:
    """Each field and the body begin at a multiple of 8; what pads the last field counts for nothing."""
    array = b""
    for field in fields:
        array = array.ljust(-(-len(array) // 8) * 8, b"\0") + field
    padded = array.ljust(-(-len(array) // 8) * 8, b"\0")
    return struct.pack("<cBBBIII", b"l", kind, 1, 1, len(body), 1, len(array)) + padded + body
