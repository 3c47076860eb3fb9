"""Faults begun by hand: which last, and what is left when one of them cannot begin or end."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from drivers import libvirt
from drivers.errors import PowerError
from drivers.protocols import PowerState
from lab import topology
from lab.errors import LabError
from lab.faults import (
    DiskErrors,
    DiskFull,
    DiskSlow,
    Fault,
    Flapping,
    Freeze,
    Hang,
    Kill,
    Latency,
    LinkDown,
    Loss,
    MemoryTaken,
    NameMissing,
    NameWrong,
    Outage,
    Partition,
    PowerCut,
    Reset,
    Swapped,
    Throttle,
    WrongVlan,
    active,
    machines,
)
from lab.layout import Layout
from lab.topology import Disk


class Services:
    """The lab's daemons; what `refuses` says does not work the next time."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refuses = ""
        self.down: set[str] = set()

    def running(self) -> dict[str, bool]:
        return {"dnsmasq": "dnsmasq" not in self.down}

    def __getattr__(self, verb: str) -> Any:
        def do(name: str) -> None:
            self.done.append(f"{verb} {name}")
            if f"{verb} {name}" == self.refuses:
                self.refuses = ""
                raise LabError(f"{verb} {name}: it does not")
            (self.down.add if verb == "stop" else self.down.discard)(name)

        return do


@pytest.fixture
def lab(tmp_path) -> Any:
    domain = SimpleNamespace(cluster_domain="ostest.x.example", base_domain="x.example")
    (tmp_path / "dnsmasq.conf").write_text("host-record=api.ostest.x.example,192.0.2.1\n")
    return SimpleNamespace(layout=SimpleNamespace(root=tmp_path, topology=domain), services=Services())


def test_what_lasts_is_numbered_and_kept(lab):
    assert active.begin(lab, Outage("registry")).number == 1
    assert active.begin(lab, Hang("chronyd")).number == 2
    assert [entry.fault for entry in active.lasting(lab.layout.root)] == [Outage("registry"), Hang("chronyd")]
    assert [entry.number for entry in active.end(lab, 1)] == [1]
    # A number is never given twice.
    assert active.begin(lab, Outage("registry")).number == 3
    assert [entry.number for entry in active.end(lab)] == [3, 2]
    assert list(active.end(lab)) == []


