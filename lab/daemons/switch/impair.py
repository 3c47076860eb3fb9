"""Delays, doubles, spoils and limits packets that a NIC sends or gets: `python -m lab.daemons.switch.impair SOCKET`.

In the place of sch_netem, which the kernel of a lab's host may lack. A program of the packet path (lab.faults.bpf)
turns what a NIC is about to send aside, to a TAP device of this daemon's, which sends it on by the NIC, with a mark
that the program lets pass. The device can do nothing by itself (no TSO, no checksums), so the kernel does it before:
what comes here is as on a wire, and who receives a packet with a wrong bit sees that its checksum is wrong. A frame
takes some 9 µs of processor time: about 1 Gbit/s on a core of its own, 100 Mbit/s on one that ten others share.

A request is a line of JSON, and so is the answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import itertools
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from lab.errors import LabError

# linux/if_tun.h; asm-generic/socket.h.
_TUNSETIFF, _TAP, _NO_PI, _SO_MARK = 0x400454CA, 0x0002, 0x1000, 36
# A packet's mark is the NIC's index and, below it, the place in the order of those that it has been turned aside by.
_PLACES = 16
# The most packets that wait for their time on a NIC: at 100 Mbit/s and full size, those of a second. More are lost.
_QUEUE = 10_000
_FRAME, _ETHERNET = 65_536, 14
# How many frames of a NIC are read before the other NICs have their turn, and what has waited long enough is sent.
_TURN = 64
_SECONDS, ANSWER_SECONDS, _LOOK_SECONDS = 30, 30.0, 1.0
#: What would have to wait longer than that for a limit of bandwidth is lost.
WAIT_MS = 400


def burst(kbit: int) -> int:
    """Return the kbit that may pass at once at `kbit` kbit/s: an eighth of a second's, or a large packet's."""
    return max(kbit // 8, 16)


class Impairment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A treatment of packets: `late` percent come `ms` milliseconds late, give or take `jitter_ms`; `twice` percent
    come twice, and `wrong` percent with a wrong bit. With `kbit`, no more kbit/s than that come, and nothing else is
    done to them."""

    ms: int = 0
    jitter_ms: int = 0
    late: float = 100
    twice: float = 0
    wrong: float = 0
    kbit: int = 0


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Begin or end it on a NIC; `place` (1 to 15) is where in the order of those that a NIC has, and its name. With
    `back` packets come back to the NIC, as if it had got them, instead of being sent by it."""

    op: Literal["begin", "end"]
    nic: str
    place: int
    impairment: Impairment = Impairment()
    back: bool = False


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An error; else, of a detour that begins, the name and the index of its device, the NIC's index, the mark of
    packets that have been there, and the last mark of any detour of the NIC's."""

    error: str = ""
    name: str = ""
    device: int = 0
    nic: int = 0
    mark: int = 0
    last_mark: int = 0


