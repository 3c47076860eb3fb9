"""Two machines with one id: what the service says while both report, and after one of them has gone."""

from __future__ import annotations

from typing import Any

import pytest

from installer.assisted.enums import HostStatus, StepType
from installer.rendezvous.resources import hosts
from installer.testing.engine.disks_kit import named, verdict
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory

MAC_A, MAC_B = "52:54:00:00:00:80", "52:54:00:00:00:99"


def machine(mac: str = MAC_A, serial: str = "unknown", **changes: Any) -> dict[str, Any]:
    """Return the inventory of a machine with this NIC."""
    sent = inventory(**changes)
    sent["interfaces"][0]["mac_address"] = mac
    return {**sent, "system_vendor": {**sent.get("system_vendor", {}), "serial_number": serial}}


def tell(world: World, at: str, sent: dict[str, Any]) -> None:
    world.reply(at, StepType.INVENTORY, sent)


def registered(world: World, seconds: float = 5) -> str:
    """Return a host whose first machine is known, and a second registration so many seconds after its last poll."""
    _, at = world.known_host()
    tell(world, at, machine())
    world.poll(at)
    world.wait(seconds)
    hosts.register(world.engine, at, HOST_ID, "")
    return at


@pytest.mark.parametrize("other", [machine(MAC_B), machine(serial="S2"), machine(MAC_B, serial="S2")])
def test_two_machines_with_one_id_are_told(world: World, other: dict[str, Any]) -> None:
    at = registered(world)
    tell(world, at, machine(serial="S1"))
    assert verdict(world, at, "has-inventory")[0] == "success"
    for sent in (other, machine(serial="S1"), other):
        tell(world, at, sent)
        status, words = verdict(world, at, "has-inventory")
        assert status == "failure"
        assert words.startswith("Two machines report as this host")
        assert "(serial number S1)" in words
        host = world.host(at)
        assert (host.status, words in host.status_info) == (HostStatus.INSUFFICIENT, True)
        # The first one's stays: disks do not go back and forth.
        assert host.inventory.value.system_vendor.serial_number == "S1"  # type: ignore[union-attr]
    [event] = named(world, "host_id_shared")
    assert event.severity == "error"
    assert other["interfaces"][0]["mac_address"] in event.message


def test_both_machines_are_asked_again_and_again(world: World) -> None:
    at = registered(world)
    first = world.step_id(at, StepType.INVENTORY)
    # Whichever of them polls first, the other one is asked as well, under an id that is new to it.
    for sent in (machine(MAC_B), machine()):
        assert "inventory" in world.poll(at)
        assert world.step_id(at, StepType.INVENTORY) == first
        tell(world, at, sent)
    ids = set()
    for sent in (machine(MAC_B), machine()) * 20:
        world.wait(5)
        assert "inventory" in world.poll(at)
        ids.add(world.step_id(at, StepType.INVENTORY))
        tell(world, at, sent)
        assert verdict(world, at, "has-inventory")[0] == "failure"
    assert len(ids) == 40
    assert first not in ids


def test_one_that_stays_alone_is_a_host_again(world: World) -> None:
    at = registered(world)
    tell(world, at, machine())
    tell(world, at, machine(MAC_B, hostname="second"))
    for _ in range(14):
        world.wait(5)
        world.poll(at)
        before = world.step_id(at, StepType.INVENTORY)
        tell(world, at, machine(MAC_B, hostname="second"))
    assert verdict(world, at, "has-inventory")[0] == "success"
    assert world.host(at).requested_hostname == "second"
    world.wait(65)
    assert "inventory" in world.poll(at)
    assert world.step_id(at, StepType.INVENTORY) == before


def test_a_machine_that_was_changed_while_it_was_off_is_no_other(world: World) -> None:
    at = registered(world, 600)
    tell(world, at, machine(MAC_B, "S2"))
    # Nor is one that gets a NIC, or loses one, while it runs.
    more = machine(MAC_B, "S2")
    more["interfaces"].append({**more["interfaces"][0], "name": "b", "mac_address": MAC_A})
    tell(world, at, more)
    tell(world, at, machine(MAC_A, "unknown"))
    assert verdict(world, at, "has-inventory")[0] == "success"
    assert named(world, "host_id_shared") == []
    assert "inventory" in world.poll(at)
    world.wait(5)
    assert "inventory" not in world.poll(at)
