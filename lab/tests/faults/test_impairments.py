"""Packets that come late, out of order, twice or spoilt, between two network namespaces. Needs root."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.daemons.switch import bpf as switch
from lab.daemons.switch import impair
from lab.errors import LabError
from lab.faults import BlackHole, Corrupted, Duplicated, Latency, Loss, Reordered, Throttle, impairments
from lab.testing.packets import HERE, SECONDS, THERE, World, connected, namespace
from lab.waiting import wait_until

COUNT = 400


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with namespace() as near, namespace() as far, ExitStack() as held:
        yield World(near, far, tmp_path_factory.mktemp("impair") / "sock", held)


@pytest.fixture(autouse=True)
def _whole(world: World) -> Iterator[None]:
    """Each test leaves the way as it was: all come, once, in their order."""
    yield
    for way in ("to", "from"):
        assert [number for number, _ in world.sent(range(50), 50, way=way)] == list(range(50))


def test_packets_come_late_and_with_jitter_in_another_order(world: World) -> None:
    with world.fault(Latency(100)):
        arrived = world.sent(range(COUNT), COUNT)
        assert [number for number, _ in arrived] == list(range(COUNT))
        assert min(late for _, late in arrived) >= 0.1
    with world.fault(Latency(100, 50)):
        arrived = world.sent(range(COUNT), COUNT)
        assert sorted(number for number, _ in arrived) == list(range(COUNT)) != [number for number, _ in arrived]
        assert min(late for _, late in arrived) >= 0.05


def test_what_a_machine_sends_is_another_matter_than_what_is_sent_to_it(world: World) -> None:
    with world.fault(Latency(100, way="from")):
        assert min(late for _, late in world.sent(range(COUNT), COUNT, way="from")) >= 0.1
        assert min(late for _, late in world.sent(range(10), 10)) < 0.1
        with world.fault(Latency(50)), world.fault(Duplicated(100, way="from")):
            assert min(late for _, late in world.sent(range(10), 10)) >= 0.05
            numbers = [number for number, _ in world.sent(range(COUNT), 2 * COUNT, way="from")]
            assert numbers == [number for number in range(COUNT) for _ in range(2)]
    with world.fault(Loss(50, way="from")):
        assert COUNT * 0.3 < len(world.sent(range(COUNT), 1, way="from")) < COUNT * 0.7
        assert len(world.sent(range(COUNT), COUNT)) == COUNT
    with world.fault(Reordered(20, 50, way="from")):
        numbers = [number for number, _ in world.sent(range(COUNT), COUNT, way="from")]
        assert sorted(numbers) == list(range(COUNT)) != numbers
    with world.fault(Corrupted(50, way="from")):
        assert COUNT * 0.3 < len(world.sent(range(COUNT), 1, way="from")) < COUNT * 0.7


def test_some_packets_come_behind_later_ones(world: World) -> None:
    with world.fault(Reordered(20, 50)):
        arrived = world.sent(range(COUNT), COUNT)
    numbers = [number for number, _ in arrived]
    assert sorted(numbers) == list(range(COUNT))
    late = sum(number < max(numbers[: place + 1]) for place, number in enumerate(numbers))
    assert COUNT * 0.1 < late < COUNT * 0.3


def test_some_packets_come_twice(world: World) -> None:
    with world.fault(Duplicated(30)):
        numbers = [number for number, _ in world.sent(range(COUNT), COUNT)]
    assert sorted(set(numbers)) == list(range(COUNT))
    assert COUNT * 1.2 < len(numbers) < COUNT * 1.4


def test_a_wrong_bit_is_seen_by_who_receives_it(world: World) -> None:
    before = world.wrong_checksums()
    with world.fault(Corrupted(50)):
        # UDP's checksum finds all of those that IP itself takes.
        arrived = world.sent(range(COUNT), 1)
        assert COUNT * 0.3 < len(arrived) < COUNT * 0.7
        assert world.wrong_checksums() - before > COUNT * 0.1
        assert sorted({number for number, _ in arrived} | set(range(COUNT))) == list(range(COUNT))


def test_several_at_once_are_done_each_once(world: World) -> None:
    with world.fault(Duplicated(100)), world.fault(Latency(50)), world.fault(Reordered(100, 50)):
        arrived = world.sent(range(COUNT), 2 * COUNT)
        assert [number for number, _ in arrived] == [number for number in range(COUNT) for _ in range(2)]
        assert min(late for _, late in arrived) >= 0.1
        with world.fault(Loss(50)):
            # After the others: of each two, one may be lost.
            assert COUNT * 0.8 < len(world.sent(range(COUNT), 1)) < COUNT * 1.2
    with world.fault(Latency(1)), world.fault(BlackHole(1000)):
        assert len(world.sent(range(COUNT), COUNT)) == COUNT


@pytest.fixture
def _one_nic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a machine with one NIC the far side."""
    monkeypatch.setattr(impairments, "running_devices", lambda *_: ["lab0"])
    monkeypatch.setattr(impairments, "taps", lambda *_: ["lab0"])


