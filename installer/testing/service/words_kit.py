"""For measurements outside the installer that compare its service with another: its enums, and its command."""

from __future__ import annotations

import sys

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.enums import StepType

COMMAND = (sys.executable, "-m", "installer.rendezvous")

__all__ = ["COMMAND", "HEADERS", "Scheme", "StepType"]
