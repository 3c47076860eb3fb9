"""Places of network faults, by a lab's topology; nothing runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from drivers import container
from drivers.protocols import PowerState
from lab import topology
from lab.errors import LabError
from lab.faults import (
    BlackHole,
    Corrupted,
    Duplicate,
    Duplicated,
    Fault,
    Flapping,
    Hang,
    Latency,
    LinkDown,
    Loss,
    NamesSlow,
    Outage,
    Partition,
    Reordered,
    Swapped,
    Throttle,
    WrongVlan,
    bpf,
    network,
    ports,
)
from lab.layout import Layout
from lab.machines import factory


class Kernel:
    """The packet programs of a lab's NICs; `lacks` is a NIC that is not there."""

    def __init__(self, lacks: str = "") -> None:
        self.lacks = lacks
        self.begun: list[str] = []

    def attach(self, device: str, _program: bytes, _priority: int, _way: str) -> None:
        if device == self.lacks:
            raise LabError(f"there is no NIC {device}")
        self.begun.append(device)

    def detach(self, device: str, _priority: int, _way: str) -> None:
        self.begun.remove(device)


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """Provide a lab with two networks, 192.168.111.0/24 and 10.9.0.0/24."""
    home = topology.sno()
    storage = topology.Network(name="storage", ipv4="10.9.0.0/24", ipv6="fd09::/64")
    two = msgspec.structs.replace(home, networks=(home.all_networks[0], storage), address=None, aliases=())
    return SimpleNamespace(layout=Layout(tmp_path, two), inside=lambda function, *words: function(*words))


@pytest.mark.parametrize("fault", [Loss(5), NamesSlow()])
def test_what_befalls_all_that_the_lab_sends_does_so_in_each_network(
    lab: Any, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    monkeypatch.setattr(bpf, "attach", kernel.attach)
    monkeypatch.setattr(bpf, "detach", kernel.detach)
    fault.begin(lab)
    assert kernel.begun == ["lab0", "lab1"]
    fault.end(lab)
    assert kernel.begun == []
    kernel.lacks = "lab1"
    with pytest.raises(LabError, match="no NIC lab1"):
        fault.begin(lab)
    assert kernel.begun == []


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("192.168.111.9", "192.168.111.9/32 dev lab0"),
        ("10.9.0.9", "10.9.0.9/32 dev lab1"),
        ("fd09::9", "fd09::9/128 dev lab1"),
    ],
)
def test_an_address_is_taken_in_its_network(
    lab: Any, address: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(network, "ip", lambda _, words: said.append(words))
    Duplicate(address).begin(lab)
    Duplicate(address).end(lab)
    assert said == [f"address add {wanted}", f"address del {wanted}"]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (
            "192.0.2.1",
            r"^192\.0\.2\.1 is in none of the lab's networks, 192\.168\.111\.0/24, 10\.9\.0\.0/24, fd09::/64: nobody ",
        ),
        ("10.9.0.1", r"^10\.9\.0\.1 is the lab's own: "),
    ],
)
def test_an_address_that_nobody_would_miss_is_refused(lab: Any, address: str, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        Duplicate(address).begin(lab)


@pytest.mark.parametrize("fault", [Outage("impair"), Hang("impair")])
def test_what_other_faults_go_by_does_not_fail_itself(lab: Any, fault: Fault) -> None:
    with pytest.raises(LabError, match=r"^impair serves other faults of this lab"):
        fault.begin(lab)


@pytest.mark.parametrize("fault", [Outage("machined"), Hang("machined"), Outage("libvirtd"), Hang("libvirtd")])
def test_what_runs_the_machines_is_no_service_that_could_be_away(lab: Any, fault: Outage | Hang) -> None:
    with pytest.raises(LabError, match=rf"^{fault.service} runs the lab's machines, .*`crash` has the lab fail by it$"):
        fault.begin(lab)


HOME, STORAGE = "52:54:00:6e:31:00", "52:54:00:6e:30:00"
PORTS = {"enp1s0": "nv5254006e3100", "enp2s0": "nv5254006e3000"}


class Cable:
    """The cable of a NIC, `stuck` where it cannot be pulled."""

    def __init__(self) -> None:
        self.up, self.stuck = True, False

    def set_up(self, up: bool) -> None:
        if self.stuck:
            raise LabError("it is glued")
        self.up = up


@pytest.fixture
def bonded(tmp_path: Path) -> Any:
    """Provide a lab whose one machine has a bond of two NICs, in the other order than their MAC addresses have."""
    [node] = topology.sno().nodes
    nics = (topology.Nic(mac=HOME), topology.Nic(mac=STORAGE))
    bond = topology.Bond(nics=("enp1s0", "enp2s0"), addresses=("192.168.111.80",))
    two = msgspec.structs.replace(node, mac="", nics=nics, bonds=(bond,))
    shape = msgspec.structs.replace(topology.sno(), nodes=(two,))
    machine = object.__new__(container.Machine)
    view = SimpleNamespace(macs=(STORAGE, HOME))
    machine.look = lambda: view  # type: ignore[method-assign,assignment,return-value]
    machine.state = lambda: PowerState.ON  # type: ignore[method-assign]
    master = SimpleNamespace(name=node.name, spec=two, links={name: Cable() for name in PORTS})
    return SimpleNamespace(
        layout=Layout(tmp_path, shape),
        inside=lambda function, *words: function(*words),
        nodes={node.name: master},
        hypervisor=SimpleNamespace(machine=lambda _: machine),
    )


def test_a_nic_is_known_by_its_mac_and_not_by_its_place(bonded: Any) -> None:
    assert network.taps(bonded, "master-0") == list(PORTS.values())
    assert [network.taps(bonded, "master-0", nic) for nic in PORTS] == [[port] for port in PORTS.values()]
    xml = "<interface><mac address='%s'/><target dev='%s'/></interface>"
    nics = xml % (STORAGE, PORTS["enp2s0"]) + xml % (HOME, PORTS["enp1s0"]) + "<interface><source/></interface>"
    guest: Any = SimpleNamespace(xml=lambda live: f"<domain><devices>{nics}</devices></domain>")
    assert factory.ports(guest) == {STORAGE: PORTS["enp2s0"], HOME: PORTS["enp1s0"]}


@pytest.mark.parametrize("way", ["to", "from"])
@pytest.mark.parametrize("kind", [Loss, BlackHole, Flapping])
def test_packets_of_one_nic_fail_alone(bonded: Any, kind: type[Any], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, str]] = []
    monkeypatch.setattr(bpf, "attach", lambda port, _program, _priority, way: begun.append((port, way)))
    monkeypatch.setattr(bpf, "detach", lambda port, _priority, way: begun.remove((port, way)))
    what: dict[str, Any] = {Loss: {"percent": 5}, BlackHole: {"mtu": 1000}}.get(kind, {})
    for nic, wanted in (("enp2s0", [PORTS["enp2s0"]]), ("enp1s0", [PORTS["enp1s0"]]), ("", list(PORTS.values()))):
        fault = kind(node="master-0", way=way, nic=nic, **what)
        fault.begin(bonded)
        assert begun == [(port, way) for port in wanted]
        fault.end(bonded)
        assert begun == []