def ask(path: Path, request: Request) -> Reply:
    """Ask the daemon at that socket. Raises LabError, also for its refusals."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_SECONDS)
        try:
            line.connect(str(path))
            line.sendall(msgspec.json.encode(request) + b"\n")
            reply = msgspec.json.decode(line.makefile("rb").readline(), type=Reply)
        except (OSError, msgspec.DecodeError) as error:
            raise LabError(f"the lab's daemon of impairments does not answer: {error}") from error
    if reply.error:
        raise LabError(f"{request.nic}: {reply.error}")
    return reply


class Detour:
    """The TAP device by which a NIC's packets go. Raises OSError where there is no such NIC."""

    def __init__(self, nic: str, place: int, how: Impairment, *, back: bool = False) -> None:
        self._how, self._random, self._back = how, random.Random(), back
        self._waiting: list[tuple[float, int, bytes]] = []
        self._order = itertools.count()
        # Until when the limit is used up.
        self._taken = 0.0
        try:
            self.nic = socket.if_nametoindex(nic)
        except OSError as error:
            raise OSError("there is no such NIC: is the machine on?") from error
        self.mark = self.nic * _PLACES + place
        with contextlib.ExitStack() as held:
            self.out = held.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0))
            self.out.bind((nic, 0))
            self.out.setsockopt(socket.SOL_SOCKET, _SO_MARK, self.mark)
            self.name = name = f"aside{self.nic}-{place}"
            self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            held.callback(os.close, self.tap)
            fcntl.ioctl(self.tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_PI))
            # The device is to send nothing of its own.
            with contextlib.suppress(FileNotFoundError):
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            mtu = Path(f"/sys/class/net/{nic}/mtu").read_text().strip()
            # This process may have to wait for a processor: what is sent meanwhile waits in the device.
            size = ["mtu", mtu, "txqueuelen", str(_QUEUE)]
            subprocess.run(["ip", "link", "set", name, *size, "up"], check=True, timeout=_SECONDS)
            self.device = socket.if_nametoindex(name)
            self._held = held.pop_all()

    def exists(self) -> bool:
        """Tell whether the NIC still exists: it goes with its machine's power."""
        try:
            return bool(socket.if_indextoname(self.nic))
        except OSError:
            return False

    def take(self) -> None:
        """Read and pass on as many packets as a turn has."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_TURN):
                self._pass(os.read(self.tap, _FRAME))

    def _pass(self, frame: bytes) -> None:
        how = self._how
        if how.kbit:
            self._limit(frame, time.monotonic())
            return
        if self._happens(how.wrong) and len(frame) > _ETHERNET:
            frame = self._spoilt(frame)
        for _ in range(2 if self._happens(how.twice) else 1):
            if not how.ms or not self._happens(how.late):
                self._send(frame)
            else:
                seconds = (how.ms + self._random.uniform(-how.jitter_ms, how.jitter_ms)) / 1000
                self._keep(frame, time.monotonic() + seconds)

    def _limit(self, frame: bytes, now: float) -> None:
        """Keep the frame for its time by a token bucket."""
        kbit = self._how.kbit
        taken = max(self._taken, now - burst(kbit) / kbit) + len(frame) * 8 / (kbit * 1000)
        if taken - now <= WAIT_MS / 1000:
            self._taken = taken
            self._keep(frame, taken)

    def _keep(self, frame: bytes, until: float) -> None:
        if len(self._waiting) < _QUEUE:
            heapq.heappush(self._waiting, (until, next(self._order), frame))

    def _happens(self, percent: float) -> bool:
        return self._random.random() * 100 < percent

    def _spoilt(self, frame: bytes) -> bytes:
        """Return the frame with a wrong bit after the Ethernet header."""
        spoilt = bytearray(frame)
        spoilt[self._random.randrange(_ETHERNET, len(frame))] ^= 1 << self._random.randrange(8)
        return bytes(spoilt)

    def _send(self, frame: bytes) -> None:
        # A NIC without link, or that has no room, loses it as any NIC would.
        with contextlib.suppress(OSError):
            # What is written to the device comes from it, and from there (lab.faults.bpf.as_received) to the NIC.
            if self._back:
                os.write(self.tap, frame)
            else:
                self.out.send(frame)

    def due(self, now: float) -> float | None:
        """Send what has waited long enough; in how many seconds the next is due."""
        while self._waiting and self._waiting[0][0] <= now:
            self._send(heapq.heappop(self._waiting)[2])
        return self._waiting[0][0] - now if self._waiting else None

    def close(self) -> None:
        """End it; what waits is lost."""
        self._held.close()


class Daemon:
    """Holds packets that were turned aside until they are due, and takes requests meanwhile."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._selector = selectors.DefaultSelector()
        self._detours: dict[tuple[str, int], Detour] = {}

    def serve(self) -> NoReturn:
        """Answer and pass packets on for ever."""
        self._on(self._server, self._accept)
        looked = 0.0
        while True:
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                for key in [key for key, detour in self._detours.items() if not detour.exists()]:
                    self._end(*key)
            waits = [seconds for detour in self._detours.values() if (seconds := detour.due(now)) is not None]
            for event, _ in self._selector.select(min([*waits, _LOOK_SECONDS]) if self._detours else None):
                # A detour that has just ended may still be among the events.
                if event.fd in self._selector.get_map():
                    event.data()

    def _on(self, source: socket.socket | int, do: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, do)

    def _accept(self) -> None:
        # Packets do not wait for a client that has not yet said anything.
        line, _ = self._server.accept()
        self._on(line, lambda: self._answer(line))

    def _answer(self, line: socket.socket) -> None:
        self._selector.unregister(line)
        with line, contextlib.suppress(OSError):
            line.settimeout(ANSWER_SECONDS)
            # A client that only checks whether the daemon is up sends nothing.
            if asked := line.makefile("rb").readline():
                self._do(asked, line)

    def _do(self, asked: bytes, line: socket.socket) -> None:
        """Carry out a request. What it began ends if its client no longer waits for the reply. Raises OSError."""
        reply = self._reply(asked)
        try:
            line.sendall(msgspec.json.encode(reply) + b"\n")
        except OSError:
            if reply.device:
                request = msgspec.json.decode(asked, type=Request)
                self._end(request.nic, request.place)
            raise

    def _reply(self, asked: bytes) -> Reply:
        try:
            request = msgspec.json.decode(asked, type=Request)
            return self._begin(request) if request.op == "begin" else self._end(request.nic, request.place)
        except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
            return Reply(error=str(error))

    def _begin(self, request: Request) -> Reply:
        key = (request.nic, request.place)
        if key in self._detours and self._detours[key].exists():
            return Reply(error="it has a fault of this kind already: end that first")
        # A machine's NIC of before its power was off.
        self._end(*key)
        detour = self._detours[key] = Detour(*key, request.impairment, back=request.back)
        self._on(detour.tap, detour.take)
        last = detour.mark - detour.mark % _PLACES + _PLACES - 1
        return Reply(
            name=detour.name,
            device=detour.device,
            nic=detour.nic,
            mark=detour.mark,
            last_mark=last,
        )

    def _end(self, nic: str, place: int) -> Reply:
        detour = self._detours.pop((nic, place), None)
        if detour is not None:
            self._selector.unregister(detour.tap)
            detour.close()
        return Reply()


def main(path: Path) -> NoReturn:
    """Serve until it is killed."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        Daemon(server).serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
