"""For measurements outside the installer that compare its service with another: its enums."""

from __future__ import annotations

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.enums import StepType

__all__ = ["HEADERS", "Scheme", "StepType"]