def test_one_cable_is_pulled_or_all_are(bonded: Any) -> None:
    links = bonded.nodes["master-0"].links

    def up() -> list[bool]:
        return [link.up for link in links.values()]

    for fault, wanted in (
        (LinkDown("master-0", "enp2s0"), [True, False]),
        (LinkDown("master-0"), [False, False]),
        (Partition(("master-0",)), [False, False]),
    ):
        fault.begin(bonded)
        assert up() == wanted
        fault.end(bonded)
        assert up() == [True, True]
    links["enp2s0"].stuck = True
    for whole in (LinkDown("master-0"), Partition(("master-0",))):
        with pytest.raises(LabError, match="glued"):
            whole.begin(bonded)
        assert up() == [True, True]


@pytest.mark.parametrize(
    "fault",
    [
        LinkDown("master-0", "eth0"),
        Flapping("master-0", nic="eth0"),
        Throttle("master-0", 500, nic="eth0"),
        Throttle("master-0", 500, way="from", nic="eth0"),
        Loss(5, "master-0", nic="eth0"),
        BlackHole(1000, "master-0", nic="eth0"),
        Latency(10, node="master-0", nic="eth0"),
        Reordered(10, node="master-0", nic="eth0"),
        Duplicated(10, node="master-0", nic="eth0"),
        Corrupted(10, node="master-0", nic="eth0"),
    ],
    ids=str,
)
def test_a_nic_that_the_machine_has_not_is_told_with_those_that_it_has(bonded: Any, fault: Fault) -> None:
    with pytest.raises(LabError, match=r"^master-0 has no NIC eth0; it has enp1s0, enp2s0$"):
        fault.begin(bonded)


def test_a_port_of_the_labs_switch_is_put_into_no_bridge(bonded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(ports, "ip", lambda _, words: said.append(words))
    WrongVlan("master-0").begin(bonded)
    WrongVlan("master-0").end(bonded)
    assert said == [
        *(f"link set {port} nomaster" for port in PORTS.values()),
        *(f"link set {port} master lab0" for port in PORTS.values()),
    ]
    said.clear()
    node = bonded.nodes["master-0"].spec
    bond = msgspec.structs.replace(node.bonds[0], mode="802.3ad")
    aggregated = msgspec.structs.replace(node, bonds=(bond,))
    bonded.nodes["master-0"].spec = aggregated
    shape = msgspec.structs.replace(bonded.layout.topology, nodes=(aggregated,))
    bonded.layout = Layout(bonded.layout.root, shape)
    with pytest.raises(LabError, match=r"^master-0 has a trunk or an aggregated bond: "):
        WrongVlan("master-0").begin(bonded)
    with pytest.raises(LabError, match=r"^master-0 has not two NICs in different networks: "):
        Swapped("master-0").begin(bonded)
    WrongVlan("master-0").end(bonded)
    assert said == []
