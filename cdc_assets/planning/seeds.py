"""A copy of a table that already exists: as of when it holds every commit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cdc_assets.errors import SeedRefusedError
from cdc_assets.lsn import Lsn


@dataclass(frozen=True, slots=True)
class AsOf:
    """When a copy began to be read: a time (naive, in UTC) or an LSN recorded before that."""

    time: datetime | None = None
    lsn: Lsn | None = None

    def __str__(self) -> str:
        return str(self.lsn) if self.lsn else f"{self.time}"

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
