"""A machine that hangs, or starves, as a whole: what its owner is asked for, and where that is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from drivers.libvirt import Machine
from drivers.protocols import PowerState
from lab.errors import LabError
from lab.faults import Fault, GuestHung, GuestStarved, active


class Owned:
    """A container machine."""

    def __init__(self) -> None:
        self.power, self.asked = PowerState.ON, list[str]()

    def state(self) -> PowerState:
        return self.power

    def __getattr__(self, verb: str) -> Any:
        return lambda *words: self.asked.append(" ".join(map(str, (verb, *words))))


@pytest.fixture
def machine() -> Owned:
    return Owned()


@pytest.fixture
def lab(machine: Owned, tmp_path) -> Any:
    return SimpleNamespace(
        layout=SimpleNamespace(root=tmp_path),
        nodes={"master-0": SimpleNamespace(name="master-0")},
        hypervisor=SimpleNamespace(machine=lambda name: machine),
    )


@pytest.mark.parametrize(
    ("fault", "asked"),
    [(GuestHung("master-0"), ["suspend", "resume"]), (GuestStarved("master-0", 7), ["limit_cpu 7", "limit_cpu None"])],
)
def test_it_begins_and_ends(lab: Any, machine: Owned, fault: Fault, asked: list[str]) -> None:
    assert active.begin(lab, fault) is not None
    assert len(list(active.end(lab))) == 1
    assert machine.asked == asked


@pytest.mark.parametrize("fault", [GuestHung("master-0"), GuestStarved("master-0")])
def test_what_is_off_neither_hangs_nor_starves_and_has_nothing_left_of_it(
    lab: Any, machine: Owned, fault: Fault
) -> None:
    active.begin(lab, fault)
    machine.power = PowerState.OFF
    assert len(list(active.end(lab))) == 1
    assert len(machine.asked) == 1
    with pytest.raises(LabError, match=r"^master-0 is off"):
        active.begin(lab, fault)
    assert active.lasting(lab.layout.root) == []


def test_the_end_of_one_would_be_the_end_of_another(lab: Any) -> None:
    active.begin(lab, GuestStarved("master-0", 7))
    with pytest.raises(LabError, match="fault 1 has changed the same"):
        active.begin(lab, GuestStarved("master-0", 9))
    assert active.begin(lab, GuestHung("master-0")) is not None


def test_a_virtual_machine_is_not_starved(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    virtual = Machine(None, "master-0")
    monkeypatch.setattr(virtual, "state", lambda: PowerState.ON)
    lab.hypervisor = SimpleNamespace(machine=lambda name: virtual)
    with pytest.raises(LabError, match=r"^master-0 is a VM: "):
        active.begin(lab, GuestStarved("master-0"))
