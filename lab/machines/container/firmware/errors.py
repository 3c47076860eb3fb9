"""Why a machine does not come up."""

from __future__ import annotations

from lab.machines.container.spec import NotBootable


class BootStopped(NotBootable):
    """A boot loader or a kernel was started and stopped: the machine stays as it is, on, and tries no other device."""
