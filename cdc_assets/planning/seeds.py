"""A copy of a table that already exists: as of when it holds every commit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cdc_assets.errors import SeedRefusedError
from cdc_assets.lsn import Lsn

AS_OF_MARGIN_SECONDS = 30
"""How much older than a copy a commit's time has to be for the copy to hold it.

The log has the time at which a commit was written, in steps of 3.33 ms, and a reader sees it when
it is safe: after the flush of the log, and with a synchronous replica when that has answered or is
given up, by default after 10 s. The rest is for the clock of whoever noted the time.
"""
_EARLIEST = datetime(1900, 1, 1)
"""Far from the end of what a time can be, and before any commit."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """When a copy began to be read: a time (naive, in UTC) or an LSN recorded before that."""

    time: datetime | None = None
    lsn: Lsn | None = None

    def __str__(self) -> str:
        return str(self.lsn) if self.lsn else f"{self.time}"

    @property
    def certain(self) -> datetime | None:
        """The time up to which every commit is in the copy: too early only repeats some."""
        if self.time is None:
            return None
        return max(self.time, _EARLIEST) - timedelta(seconds=AS_OF_MARGIN_SECONDS)

    @classmethod
    def of(cls, value: str | datetime | Lsn) -> AsOf:
        """Read it; a text is an LSN in hex or a time in ISO 8601, which is UTC unless it says so.

        Raises `SeedRefusedError` for anything else.
        """
        if isinstance(value, Lsn):
            return cls(lsn=value)
        try:
            if isinstance(value, str) and value.strip().lower().startswith("0x"):
                return cls(lsn=Lsn.parse(value.strip()))
            time = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        except ValueError:
            raise SeedRefusedError(
                f"{value!r} is neither a time nor an LSN",
                hint="Write 2026-01-31T09:30:00 (UTC), 2026-01-31T09:30:00+01:00, or an LSN: 0x and"
                " 20 hex digits.",
            ) from None
        if time.tzinfo is not None:
            time = time.astimezone(UTC).replace(tzinfo=None)
        return cls(time=time)
