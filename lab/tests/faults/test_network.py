"""Where faults of a lab's networks are, by its topology; nothing runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lab import topology
from lab.errors import LabError
from lab.faults import Duplicate, Fault, Hang, Loss, NamesSlow, Outage, bpf, network
from lab.layout import Layout


class Kernel:
    """The packet programs of a lab's cards; `lacks` is a card that is not there."""

    def __init__(self, lacks: str = "") -> None:
        self.lacks = lacks
        self.begun: list[str] = []

    def attach(self, device: str, _program: bytes, _priority: int, _way: str) -> None:
        if device == self.lacks:
            raise LabError(f"there is no network card {device}")
        self.begun.append(device)

    def detach(self, device: str, _priority: int, _way: str) -> None:
        self.begun.remove(device)


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """A lab with two networks, 192.168.111.0/24 and 10.9.0.0/24."""
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
    with pytest.raises(LabError, match="no network card lab1"):
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
