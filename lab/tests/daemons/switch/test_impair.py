"""A detour of packets whose time, chance and frames the test gives. Needs root."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.daemons.switch import impair
from lab.daemons.switch.impair import Detour, Impairment, Request
from lab.errors import LabError
from lab.host.namespaces import NamespaceThreads
from lab.host.process import clean_environment
from lab.testing.packets import ROOT, SECONDS, namespace
from lab.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Near(NamespaceThreads):
    """The threads of a network, and the command line that another program runs in it by."""

    def __init__(self, holder: int) -> None:
        super().__init__(holder)
        self.argv = ("nsenter", "--target", str(holder), "--net", "--mount")


@pytest.fixture(scope="module")
def near() -> Iterator[Near]:
    """Provide a network with a NIC, `nic`, and what is connected to it."""
    script = "ip link add nic mtu 1400 type veth peer name peer; ip link set nic up; ip link set peer up"
    with namespace() as holder, closing(Near(holder)) as threads:
        threads.call(subprocess.run, ["sh", "-ec", script], check=True, timeout=SECONDS)
        yield threads


class World:
    """`chance` is how percentages fall, `now` the time; `sent` are frames with the times at which they were sent."""

    def __init__(self, near: Near, patched: pytest.MonkeyPatch) -> None:
        self.near, self._patched = near, patched
        self.chance, self.now = 0.5, 1000.0
        self.sent: list[tuple[float, bytes]] = []
        self._frames: list[bytes] = []
        chances = SimpleNamespace(
            random=lambda: self.chance, uniform=lambda low, _: low, randrange=lambda *ends: ends[0] if ends[1:] else 0
        )  # fmt: skip
        patched.setattr(random, "Random", lambda: chances)
        patched.setattr(impair, "time", SimpleNamespace(monotonic=lambda: self.now))

    def detour(self, how: Impairment, **words: Any) -> Detour:
        """Make one on the NIC."""
        detour: Detour = self.near.call(Detour, "nic", 15, how, **words)
        self._patched.setattr(detour, "_send", lambda frame: self.sent.append((self.now, frame)))
        return detour

    def passes(self, how: Impairment, *frames: bytes) -> list[tuple[float, bytes]]:
        """Return the frames that come, each with how many milliseconds later."""
        with closing(self.detour(how)) as detour:
            _turn(detour, *frames)
            begun = self.now
            while (seconds := detour.due(self.now)) is not None:
                assert seconds > 0
                self.now += seconds
            sent, self.sent = self.sent, []
            return [(round((then - begun) * 1000), frame) for then, frame in sent]


def _turn(detour: Detour, *frames: bytes) -> None:
    """Have a turn in which these can be read."""
    left = list(frames)

    def read(_: int, size: int) -> bytes:
        assert size >= 65536
        if not left:
            raise BlockingIOError
        return left.pop(0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "read", read)
        detour.take()


@pytest.fixture
def world(near: Near, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(near, monkeypatch)


def test_each_percentage_is_of_its_own_treatment(world: World) -> None:
    frame = bytes(20)
    spoilt = bytes(14) + b"\1" + bytes(5)
    assert world.passes(Impairment(), frame) == [(0, frame)]
    assert world.passes(Impairment(late=0, ms=100), frame) == [(0, frame)]
    for percent, happens in ((49, False), (50.4, True)):
        assert world.passes(Impairment(twice=percent), frame) == [(0, frame)] * (1 + happens)
        assert world.passes(Impairment(wrong=percent), frame) == [(0, spoilt if happens else frame)]
        assert world.passes(Impairment(ms=100, late=percent), frame) == [(100 * happens, frame)]
    world.chance = 0.996
    assert world.passes(Impairment(ms=100, jitter_ms=30, twice=99), frame) == [(70, frame)]
    # Of an Ethernet header no bit is wrong.
    assert world.passes(Impairment(wrong=100), bytes(14), bytes(15)) == [(0, bytes(14)), (0, bytes(14) + b"\1")]


def test_what_is_due_at_once_comes_in_its_order(world: World) -> None:
    frames = [bytes([number]) for number in (2, 1, 3)]
    assert world.passes(Impairment(ms=1), *frames) == [(1, frame) for frame in frames]


def test_a_turn_and_what_waits_have_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [bytes([number]) for number in range(100)]
    assert world.passes(Impairment(), *frames) == [(0, frame) for frame in frames[:64]]
    monkeypatch.setattr(impair, "_QUEUE", 3)
    assert world.passes(Impairment(ms=1), *frames) == [(1, frame) for frame in frames[:3]]


def test_a_limit_lets_a_burst_pass_and_the_rest_wait(world: World) -> None:
    assert [impair.burst(kbit) for kbit in (8, 139, 800)] == [16, 17, 100]
    # 10 ms each: of an eighth of a second at once, and for 400 ms.
    frames = [bytes([number]).ljust(1000) for number in range(60)]
    with closing(world.detour(Impairment(kbit=800))) as detour:
        for begun in (1000.0, 2000.0):
            world.now = begun
            _turn(detour, *frames)
            while (seconds := detour.due(world.now)) is not None:
                world.now += seconds
            assert [frame for _, frame in world.sent] == frames[:52]
            assert [round((then - begun) * 1000) for then, _ in world.sent] == [
                max(10 * number - 115, 0) for number in range(52)
            ]
            world.sent.clear()


def test_the_device_is_as_the_nic_and_says_nothing_of_its_own(near: Near) -> None:
    with closing(near.call(Detour, "nic", 3, Impairment())) as detour:
        index = near.call(socket.if_nametoindex, "nic")
        assert (detour.nic, detour.mark, detour.name) == (index, index * 16 + 3, f"aside{index}-3")
        assert detour.out.getsockopt(socket.SOL_SOCKET, 36) == detour.mark
        assert detour.device == near.call(socket.if_nametoindex, detour.name)
        assert detour.exists()
        assert not os.get_blocking(detour.tap)
        assert not os.get_inheritable(detour.tap)
        shown = near.call(subprocess.check_output, ["ip", "link", "show", detour.name], text=True, timeout=SECONDS)
        assert "mtu 1400" in shown
        assert "qlen 10000" in shown
        assert ",UP" in shown
        ipv6 = Path("/proc/thread-self/net/if_inet6")
        assert detour.name not in near.call(ipv6.read_text)
    with pytest.raises(OSError, match=r"^there is no such NIC: is the machine on\?$"):
        near.call(Detour, "none", 3, Impairment())


def test_frames_go_by_the_nic_or_back_to_it_and_are_lost_without_link(near: Near) -> None:
    frame = bytes(12) + b"\x88\xb5" + b"here".ljust(46)
    for back, name in ((False, "peer"), (True, None)):
        with (
            closing(near.call(Detour, "nic", 3, Impairment(), back=back)) as detour,
            near.call(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) as line,
        ):
            line.bind((name or detour.name, 0x88B5))
            line.settimeout(SECONDS)
            _turn(detour, frame)
            assert line.recv(2000) == frame
    near.call(subprocess.run, ["ip", "link", "set", "nic", "down"], check=True, timeout=SECONDS)
    with closing(near.call(Detour, "nic", 3, Impairment())) as detour:
        _turn(detour, frame)
    near.call(subprocess.run, ["ip", "link", "set", "nic", "up"], check=True, timeout=SECONDS)


def test_the_daemon_begins_each_once_and_ends_it(near: Near, tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.write_text("of an earlier one")
    argv = [*near.argv, sys.executable, "-m", "lab.daemons.switch.impair", str(path)]
    with subprocess.Popen(argv, env=clean_environment({"PYTHONPATH": str(ROOT)})) as daemon:
        try:
            wait_until(path.is_socket, SECONDS, "the daemon's socket", poll=0.01)
            _begins_and_ends(near, path)
            assert daemon.poll() is None
        finally:
            daemon.kill()


def _begins_and_ends(near: Near, path: Path) -> None:
    index = near.call(socket.if_nametoindex, "nic")

    def ask(op: Any, **words: Any) -> impair.Reply:
        return impair.ask(path, Request(op=op, nic="nic", place=2, **words))

    def devices() -> str:
        return str(near.call(subprocess.check_output, ["ip", "link"], text=True, timeout=SECONDS))

    begun = ask("begin")
    assert (begun.name, begun.nic) == (f"aside{index}-2", index)
    assert (begun.mark, begun.last_mark) == (index * 16 + 2, index * 16 + 15)
    assert begun.name in devices()
    with pytest.raises(LabError, match=r"^nic: it has a fault of this kind already: end that first$"):
        ask("begin")
    for _ in range(2):
        assert ask("end") == impair.Reply()
        assert begun.name not in devices()
    with pytest.raises(LabError, match=r"^none: there is no such NIC"):
        impair.ask(path, Request(op="begin", nic="none", place=2))
    refused = {b"{}": b"missing required field", b'{"op":"end","impairment":{"speed":1}}': b"unknown field"}
    for request, answer in refused.items():
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path))
            line.sendall(request + b"\n")
            assert answer in line.makefile("rb").readline()
