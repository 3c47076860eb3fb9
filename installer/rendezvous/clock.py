"""Time as the API carries it: RFC 3339 in UTC, milliseconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def now() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """RFC 3339 text such as ``2026-01-02T03:04:05.678Z``; sorts as time does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_text() -> str:
    """Return the present moment as RFC 3339 text."""
    return to_text(now())


def age(text: str | None, at: datetime) -> float:
    """Seconds from ``text`` (RFC 3339) to ``at``; infinite when there is no text."""
    if not text:
        return float("inf")
    return (at - datetime.fromisoformat(text)).total_seconds()


def moved(text: str | None, seconds: float) -> str | None:
    """Return the RFC 3339 text of so many seconds later; None and an empty text stay as they are."""
    return to_text(datetime.fromisoformat(text) + timedelta(seconds=seconds)) if text else text


class SteadyClock:
    """Time that runs with the monotonic clock, whatever the wall clock is set to, until it is told to follow.

    Ages and time-outs are counted by it (timekeeping.py): a wall clock that is set, as NTP does soon after a live
    system's start, is no time that has passed. Nor is time in which its service stood still: from the first tick on,
    the clock stops when the next one is overdue.
    """

    def __init__(self, wall: Callable[[], datetime] = now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self.monotonic = monotonic
        self._since, self._at = monotonic(), wall()
        # The clock stops so many seconds after ``_since``.
        self._until = math.inf

    def __call__(self) -> datetime:
        """Return the time, UTC."""
        return self._at + timedelta(seconds=min(self.monotonic() - self._since, self._until))

    def tick(self, seconds: float) -> float:
        """Run on, but for at most so many seconds without another tick. Returns for how long (s) it had stopped before
        this one."""
        passed = self.monotonic() - self._since
        waited = max(0.0, passed - self._until)
        self._since += waited
        self._until = passed - waited + seconds
        return waited

    def ahead(self) -> float:
        """Seconds that the wall clock is ahead of this one."""
        return (self._wall() - self()).total_seconds()

    def follow(self, seconds: float) -> None:
        """Set the clock forward by so many seconds; back when negative."""
        self._at += timedelta(seconds=seconds)

    @property
    def boot(self) -> str:
        """The machine's start that the monotonic clock counts from; empty if it cannot be known."""
        try:
            return BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            return ""
