"""Why a machine does not come up."""

from __future__ import annotations

from lab.errors import LabError
from lab.machines.container.spec import NotBootable


class BootStopped(NotBootable):
    """A boot loader or a kernel was started and stopped: the machine stays on, and tries no other device."""


class BadUnits(LabError):
    """Units that cannot be brought into an order."""


class NoEntry(LabError):
    """The firmware finds nothing to start on a device, and goes on to the next; ``str()`` is why."""
