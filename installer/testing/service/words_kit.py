"""What whoever is no part of the installer needs to hold its service against another: its words, and its command."""

from __future__ import annotations

import sys

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.enums import StepType

COMMAND = (sys.executable, "-m", "installer.rendezvous")

__all__ = ["COMMAND", "HEADERS", "Scheme", "StepType"]