@pytest.mark.usefixtures("_one_nic")
@pytest.mark.parametrize("way", ["to", "from"])
def test_what_is_too_much_waits_or_is_lost(world: World, way: Any) -> None:
    with world.fault(Throttle("far", 800, way=way)):
        arrived = world.sent(range(100), 1, way=way, size=1000)
    numbers = [number for number, _ in arrived]
    assert numbers == sorted(set(numbers))
    # Of 833 kbit: 100 go at once, 320 within 400 ms; and what the time of sending is enough for.
    assert 40 <= len(numbers) < 100
    assert max(late for _, late in arrived) > 0.2
    other = "from" if way == "to" else "to"
    with world.fault(Throttle("far", 800, way=way)):
        assert len(world.sent(range(100), 100, way=other, size=1000)) == 100
        with pytest.raises(LabError, match="end that first"):
            Throttle("far", 900, way=way).begin(world.lab)


@pytest.fixture
def _switched(world: World) -> Iterator[None]:
    """Provide the lab's switch hands on what a port gets and what a bridge sends: lab0 is a port, and the address
    behind it."""
    # Whom the other side knows already.
    mac = world.here(Path("/sys/class/net/lab0/address").read_text).strip()
    world.ip(f"link add leg address {mac} type veth peer name legp")
    world.ip(f"address del {HERE}/24 dev lab0")
    world.ip(f"address add {HERE}/24 dev leg")
    world.ip("link set leg up")
    world.ip("link set legp up")
    leg, port = (world.here(socket.if_nametoindex, name) for name in ("legp", "lab0"))
    world.here(switch.attach, "lab0", switch.from_port([(0, leg)]))
    # A program takes the place of the one before.
    world.here(switch.attach, "legp", switch.to_ports(0, []))
    world.here(switch.attach, "legp", switch.to_ports(0, [port]))
    yield
    world.ip("link del leg")
    world.ip("link del lab0")
    world.make_nics()


@pytest.mark.usefixtures("_switched")
def test_what_comes_from_a_port_of_the_labs_switch_fails_before_the_switch_has_it(world: World) -> None:
    # Both ways: the lab then knows where to send, and asks nobody whose answer is late.
    for way in ("from", "to"):
        assert len(world.sent(range(COUNT), COUNT, way=way)) == COUNT
    with world.fault(Loss(50, way="from")):
        assert COUNT * 0.3 < len(world.sent(range(COUNT), 1, way="from")) < COUNT * 0.7
    with world.fault(Latency(100, way="from")):
        assert min(late for _, late in world.sent(range(COUNT), COUNT, way="from")) >= 0.1
        assert min(late for _, late in world.sent(range(10), 10)) < 0.1
    with world.fault(Latency(100)), world.fault(Duplicated(100)):
        arrived = world.sent(range(10), 20)
        assert len(arrived) == 20
        assert min(late for _, late in arrived) >= 0.1


def test_connections_bear_all_of_it(world: World) -> None:
    content = b"".join(number.to_bytes(4, "big") for number in range(1 << 18))
    with (
        world.fault(Latency(5, 2)), world.fault(Reordered(5)), world.fault(Duplicated(5)), world.fault(Corrupted(1))
    ):  # fmt: skip
        assert world.transferred(content) == content


