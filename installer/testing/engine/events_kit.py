"""The service's events."""

from __future__ import annotations

from installer.rendezvous.store.model import Event
from installer.testing.engine.world_kit import World


def events_named(world: World, name: str) -> list[Event]:
    """Events of this name."""
    return [event for event in world.store.events() if event.name == name]


def messages(world: World, name: str) -> list[str]:
    """The events' texts."""
    return [event.message for event in events_named(world, name)]
