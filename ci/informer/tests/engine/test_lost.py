"""Hosts and schedulers that come back, later than was waited for: nothing is run to its end twice."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from distributed import Client

from ci.informer.engine import announce, engine, host
from ci.informer.engine.engine import LOOK, Engine
from ci.informer.engine.places import Flight, Place
from ci.informer.engine.unit import Unit
from ci.informer.errors import InformerError
from lab.host.budget import Amount

HAS = {announce.VERSION + announce.version(): 1, announce.MIB: 4000, announce.VCPU: 2, announce.GIB: 50, "KVM": 1}
GRACE = 30.0
UNIT = Unit(key="plan/job/1", payload="p", scenario="sno", needs=Amount(3000, 1, 10))


class World(Engine):
    """An engine whose hosts are a table, with a clock that is set by hand."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        monkeypatch.setattr(engine.time, "monotonic", lambda: self.now)
        super().__init__(self.lines.append, address="tls://scheduler", grace=GRACE)
        self._client = cast(Client, SimpleNamespace(close=lambda timeout: None))
        #: What is held at each address that is there; None: it does not answer that.
        self.there: dict[str, dict[str, bool] | None] = {}
        self.scheduler_away = 0.0
        self.sent: list[str] = []
        self.dropped: list[str] = []

    def _present(self):
        if self.scheduler_away:
            return None
        return {address: Place(f"host-{address}", HAS) for address in self.there}

    def _connect(self) -> None:
        self.now += self.scheduler_away
        self.scheduler_away = 0.0

    def _call(self, address, function, *args):
        if function is host.drop:
            self.dropped.append(address)
            return None
        return self.there[address] if function is host.units_here else {}

    def _send(self, unit, address) -> None:
        self.sent.append(address)
        self._flights[unit.key] = Flight(unit, self._places[address].name, address, len(self.sent))

    def cut(self) -> None:
        """The call that the unit was sent by ends without its result."""
        self._flights[UNIT.key].missing = self.now

    def look(self, seconds: float = LOOK) -> None:
        """What the engine does each second, once."""
        self.now += seconds
        self._look()
        self._hand_out()


@pytest.fixture
def world(monkeypatch):
    """One host, to which the unit has been sent."""
    one = World(monkeypatch)
    one.there = {"a": {}}
    one.look()
    one.submit([UNIT])
    one.look()
    assert one.sent == ["a"]
    return one


def test_a_scheduler_may_be_away_longer_than_a_host(world):
    """Its hosts cannot come before it does: what they run is not sent elsewhere because it took its time."""
    world.cut()  # before the look that finds the scheduler gone
    world.there, world.scheduler_away = {"b": {}}, 10 * GRACE
    world.look()
    assert world.sent == ["a"]
    world.there["a2"] = {UNIT.key: False}  # it comes from another port
    world.look()
    assert world.sent == ["a", "a2"]
    assert "sno@vm: host-a2 has it still" in world.lines
    world.look(2 * GRACE)
    assert world.sent == ["a", "a2"]


def test_a_host_that_does_not_say_at_once_what_it_holds_is_asked_again(world):
    world.there = {"a2": None}
    world.look()
    world.look()
    world.there = {"a2": {UNIT.key: False}}
    world.look()
    assert world.sent == ["a", "a2"]
    assert "sno@vm: host-a2 has it still" in world.lines


def lost(world) -> None:
    """The unit's host goes, and it is sent to another one."""
    world.there = {"b": {}}
    world.look()
    world.look(GRACE)
    assert world.sent == ["a", "b"]


def test_a_host_that_comes_too_late_ends_what_runs_elsewhere_by_then(world):
    lost(world)
    world.there["a2"] = {UNIT.key: False}
    world.look()
    assert world.dropped == ["a2"]
    assert world.sent == ["a", "b"]


def test_a_result_that_comes_too_late_ends_the_second_run(world):
    lost(world)
    world.there["a2"] = {UNIT.key: True}
    world.look()
    assert world.dropped == ["b"]
    assert world.sent == ["a", "b", "a2"]
    assert "sno@vm: host-a2 has its result; host-b ends it" in world.lines


def test_a_run_goes_where_its_release_is(world):
    """Else to the host with the most room, as one of the lab release does; copying it takes minutes."""
    world.there = {"a": {}, "b": {}, "c": {}}
    world.look()
    del world._flights[UNIT.key]
    for address, mib in (("a", 4000), ("b", 20000), ("c", 9000)):
        world._places[address].has = {**HAS, announce.MIB: mib, announce.VCPU: 9, announce.GIB: 900}
    world._places["c"].has[announce.RELEASE + "sha256:1"] = 1
    world.sent.clear()
    for number, digest in enumerate(("", "sha256:1", "sha256:2", "sha256:2", "", "sha256:1", "sha256:1")):
        unit = msgspec.structs.replace(UNIT, key=f"plan/job/{number}", digest=digest)
        world.submit([unit])
        world._hand_out()
    # sha256:2 is copied to b; c has room for three.
    assert world.sent == ["b", "c", "b", "b", "b", "c", "c"]


def test_hosts_of_another_version_alone_are_told_before_anything_runs(monkeypatch):
    world = World(monkeypatch)
    other = {**HAS, announce.VERSION + "0.0-of-yesterday": 1}
    del other[announce.VERSION + announce.version()]
    world.there = {"a": {}}
    monkeypatch.setattr(world, "_present", lambda: {"a": Place("host-a", other)})
    world.look()
    world.submit([UNIT])
    with pytest.raises(InformerError) as caught:
        world.ended(lambda unit: Path())
    why = f"its code is of version 0.0-of-yesterday, this is {announce.version()}: update it"
    assert str(caught.value) == f"scenario: 'sno': no host can run it: host-a: {why}"
    assert f"host host-a gets no units: {why}" in world.lines
    assert world.sent == []