def test_a_black_hole_measures_what_goes_by_the_cable(world: World) -> None:
    # What is sent at once is larger: the kernel leaves it to the NIC to cut. 1000 bytes, and 40 of IP's and TCP's.
    content = bytes(30_000)
    with world.fault(BlackHole(1040)):
        before = world.here(_dropped_by, "lab0")
        assert world.transferred(content, 1000) == content
        assert world.here(_dropped_by, "lab0") == before
    with world.fault(BlackHole(1039)), pytest.raises(TimeoutError):
        world.transferred(content, 1000, seconds=1)


@contextmanager
def suspended(world: World) -> Iterator[None]:
    """Provide the daemon does nothing, as when it has to wait for a processor."""
    world.lab.services.start("impair")
    process = world.lab.services.process
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_what_comes_while_the_daemon_waits_for_a_processor_is_not_lost(world: World) -> None:
    many = 3000
    with world.fault(Latency(1)):
        before = world.here(_sent_by, "lab0")
        with suspended(world), world.here(connected, THERE) as sending:
            for _ in range(many):
                sending.send(b"0 0")
        wait_until(lambda: world.here(_sent_by, "lab0") >= before + many, SECONDS, "all packets to be sent", poll=0.05)


def test_what_begins_when_nobody_waits_for_it_any_more_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, suspended(world):
        patched.setattr(impair, "ANSWER_SECONDS", 0.1)
        with pytest.raises(LabError, match="daemon of impairments does not answer: timed out"):
            Latency(100).begin(world.lab)
    with world.fault(Latency(10)):
        assert min(late for _, late in world.sent(range(10), 10)) < 0.1
    assert "aside" not in world.here(_nics)


def test_a_client_that_says_nothing_holds_nobody_up(world: World) -> None:
    world.lab.services.start("impair")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(world.lab.layout.impair))
        with world.fault(Latency(10)):
            assert len(world.sent(range(10), 10)) == 10


def test_who_sends_without_end_takes_turns_with_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    way = world.here(impair.Detour, "lab0", 15, impair.Impairment())
    taken: list[int] = []

    def read(*_: int) -> bytes:
        assert len(taken) < 10_000, "nobody else has a turn"
        taken.append(1)
        return bytes(60)

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", read)
        world.here(way.take)
    way.close()
    assert taken


def test_one_of_a_kind_on_a_nic(world: World) -> None:
    with world.fault(Latency(10)):
        with pytest.raises(LabError, match=r"^lab0: it has a fault of this kind already: end that first$"):
            Latency(20).begin(world.lab)
        assert min(late for _, late in world.sent(range(10), 10)) >= 0.01
    Latency(10).end(world.lab)


def test_a_cable_that_comes_again_has_nothing_of_it(world: World) -> None:
    late = Latency(100)
    late.begin(world.lab)
    world.ip("link set lab0 down")
    world.ip("link set lab0 up")
    assert min(late for _, late in world.sent(range(10), 10)) >= 0.1
    world.ip("link del lab0")
    wait_until(lambda: "aside" not in world.here(_nics), SECONDS, "the way around to go with the NIC", poll=0.05)
    world.make_nics()
    assert len(world.sent(range(10), 10)) == 10
    with world.fault(late):
        assert min(late for _, late in world.sent(range(10), 10)) >= 0.1
    assert "aside" not in world.here(_nics)


def test_where_one_of_two_nics_is_not_there_neither_has_a_fault(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impairments, "running_devices", lambda *_: ["lab0", "lab1"])
    with pytest.raises(LabError, match=r"^lab1: there is no such NIC: is the machine on\?$"):
        Latency(100).begin(world.lab)
    assert "aside" not in world.here(_nics)


def _sent_by(nic: str) -> int:
    argv = ["ip", "-json", "-s", "link", "show", "dev", nic]
    text = subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS).stdout
    return int(json.loads(text)[0]["stats64"]["tx"]["packets"])


def _dropped_by(nic: str) -> int:
    """Count the packets that its programs have dropped."""
    argv = ["tc", "-json", "-s", "qdisc", "show", "dev", nic]
    text = subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS).stdout
    [drops] = [item["drops"] for item in json.loads(text) if item["kind"] == "clsact"]
    return int(drops)


def _nics() -> str:
    return subprocess.run(["ip", "link"], check=True, capture_output=True, text=True, timeout=SECONDS).stdout
