"""A host with three disks, of which one has a link that may be late."""

from __future__ import annotations

from typing import Any

from installer.assisted.enums import StepType
from installer.rendezvous.store.model import Event
from installer.rendezvous.validations.hostview import load_json
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory

GB = 1000**3
SMALL, BIG, MARKED = "/dev/disk/by-path/pci-1", "/dev/disk/by-path/pci-2", "/dev/disk/by-id/wwn-0x3"


def disk(name: str, identity: str, size_gb: int, **changes: Any) -> dict[str, Any]:
    """Return a disk as an agent reports it."""
    return {
        "id": identity,
        "name": name,
        "path": f"/dev/{name}",
        "by_path": f"/dev/disk/by-path/pci-{ord(name[-1]) - ord('a') + 1}",
        "drive_type": "HDD",
        "size_bytes": size_gb * GB,
        "serial": f"S-{name}",
        "installation_eligibility": {"eligible": True, "not_eligible_reasons": []},
        **changes,
    }


def three(**changes: Any) -> list[dict[str, Any]]:
    """Three disks; the third is known by a link that may be late."""
    return [disk("vda", SMALL, 20), disk("vdb", BIG, 30), disk("vdc", MARKED, 40, by_id=MARKED, **changes)]


def late() -> list[dict[str, Any]]:
    """Return the three disks before udev has made the third one's link."""
    return [*three()[:2], disk("vdc", "/dev/disk/by-path/pci-3", 40)]


def tell(world: World, infra_env_id: str, disks: list[dict[str, Any]], **changes: Any) -> None:
    """Report these disks, as the host."""
    world.reply(infra_env_id, StepType.INVENTORY, inventory(disks=disks, **changes))


def verdict(world: World, infra_env_id: str, name: str = "has-min-valid-disks") -> tuple[str, str]:
    """Return result and words of one of the host's validations."""
    info = load_json(world.host(infra_env_id).validations_info.text)
    return next((item["status"], item["message"]) for items in info.values() for item in items if item["id"] == name)


def named(world: World, name: str) -> list[Event]:
    """Events of this name."""
    return [event for event in world.store.events() if event.name == name]


def select(world: World, infra_env_id: str, identity: str) -> None:
    """Take this disk to install on, as a user."""
    body = {"disks_selected_config": [{"id": identity, "role": "install"}]}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
