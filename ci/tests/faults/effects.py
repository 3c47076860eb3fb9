"""The faults of the table, carried out among simulated hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ci.tests.faults.lane import SwarmLane
from lab import faults as real
from scenarios.catalogue import simulated

Undo = Callable[[], None]


def _nothing() -> None:
    return


def _process(lane: SwarmLane, fault: Any) -> Undo:
    """Kill and Freeze."""
    host, frozen = lane.hosts[fault.node], isinstance(fault, real.Freeze)
    if fault.process == "assisted-service":
        assert fault.node == lane.topology.nodes[0].name, "the service runs on the rendezvous host"
        (lane.freeze_service(True) if frozen else lane.kill_service())
        return (lambda: lane.freeze_service(False)) if frozen else _nothing
    if fault.process == "agent":
        (host.freeze_agent(True) if frozen else host.kill_agent())
        return (lambda: host.freeze_agent(False)) if frozen else _nothing
    assert fault.process == "orchestrator", f"a swarm has no {fault.process}"
    (host.freeze_orchestrator(True) if frozen else host.kill_orchestrator())
    return (lambda: host.freeze_orchestrator(False)) if frozen else _nothing


def _hung(lane: SwarmLane, fault: real.GuestHung) -> Undo:
    """All that runs on a host stands still, the service too where it is the rendezvous host."""
    host, first = lane.hosts[fault.node], fault.node == lane.topology.nodes[0].name

    def freeze(frozen: bool) -> None:
        host.freeze_agent(frozen)
        if first:
            lane.freeze_service(frozen)

    freeze(True)
    return lambda: freeze(False)


def _power(lane: SwarmLane, fault: Any) -> Undo:
    """PowerCut and Reset."""
    host, first = lane.hosts[fault.node], fault.node == lane.topology.nodes[0].name
    host.power_off()

    def on() -> None:
        if first:
            lane.kill_service(forget=True)
        host.power_on()

    if isinstance(fault, real.Reset):
        on()
        return _nothing
    return on


def _cables(lane: SwarmLane, nodes: tuple[str, ...]) -> Undo:
    def pull(cut: bool) -> None:
        for node in nodes:
            lane.hosts[node].cut = cut

    pull(True)
    return lambda: pull(False)


def _member(members: set[str], value: str) -> Undo:
    members.add(value)
    return lambda: members.discard(value)


def _images(lane: SwarmLane, part: str, why: str) -> Undo:
    lane.network.failing_images[part] = why
    return lambda: lane.network.failing_images.clear()


def _set(target: Any, name: str, value: Any) -> Undo:
    before = getattr(target, name)
    setattr(target, name, value)
    return lambda: setattr(target, name, before)


def _cloned(lane: SwarmLane, fault: simulated.Cloned) -> Undo:
    lane.hosts[fault.node].id = lane.hosts[fault.of].id
    return _nothing


def _unlike(lane: SwarmLane, fault: simulated.Unlike) -> Undo:
    lane.hosts[fault.node].unlike = {name: getattr(fault, name) for name in fault.__struct_fields__ if name != "node"}
    return _nothing


def _step(lane: SwarmLane, fault: simulated.StepFails) -> Undo:
    failing = lane.hosts[fault.node].steps_failing
    failing[fault.step] = (fault.how, fault.error)
    return lambda: failing.clear()


#: How each fault begins; the function returns one that undoes it.
BEGIN: Mapping[type, Callable[[SwarmLane, Any], Undo]] = {
    real.Kill: _process,
    real.Freeze: _process,
    real.GuestHung: _hung,
    real.PowerCut: _power,
    real.Reset: _power,
    real.LinkDown: lambda lane, fault: _cables(lane, (fault.node,)),
    real.Partition: lambda lane, fault: _cables(lane, fault.nodes),
    real.Loss: lambda lane, fault: _set(lane.network, "loss_sent" if fault.way == "from" else "loss", fault.percent),
    real.Duplicate: lambda lane, fault: _member(lane.network.taken_addresses, fault.address),
    real.NameMissing: lambda lane, fault: _member(lane.network.unresolved, fault.name),
    real.RegistryRefuses: lambda lane, fault: _images(lane, "", "unauthorized: authentication required"),
    real.RegistryCertificate: lambda lane, fault: _images(lane, "", "x509: certificate has expired"),
    real.RegistryImage: lambda lane, fault: _images(lane, fault.image, "manifest unknown"),
    simulated.Apart: lambda lane, fault: _member(lane.network.isolated, lane.hosts[fault.node].mac),
    simulated.Cloned: _cloned,
    simulated.Replayed: lambda lane, fault: _set(lane.network, "replayed", True),
    simulated.SlowDisk: lambda lane, fault: _set(lane.hosts[fault.node], "sync_ms", fault.ms),
    simulated.ClockOff: lambda lane, fault: _set(lane.hosts[fault.node], "clock_off", fault.seconds),
    simulated.Unlike: _unlike,
    simulated.StepFails: _step,
}
