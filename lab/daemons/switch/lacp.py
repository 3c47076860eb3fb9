"""LACP as a switch speaks it (IEEE 802.1AX-2014, clause 6.4): what is said, and what follows from what is heard."""

from __future__ import annotations

import struct
from dataclasses import KW_ONLY, dataclass, field, replace

# Where LACPDUs go, and their type (802.1AX, clause 6.2.11.2 and Annex A): a "slow protocol", subtype 1, version 1.
GROUP = bytes.fromhex("0180c2000002")
TYPE = 0x8809
# The bits of a state (clause 6.4.2.3).
ACTIVITY, TIMEOUT, AGGREGATION, SYNCHRONIZED, COLLECTING, DISTRIBUTING, DEFAULTED, EXPIRED = (1 << n for n in range(8))
# Seconds: with the short time-out both sides speak each second; one that is silent for three is gone (clause 6.4.4).
FAST, SHORT = 1.0, 3.0
_INFORMATION = struct.Struct("!H6sHHHB")
_LENGTH = 110


@dataclass(frozen=True)
class Side:
    """One side's description of a port: its system, key, number and state."""

    system: bytes = bytes(6)
    key: int = 0
    port: int = 0
    state: int = 0
    _: KW_ONLY
    system_priority: int = 0xFFFF
    port_priority: int = 0xFF

    def packed(self) -> bytes:
        """Return its bytes in an LACPDU."""
        return _INFORMATION.pack(self.system_priority, self.system, self.key, self.port_priority, self.port, self.state)

    @classmethod
    def of(cls, data: bytes) -> Side:
        """Read a side from an LACPDU."""
        system_priority, system, key, port_priority, port, state = _INFORMATION.unpack(data)
        return cls(system, key, port, state, system_priority=system_priority, port_priority=port_priority)

    def known_as(self, other: Side) -> bool:
        """Tell whether the other side means this port by `other`."""
        return replace(self, state=0) == replace(other, state=0) and not (self.state ^ other.state) & AGGREGATION


def pack(actor: Side, partner: Side) -> bytes:
    """Make an LACPDU from its subtype on: actor, partner and collector information, and the end (clause 6.4.2.3)."""
    data = struct.pack("!BB", 1, 1)
    data += struct.pack("!BB", 1, 20) + actor.packed() + bytes(3)
    data += struct.pack("!BB", 2, 20) + partner.packed() + bytes(3)
    data += struct.pack("!BBH", 3, 16, 0) + bytes(12)
    return (data + bytes(2)).ljust(_LENGTH, b"\0")


def unpack(data: bytes) -> tuple[Side, Side] | None:
    """Actor and partner of an LACPDU; None when it is none."""
    if len(data) < 44 or data[0] != 1 or data[2:4] != b"\x01\x14" or data[22:24] != b"\x02\x14":
        return None
    return Side.of(data[4:19]), Side.of(data[24:39])


@dataclass
class Port:
    """One port of the switch: `actor` is what it says of itself, `partner` what it last heard of the other side."""

    actor: Side
    partner: Side = field(default_factory=Side)
    heard: float = float("-inf")
    meant: bool = False

    @property
    def carries(self) -> bool:
        """Tell whether frames pass."""
        return bool(self.actor.state & DISTRIBUTING)


class Aggregator:
    """Ports that may be one: those whose other sides say that they are the same system with the same key."""

    def __init__(self, system: bytes, key: int, ports: int) -> None:
        self.ports = [Port(Side(system, key, number + 1, ACTIVITY | TIMEOUT | AGGREGATION)) for number in range(ports)]

    def hear(self, index: int, data: bytes, now: float) -> bool:
        """Take what a port has received; whether the port has something to answer."""
        heard = unpack(data)
        if heard is None:
            return False
        port = self.ports[index]
        before = (port.partner, port.meant)
        port.partner, port.heard = heard[0], now
        port.meant = port.actor.known_as(heard[1])
        # A partner that does not know yet what this port says is told at once (clause 6.4.9, update_NTT).
        answer = heard[1].state != port.actor.state or (port.partner, port.meant) != before
        return self.look(now) or answer

    def lost(self, index: int, now: float) -> None:
        """Forget a port's partner: its cable is out."""
        port = self.ports[index]
        port.partner, port.heard, port.meant = Side(), float("-inf"), False
        self.look(now)

    def look(self, now: float) -> bool:
        """Bring all ports' states up to date; whether one has changed."""
        alive = [port for port in self.ports if now - port.heard < SHORT and port.partner.state & AGGREGATION]
        # A port that carries frames already says which system the group belongs to.
        first = next((port.partner for port in sorted(alive, key=lambda port: not port.carries)), None)
        changed = False
        for port in self.ports:
            state = ACTIVITY | TIMEOUT | AGGREGATION
            if not port.partner.system.strip(b"\0"):
                state |= DEFAULTED
            elif now - port.heard >= SHORT:
                state |= EXPIRED
            mine = first is not None and (port.partner.system, port.partner.key) == (first.system, first.key)
            if port in alive and mine:
                state |= SYNCHRONIZED
                if port.meant and port.partner.state & SYNCHRONIZED:
                    state |= COLLECTING | DISTRIBUTING
            changed |= state != port.actor.state
            port.actor = replace(port.actor, state=state)
        return changed

    def say(self, index: int) -> bytes:
        """Return a port's current description of itself."""
        port = self.ports[index]
        return pack(port.actor, port.partner)