@pytest.fixture
def host(lab, monkeypatch) -> Iterator[socket.socket]:
    """Provide the port of a host that listens and has not said anything yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(machines, "SSH_PORT", server.getsockname()[1])
        monkeypatch.setattr(machines, "GREETING_SECONDS", 0.2)
        spec = SimpleNamespace(ip="127.0.0.1")
        power = SimpleNamespace(state=lambda: PowerState.ON)
        lab.nodes = {"master-0": SimpleNamespace(name="master-0", spec=spec)}
        lab.hypervisor = SimpleNamespace(machine=lambda name: power)
        lab.inside = lambda function: function()
        yield server


def test_a_host_that_takes_no_login_is_told_before_anybody_tries(lab, host):
    kill = Kill("master-0", "etcd")
    with pytest.raises(LabError, match=r"^master-0: no SSH at 127\.0\.0\.1: timed out$"):
        active.begin(lab, kill)

    def greet():
        # The one before has gone unanswered.
        for greeting in (b"", b"220 mail"):
            with host.accept()[0] as caller:
                caller.sendall(greeting)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(greet)
        with pytest.raises(LabError, match=r"what listens at port \d+ of 127\.0\.0\.1 is not SSH$"):
            active.begin(lab, kill)
    host.close()
    with pytest.raises(LabError, match=r"^master-0: no SSH at 127\.0\.0\.1: .*refused"):
        active.begin(lab, kill)
    lab.hypervisor = SimpleNamespace(machine=lambda name: SimpleNamespace(state=lambda: PowerState.OFF))
    with pytest.raises(LabError, match=r"^master-0 is off: nobody can log in$"):
        active.begin(lab, kill)


def test_a_greeting_may_come_in_pieces(lab, host, monkeypatch):
    monkeypatch.setattr(Freeze, "begin", lambda *_: None)
    # The lab's BMCs may be what fails.
    lab.nodes["master-0"].power = None
    ended = threading.Event()

    def greet():
        with host.accept()[0] as caller:
            for piece in (b"S", b"SH-2.0"):
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                caller.sendall(piece)
                ended.wait(0.05)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(greet)
        assert active.begin(lab, Freeze("master-0", "agent")).number == 1


@pytest.mark.parametrize("fault", [DiskFull("master-0"), Freeze("master-0", "agent"), MemoryTaken("master-0")], ids=str)
def test_a_host_that_takes_no_login_is_told_when_its_fault_is_to_end(lab, host, monkeypatch, fault):
    monkeypatch.setattr(type(fault), "begin", lambda *_: None)
    monkeypatch.setattr(type(fault), "end", lambda *_: pytest.fail("a minute is lost"))
    monkeypatch.setattr(active, "begin_now", lambda *_: None)
    active.begin(lab, fault)
    with pytest.raises(LabError, match=r"^fault 1 lasts: master-0: no SSH at 127\.0\.0\.1: timed out$"):
        list(active.end(lab))
    assert [entry.fault for entry in active.lasting(lab.layout.root)] == [fault]


def test_two_commands_at_once_lose_nothing(lab, monkeypatch):
    both, others = threading.Barrier(2), (Outage("registry"), Outage("http"))

    def slow(*words):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)

    monkeypatch.setattr(Outage, "begin", slow)
    with ThreadPoolExecutor(2) as pool:
        begun = list(pool.map(lambda fault: active.begin(lab, fault), others))
    assert sorted(entry.number for entry in begun) == [1, 2]
    assert {entry.fault for entry in active.lasting(lab.layout.root)} == set(others)


def test_what_is_interrupted_while_it_begins_can_be_ended(lab):
    def interrupted(name):
        raise KeyboardInterrupt

    lab.services.start = interrupted
    with pytest.raises(KeyboardInterrupt):
        active.begin(lab, NameMissing("api"))
    assert "api.ostest" not in (lab.layout.root / "dnsmasq.conf").read_text()
    del lab.services.start
    assert [entry.fault for entry in active.end(lab)] == [NameMissing("api")]
    assert "api.ostest" in (lab.layout.root / "dnsmasq.conf").read_text()
    # Before it has changed anything, too.
    lab.services.running = lambda: interrupted("dnsmasq")
    with pytest.raises(KeyboardInterrupt):
        active.begin(lab, NameMissing("api"))
    (lab.layout.root / "dnsmasq.conf.whole").unlink()
    del lab.services.running
    assert [entry.number for entry in active.end(lab)] == [2]


def test_a_machine_that_cannot_be_cut_off_keeps_its_clock(lab, monkeypatch):
    clocks, machine = [], object.__new__(libvirt.Machine)
    monkeypatch.setattr(libvirt.Machine, "clock", lambda self: 60)
    monkeypatch.setattr(libvirt.Machine, "set_clock", lambda self, ahead: clocks.append(ahead))

    def off():
        raise PowerError("the BMC does not answer")

    node = SimpleNamespace(name="master-0", power=SimpleNamespace(off=off))
    lab.nodes, lab.hypervisor = {"master-0": node}, SimpleNamespace(machine=lambda name: machine)
    with pytest.raises(PowerError):
        active.begin(lab, PowerCut("master-0", 3600))
    assert clocks == [3660, 60]
    assert active.lasting(lab.layout.root) == []


def test_power_is_cut_once_and_each_time_that_it_was_away_counts(lab, monkeypatch):
    clocks, machine = [-60], object.__new__(libvirt.Machine)
    monkeypatch.setattr(libvirt.Machine, "clock", lambda self: clocks[-1])
    monkeypatch.setattr(libvirt.Machine, "set_clock", lambda self, ahead: clocks.append(ahead))
    power = SimpleNamespace(off=lambda: None, on=lambda: None)
    lab.nodes = {name: SimpleNamespace(name=name, power=power) for name in ("master-0", "master-1")}
    lab.hypervisor = SimpleNamespace(machine=lambda name: machine)
    assert active.begin(lab, PowerCut("master-0", 3600)).number == 1
    for again in (PowerCut("master-0"), PowerCut("master-0", 60), PowerCut("master-0", 3600)):
        with pytest.raises(LabError, match=r"^(that lasts|fault 1 .*) since .*Z: `node0-lab fault end 1` ends it$"):
            active.begin(lab, again)
    assert active.begin(lab, PowerCut("master-1")).number == 2
    assert [entry.number for entry in active.end(lab)] == [2, 1]
    active.begin(lab, PowerCut("master-0", 7200))
    assert clocks == [-60, 3540, 10_740]


@pytest.mark.parametrize("fault", [Freeze("master-0", "agent"), MemoryTaken("master-0")], ids=str)
def test_what_is_nowhere_without_power_has_ended_with_it(lab, host, monkeypatch, fault):
    monkeypatch.setattr(type(fault), "begin", lambda *_: None)
    monkeypatch.setattr(type(fault), "end", lambda *_: pytest.fail("there is nobody who could"))
    monkeypatch.setattr(active, "begin_now", lambda *_: None)
    active.begin(lab, fault)
    lab.hypervisor = SimpleNamespace(machine=lambda name: SimpleNamespace(state=lambda: PowerState.OFF))
    assert [entry.fault for entry in active.end(lab)] == [fault]


def test_a_host_that_goes_down_while_a_fault_begins_is_one_line(lab):
    def run(command):
        raise RuntimeError(SimpleNamespace(stderr="Connection closed by 192.0.2.1 port 22"))

    lab.nodes = {"master-0": SimpleNamespace(name="master-0", ssh=lambda seconds: SimpleNamespace(run=run))}
    with pytest.raises(LabError, match=r"^master-0: the connection has broken: is it going down\?$"):
        DiskFull("master-0").begin(lab)


def test_what_lasts_does_not_begin_again(lab):
    active.begin(lab, Outage("registry"))
    with pytest.raises(LabError, match=r"^that lasts since .*Z: `node0-lab fault end 1` ends it$"):
        active.begin(lab, Outage("registry"))
    assert lab.services.done == ["stop registry"]


def test_what_is_over_at_once_may_begin_again(lab, monkeypatch):
    killed = []
    monkeypatch.setattr("lab.faults.machines.send_signal", lambda *words: killed.append(words[1:]))
    monkeypatch.setattr(active, "check_login", lambda *_: None)
    for _ in range(2):
        assert active.begin(lab, Kill("master-0", "etcd")) is None
    assert killed == [("master-0", "etcd", "KILL")] * 2
    assert active.lasting(lab.layout.root) == []


def test_one_that_cannot_be_ended_keeps_no_other_from_it(lab, monkeypatch):
    for fault in (Outage("registry"), Hang("chronyd"), Outage("http")):
        active.begin(lab, fault)
    lab.services.refuses = "resume chronyd"
    ended = active.end(lab)
    assert [next(ended).number, next(ended).number] == [3, 1]
    with pytest.raises(LabError, match=r"^fault 2 lasts: resume chronyd: it does not$"):
        next(ended)
    assert [entry.number for entry in active.lasting(lab.layout.root)] == [2]
    assert [entry.number for entry in active.end(lab)] == [2]


def test_a_drivers_error_is_told_as_a_labs(lab, monkeypatch):
    monkeypatch.setattr(LinkDown, "begin", lambda *_: None)
    monkeypatch.setattr(LinkDown, "end", lambda *_: (_ for _ in ()).throw(PowerError("no answer")))
    active.begin(lab, LinkDown("master-0"))
    with pytest.raises(LabError, match=r"^fault 1 lasts: no answer$"):
        list(active.end(lab))


def test_a_number_that_nobody_has(lab):
    with pytest.raises(LabError, match=r"^no fault 7 lasts in this lab; `node0-lab fault ls` lists them$"):
        list(active.end(lab, 7))


def test_a_daemon_that_does_not_take_its_configuration_has_its_own_back(lab):
    lab.services.refuses = "start dnsmasq"
    with pytest.raises(LabError, match=r"^start dnsmasq: it does not$"):
        active.begin(lab, NameMissing("api"))
    assert "api.ostest" in (lab.layout.root / "dnsmasq.conf").read_text()
    assert active.lasting(lab.layout.root) == []
    active.begin(lab, NameWrong("api", "192.0.2.9"))
    assert lab.services.down == set()
    assert "host-record=api.ostest.x.example,192.0.2.9\n" in (lab.layout.root / "dnsmasq.conf").read_text()


def test_a_daemon_that_another_fault_has_stopped_stays_so(lab):
    active.begin(lab, Outage("dnsmasq"))
    active.begin(lab, NameMissing("api"))
    assert lab.services.done == ["stop dnsmasq"]
    assert [entry.number for entry in active.end(lab)] == [2, 1]
    assert lab.services.done == ["stop dnsmasq", "start dnsmasq"]


UNKNOWN = '{"next": 1, "begun": [{"number": 1, "since": "", "fault": {"type": "Dance"}}]}'


@pytest.mark.parametrize("text", ["{", UNKNOWN])
def test_a_file_that_cannot_be_read_is_one_line(lab, text):
    (lab.layout.root / "faults.json").write_text(text)
    with pytest.raises(LabError, match=r"faults\.json: .*; is the lab another version's\?$") as caught:
        active.lasting(lab.layout.root)
    assert isinstance(caught.value.__cause__, msgspec.MsgspecError)


#: Machines with two NICs each.
TWO_NICS = {
    name: SimpleNamespace(
        name=name,
        spec=SimpleNamespace(all_nics=[SimpleNamespace(name=nic, mac=nic) for nic in ("enp1s0", "enp2s0")]),
    )
    for name in ("master-0", "master-1", "master-2")
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LinkDown("master-0"), Partition(("master-1", "master-0"))),
        (Partition(("master-0", "master-1")), Partition(("master-1", "master-2"))),
        (LinkDown("master-0", "enp2s0"), LinkDown("master-0")),
        (LinkDown("master-0"), LinkDown("master-0", "enp1s0")),
        (Partition(("master-1", "master-0")), LinkDown("master-0", "enp2s0")),
        (Loss(5, "master-0"), Loss(6, "master-0", nic="enp2s0")),
        (Loss(5), Loss(6)),
        (Flapping("master-0", nic="enp1s0"), Flapping("master-0")),
        (Throttle("master-0", 500, way="from"), Throttle("master-0", 5000, way="from", nic="enp2s0")),
        (Latency(10, node="master-0", nic="enp1s0"), Latency(20, node="master-0", nic="enp1s0")),
        (WrongVlan("master-0"), Swapped("master-0")),
        # What is reset is on afterwards.
        (PowerCut("master-0"), Reset("master-0")),
        (DiskErrors("master-0"), DiskErrors("master-0", fails="all")),
        (DiskErrors("master-0"), DiskErrors("master-0", disk="vda")),
        (DiskSlow("master-0", 512), DiskSlow("master-0", 64)),
        (DiskFull("master-0", left_mib=100), DiskFull("master-0", "/var/")),
        (MemoryTaken("master-0"), MemoryTaken("master-0", 100)),
    ],
)
def test_what_the_end_of_one_would_mend_for_another_too_cannot_begin_beside_it(
    lab: Any, first: Fault, second: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Fault] = []
    monkeypatch.setattr(active, "begin_now", lambda _, fault: begun.append(fault))
    disk = Disk(size_gib=1, root=True, can_fail=True)
    [node] = topology.sno().nodes
    shape = msgspec.structs.replace(topology.sno(), nodes=(msgspec.structs.replace(node, disks=(disk,)),))
    lab.layout, lab.nodes = Layout(lab.layout.root, shape), TWO_NICS
    assert active.begin(lab, first).number == 1
    with pytest.raises(LabError, match=r"^fault 1 has changed the same since .*Z: `node0-lab fault end 1` ends it$"):
        active.begin(lab, second)
    assert [entry.fault for entry in active.lasting(lab.layout.root)] == begun == [first]


@pytest.mark.parametrize(
    "faults",
    [
        (LinkDown("master-0"), Partition(("master-1",)), WrongVlan("master-0")),
        (LinkDown("master-0", "enp1s0"), LinkDown("master-0", "enp2s0"), Partition(("master-1", "master-2"))),
        (
            Loss(5),
            Loss(5, way="from"),
            Loss(5, "master-0", nic="enp1s0"),
            Loss(5, "master-0", way="from", nic="enp1s0"),
            Loss(5, "master-0", nic="enp2s0"),
            Loss(5, "master-1"),
            Latency(5, node="master-0", nic="enp1s0"),
        ),
        (DiskFull("master-0"), DiskFull("master-0", "/"), DiskFull("master-1"), MemoryTaken("master-0")),
    ],
    ids=str,
)
def test_what_befalls_two_machines_or_nics_lasts_beside_each_other(
    lab: Any, faults: tuple[Fault, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "begin_now", lambda *_: None)
    lab.nodes = TWO_NICS
    for number, fault in enumerate(faults, 1):
        assert active.begin(lab, fault).number == number
