"""How large a snapshot's chunks are to be, so that a wave takes about as long as is wanted.

By what is known when the plan is made: how fast the table was read last, else how fast another one
of its database was, else what is assumed. It is an estimate, and the plan says which one it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cdc_assets.planning.chunks import CHUNKS_MAX, Sizing
from cdc_assets.planning.records import FactsRow

MEASURED_ROWS_MIN = 50_000
"""Rows of a read that tells a rate: one of fewer tells of its round trips."""
ASSUMED_MB_PER_SECOND = 20.0
"""What the connections of a wave are taken to read together, where nothing was measured."""
SIZED_ROWS_MIN = 10_000
"""Rows of a chunk, at least, where nobody says how many: each is a query of its own."""
SIZED_ROWS_MAX = 100_000_000
"""Rows of a chunk, at most, where nobody says how many: what was measured may be no rate at all."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows of a table and bytes of its data, by the server's metadata."""

    rows: int
    data_bytes: int

    @property
    def row_bytes(self) -> float:
        """Bytes of a row, about; at least one."""
        return max(1.0, self.data_bytes / max(1, self.rows))


@dataclass(frozen=True, slots=True)
class LastRead:
    """How the newest read that tells a rate went; `at` (UTC) is when it was told of."""

    target: str
    rows: int
    mb: float
    seconds: float
    at: datetime | None

    @classmethod
    def of(cls, row: FactsRow) -> Self:
        """What the facts tell in one row."""
        seconds = (row.duration_ms or 0) / 1000
        return cls(row.target or "", row.rows or 0, row.read_mb or 0.0, seconds, row.written_at)

    @classmethod
    def of_waves(cls, newest: FactsRow, told: Iterable[FactsRow]) -> Self:
        """The same of all waves of a snapshot that were measured, each in one of its rows.

        The last wave alone may have been a short one.
        """
        waves: dict[int, list[FactsRow]] = {}
        for row in told:
            waves.setdefault(row.payload.get("wave", -1), []).append(row)
        rows = [row for rows in waves.values() if any(r.duration_ms for r in rows) for row in rows]
        return cls(
            newest.target or "",
            sum(row.rows or 0 for row in rows),
            sum(row.read_mb or 0.0 for row in rows),
            sum(row.duration_ms or 0 for row in rows) / 1000,
            newest.written_at,
        )

    def __str__(self) -> str:
        at = f" of {self.at:%Y-%m-%d %H:%M} UTC" if self.at else ""
        return f"{self.target}'s {self.rows:,} rows{at}"


@dataclass(frozen=True, slots=True)
class Aim:
    """How long a wave is to take, and how many chunks it reads at the same time."""

    wave_seconds: float
    partitions: int


def newest_read(reads: Mapping[str, FactsRow], target: str) -> FactsRow | None:
    """The table's own newest read, else the newest of another; `reads` are by target."""
    if target in reads:
        return reads[target]
    return max(reads.values(), key=lambda row: row.written_at or datetime.min, default=None)


def aimed(aim: Aim, target: str, size: TableSize, last: LastRead | None) -> Sizing:
    """How many rows a chunk is to have, and why.

    No more than leave each connection a chunk, and no fewer than make too many chunks: one of an
    integer key may have half of what is asked for.
    """
    rate, told = _rate(target, size, last)
    why = f"a wave takes about {aim.wave_seconds:g} s at {rate:,.0f} rows/s, {told}"
    wanted = int(rate * aim.wave_seconds / aim.partitions)
    each = -(-size.rows // aim.partitions)
    rows = min(wanted, each, SIZED_ROWS_MAX)
    rows = max(rows, SIZED_ROWS_MIN, -(-2 * size.rows // CHUNKS_MAX))
    if rows != wanted:
        why += (
            f"; that would be {wanted:,}, and it is bounded by the table's {size.rows:,} rows,"
            f" {aim.partitions} chunks a wave, and {SIZED_ROWS_MIN:,} to {SIZED_ROWS_MAX:,}"
        )
    return Sizing(rows, why)


def _rate(target: str, size: TableSize, last: LastRead | None) -> tuple[float, str]:
    """Rows a second, and where they come from."""
    if last is not None and last.seconds > 0:
        if last.target == target:
            return last.rows / last.seconds, f"as {last} were read"
        mb = last.mb / last.seconds
        return mb * 1e6 / size.row_bytes, f"as {last} were read, by the bytes of a row"
    return (
        ASSUMED_MB_PER_SECOND * 1e6 / size.row_bytes,
        f"which is {ASSUMED_MB_PER_SECOND:g} MB/s: nothing was measured yet",
    )
