"""Time as the API carries it: RFC 3339 in UTC, milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """RFC 3339 text such as ``2026-01-02T03:04:05.678Z``; sorts as time does."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_text() -> str:
    """The present moment as RFC 3339 text."""
    return to_text(now())


def age(text: str | None, at: datetime) -> float:
    """Seconds from ``text`` (RFC 3339) to ``at``; infinite when there is no text."""
    if not text:
        return float("inf")
    return (at - datetime.fromisoformat(text)).total_seconds()
