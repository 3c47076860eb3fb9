"""Redfish, with OpenStack's `sushy` client: the way that real machines are driven (vendors' BMCs: docs/bmcs.md).

Quirks that it handles (reference/lab.md §3): InsertMedia that blocks for minutes or is a task, answers that claim more
than was done (so media are read back), BMCs that are not ready yet, drives that take no URL, boot targets that persist
in spite of `Once`.
"""

from drivers.redfish.service import Runner, here
from drivers.redfish.system import Service, System

__all__ = ["Runner", "Service", "System", "here"]
