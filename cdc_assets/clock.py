"""Now, as our tables write it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time in UTC, naive: every time we write is."""
    return datetime.now(UTC).replace(tzinfo=None)
