"""What one of a host's hardware validations says of it."""

from __future__ import annotations

from typing import Any

from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import host_view

NO_VIEW_ONLY = {
    *("media_connected", "has_inventory", "compatible_agent", "disk_speed", "disk_encryption", "vsphere_uuid"),
    "no_skip_installation_disk",
}


def verdict(check: str, changes: dict[str, Any]) -> Verdict:
    """The verdict of a host that differs so from one that is enough for a master."""
    view = host_view(**changes)
    call: Any = getattr(hw, check)
    verdict: Verdict = call(view) if check in NO_VIEW_ONLY else call(view, view.inventory)
    return verdict
