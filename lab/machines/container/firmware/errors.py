"""Why a machine does not come up."""

from __future__ import annotations

from lab.machines.container.spec import NotBootable


class BootStopped(NotBootable):
    """A kernel was started and its early boot failed: the machine stays as it is, and tries no other device."""
