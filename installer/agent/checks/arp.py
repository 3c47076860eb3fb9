"""Owners of IPv4 addresses on a network: ARP requests for many at once over one packet socket (RFC 826).

A process for each of 254 addresses costs a minute of an emulated CPU; this costs one second of waiting.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from ipaddress import IPv4Address

ETHERTYPE = 0x0806
BROADCAST = b"\xff" * 6
_PACKET = struct.Struct("!6s6sH HHBBH 6s4s6s4s")
REQUEST, REPLY = 1, 2
ROUNDS = 2
ROUND_SECONDS = 1.0


def request(mac: bytes, source: str, target: str) -> bytes:
    """Return an Ethernet frame that asks who has ``target``; an all-zero ``source`` is a probe that disturbs no
    cache."""
    own, wanted = IPv4Address(source).packed, IPv4Address(target).packed
    return _PACKET.pack(BROADCAST, mac, ETHERTYPE, 1, 0x0800, 6, 4, REQUEST, mac, own, b"\0" * 6, wanted)


def answer(frame: bytes) -> tuple[str, str] | None:
    """(address, MAC) of an ARP reply; None for any other frame."""
    if len(frame) < _PACKET.size:
        return None
    _, _, kind, hardware, protocol, hlen, plen, operation, mac, sender, _, _ = _PACKET.unpack_from(frame)
    if (kind, hardware, protocol, hlen, plen, operation) != (ETHERTYPE, 1, 0x0800, 6, 4, REPLY):
        return None
    return str(IPv4Address(sender)), mac.hex(":")


def scan(nic: str, source: str, addresses: Iterable[str], rounds: int = ROUNDS) -> dict[str, str]:
    """Address to MAC of those of ``addresses`` that answer on ``nic``, asked ``rounds`` times, a second each.

    Ends as soon as all have answered. Raises OSError when the interface cannot be used.
    """
    missing = set(addresses)
    macs: dict[str, str] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) as packet:
        packet.bind((nic, ETHERTYPE))
        mac = packet.getsockname()[4]
        for _ in range(rounds):
            for address in sorted(missing):
                packet.send(request(mac, source, address))
            deadline = time.monotonic() + ROUND_SECONDS
            while missing and (left := deadline - time.monotonic()) > 0:
                packet.settimeout(left)
                try:
                    sender = answer(packet.recv(2048))
                except TimeoutError:
                    break
                if sender and sender[0] in missing:
                    macs[sender[0]] = sender[1]
                    missing.discard(sender[0])
            if not missing:
                break
    return macs
