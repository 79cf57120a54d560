"""Gaps in the changes: what was lost, whether it may be healed by itself, who knows of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_assets.contract import COMPLETED_SNAPSHOT, Event
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.snapshots import by_target, this_life

_LOSSES = (Event.RECOVERING, Event.DATA_SKIPPED, *COMPLETED_SNAPSHOT)


@dataclass(frozen=True, slots=True)
class Gap:
    """Commits after `start` and up to `end` (UTC) are not in bronze as changes."""

    start: datetime
    end: datetime
    event: Event
    lsn: str | None = None
    """The last LSN of it."""

    def __str__(self) -> str:
        healed = {
            Event.RECOVERING: "a new snapshot is being taken",
            Event.BOOTSTRAP: "a new snapshot was taken",
            Event.RESNAPSHOT: "a new snapshot was taken",
            Event.DATA_SKIPPED: "they were skipped, as the settings ask",
        }[self.event]
        return f"Changes between {self.start} and {self.end} UTC are lost; {healed}."


def open_gaps(events: Iterable[FactsRow]) -> Mapping[str, Gap]:
    """Each table's oldest gap that nobody has acknowledged, by target; from events in order."""
    found = {target: unacknowledged(rows) for target, rows in by_target(events).items()}
    return {target: gaps[0] for target, gaps in found.items() if gaps}


def unacknowledged(events: Iterable[FactsRow]) -> tuple[Gap, ...]:
    """A table's gaps that nobody has acknowledged, oldest first; from its events in order."""
    gaps = _gaps(this_life(events))
    return tuple(gaps[start] for start in sorted(gaps))


def every_gap(events: Iterable[FactsRow]) -> tuple[Gap, ...]:
    """A table's gaps since its last reset, oldest first, acknowledged or not; events in order.

    That a person knows of a gap fills it no more than before. Of the events of one gap the last
    tells where it ends.
    """
    found: dict[datetime, Gap] = {}
    for row in this_life(events):
        gap = _gap(row)
        if gap is not None:
            found[gap.start] = gap
    return tuple(found[start] for start in sorted(found))


def _gap(row: FactsRow) -> Gap | None:
    if row.event not in _LOSSES or row.lost_from_ts is None or row.lost_to_ts is None:
        return None
    return Gap(row.lost_from_ts, row.lost_to_ts, Event(row.event), row.max_lsn)


def _gaps(events: Iterable[FactsRow]) -> dict[datetime, Gap]:
    """A table's open gaps by where they begin.

    That one is being healed and that it was are two events of one gap, and an acknowledgement in
    between stands for both.
    """
    gaps: dict[datetime, Gap] = {}
    known: set[datetime] = set()
    for row in events:
        if row.event == Event.GAP_ACKNOWLEDGED:
            told = {s for s, gap in gaps.items() if (gap.lsn or "") <= (row.max_lsn or "")}
            known |= told
            gaps = {start: gap for start, gap in gaps.items() if start not in told}
        elif (gap := _gap(row)) is not None and gap.start not in known:
            gaps[gap.start] = gap
    return gaps


def resnapshots_by_target(events: Iterable[FactsRow]) -> Mapping[str, datetime]:
    """When each table was last read anew for a loss: by the server's clock, where it is told.

    A first snapshot is among them that took the place of one which a loss had overtaken.

    `written_at` is of the clock of who wrote it, or later: it keeps the events' order.
    """
    found: dict[str, datetime] = defaultdict(lambda: datetime.min)
    for target, rows in by_target(events).items():
        for row in this_life(rows):
            is_snapshot = row.event in COMPLETED_SNAPSHOT
            if is_snapshot and row.lost_from_ts is not None and row.written_at:
                mark = row.payload.get("high_mark")
                at = datetime.fromisoformat(mark) if mark else row.written_at
                found[target] = max(found[target], at)
    return found


def may_resnapshot(last: datetime, now: datetime, interval_days: int) -> bool:
    """Whether a loss may be healed without a person: a second one soon has a cause to be found."""
    # Two clocks: without an interval, one that is ahead must not refuse.
    return interval_days == 0 or now - last >= timedelta(days=interval_days)
