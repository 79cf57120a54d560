"""Which hours of a table are final and not told yet: the partitions of its asset `final`. Pure.

An hour is final once: what is told is never taken back, and a verdict never goes backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_assets.planning.finality import Verdict

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class FinalHour:
    """An hour that is final, by its begin in UTC; `lost` where it meets a gap."""

    begin: datetime
    lost: bool


def final_hours(
    bronze: Verdict, silver: Verdict, first: datetime, told: datetime | None
) -> Iterator[FinalHour]:
    """The hours that are final and not told, oldest first.

    They begin at `first` or after the snapshot, whichever is later, and after `told`, the begin of
    the last hour that was told. Bronze knows where the changes begin and what is lost of them;
    silver's verdict says how far readers may go.
    """
    until = silver.finalized_until
    if until is None or bronze.begins is None:
        return
    begin = max(_next_hour(first - timedelta(microseconds=1)), _next_hour(bronze.begins))
    if told is not None:
        begin = max(begin, told + HOUR)
    while begin + HOUR <= until:
        yield FinalHour(begin, any(g.start < begin + HOUR and begin <= g.end for g in bronze.lost))
        begin += HOUR


def _next_hour(time: datetime) -> datetime:
    """The first hour that begins after a time."""
    return time.replace(minute=0, second=0, microsecond=0) + HOUR
