"""DHCP as firmware speaks it (RFC 2131; options of RFC 2132, RFC 4578 and RFC 5970): an address, and what to boot."""

from __future__ import annotations

import secrets
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface

import msgspec

from lab.errors import LabError

_SERVER_PORT, _CLIENT_PORT = 67, 68
# op, htype, hlen, hops, xid, secs, flags, ciaddr, yiaddr, siaddr, giaddr, chaddr, sname, file, the magic cookie
_HEADER = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
_MAGIC = b"\x63\x82\x53\x63"
_REQUEST, _REPLY, _ETHERNET, _BROADCAST = 1, 2, 1, 0x8000
_DISCOVER, _OFFER, _WANT, _ACK = 1, 2, 3, 5
_MASK, _ROUTER, _DNS, _ADDRESS, _OVERLOAD, _TYPE, _SERVER, _WANTED = 1, 3, 6, 50, 52, 53, 54, 55
_SIZE, _VENDOR, _FILE, _USER, _ARCH, _NIC, _MACHINE, _IPXE = 57, 60, 67, 77, 93, 94, 97, 175
_PAD, _END = 0, 255
# iPXE's own option has options within; version 1.0.0 of it (ipxe.org, "etherboot.encap").
_IPXE_SAYS = bytes([0xEB, 3, 1, 0, 0])
# Each try waits twice as long as the one before; a PC's ROM waits up to 60 s, which shows a lab nothing more.
_TRIES = (1.0, 2.0, 4.0)


class NoLease(LabError):
    """Nobody answered, or nobody with an address; `str()` says which."""


@dataclass(frozen=True)
class Client:
    """The client that asks: its vendor class, its architecture (RFC 4578's numbers), and whether it is iPXE."""

    vendor: str
    architecture: int
    ipxe: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A server's lease: an address with its network ("10.0.0.2/24"), the way out, the class that it speaks to, and what
    to boot."""

    address: str
    router: str = ""
    vendor: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class _Message:
    kind: int
    transaction: int
    yours: bytes
    file: bytes
    options: dict[int, bytes] = field(default_factory=dict)


def encode(options: list[tuple[int, bytes]], mac: str, transaction: int) -> bytes:
    """Encode a client's message; the answer is to be a broadcast, since it has no address yet."""
    hardware = bytes.fromhex(mac.replace(":", "")).ljust(16, b"\0")
    none = bytes(4)
    words = (_REQUEST, _ETHERNET, 6, 0, transaction, 0, _BROADCAST, none, none, none, none, hardware)
    body = b"".join(bytes([code, len(value)]) + value for code, value in options)
    return _HEADER.pack(*words, b"", b"", _MAGIC) + body + bytes([_END])


def decode(raw: bytes) -> _Message | None:
    """Decode a server's message; None if it is none."""
    if len(raw) < _HEADER.size:
        return None
    op, _, _, _, transaction, _, _, _, yours, _, _, _, name, file, magic = _HEADER.unpack_from(raw)
    if op != _REPLY or magic != _MAGIC:
        return None
    options = dict(_options(raw[_HEADER.size :]))
    # Options may continue in the fields sname and file (RFC 2132 §9.3).
    overload = _number(options, _OVERLOAD)
    for bit, more in ((1, file), (2, name)):
        if overload & bit:
            options |= dict(_options(more))
    return _Message(
        kind=_number(options, _TYPE),
        transaction=transaction,
        yours=yours,
        file=b"" if overload & 1 else file.partition(b"\0")[0],
        options=options,
    )


def _number(options: dict[int, bytes], code: int) -> int:
    return int.from_bytes(options.get(code, b""), "big")


def _options(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(raw) and raw[at] != _END:
        if raw[at] == _PAD:
            at += 1
            continue
        end = at + 2 + raw[at + 1] if at + 1 < len(raw) else len(raw) + 1
        if end > len(raw):
            return
        yield raw[at], raw[at + 2 : end]
        at = end


def lease(nic: str, mac: str, machine: str, client: Client, *, tries: tuple[float, ...] = _TRIES) -> Lease:
    """Ask by a NIC of this network namespace that is up; `machine` is the machine's UUID. Raises NoLease, OSError."""
    words = [
        (_WANTED, bytes([_MASK, _ROUTER, _DNS, _VENDOR, _FILE, 66])),
        (_SIZE, struct.pack("!H", 1500)),
        (_VENDOR, f"{client.vendor}:Arch:{client.architecture:05d}:UNDI:003001".encode()),
        (_ARCH, struct.pack("!H", client.architecture)),
        (_NIC, b"\x01\x03\x01"),
        (_MACHINE, b"\0" + uuid.UUID(machine).bytes_le),
    ]
    if client.ipxe:
        words += [(_USER, b"iPXE"), (_IPXE, _IPXE_SAYS)]
    transaction = secrets.randbits(32)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.encode() + b"\0")
        line.bind(("", _CLIENT_PORT))
        offer = _ask(
            line, encode([(_TYPE, bytes([_DISCOVER])), *words], mac, transaction), transaction, _OFFER, tries=tries
        )
        server = offer.options.get(_SERVER, b"")
        chosen = [(_TYPE, bytes([_WANT])), (_SERVER, server), (_ADDRESS, offer.yours), *words]
        answer = _ask(line, encode(chosen, mac, transaction), transaction, _ACK, tries=tries)
    return leased(answer)


def _ask(line: socket.socket, message: bytes, transaction: int, kind: int, *, tries: tuple[float, ...]) -> _Message:
    for seconds in tries:
        try:
            line.sendto(message, ("255.255.255.255", _SERVER_PORT))
        except OSError as error:
            raise NoLease(f"the NIC sends nothing: {error.strerror}") from error
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            line.settimeout(left)
            try:
                reply = decode(line.recv(1 << 16))
            except TimeoutError:
                break
            if reply is not None and reply.transaction == transaction and reply.kind == kind:
                return reply
    raise NoLease("Server response timeout")


def leased(answer: _Message) -> Lease:
    """Read the lease in an answer. Raises NoLease."""
    options = answer.options
    mask = options.get(_MASK, b"")
    try:
        address = IPv4Interface((answer.yours, str(IPv4Address(mask))))
    except ValueError as error:
        raise NoLease(f"No valid offer received: {error}") from error
    if not int(address.ip) or not int(address.netmask):
        raise NoLease("No valid offer received: it has no address, or no netmask")
    router = str(IPv4Address(options[_ROUTER][:4])) if len(options.get(_ROUTER, b"")) >= 4 else ""
    file = (options.get(_FILE, b"") or answer.file).rstrip(b"\0").decode("latin-1")
    vendor = options.get(_VENDOR, b"").decode("latin-1")
    return Lease(address=str(address), router=router, vendor=vendor, file=file)
