"""What silver still has to apply: a level, not an edge, so that a lost tick heals by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.planning.history import HistoryPosition, TakenSnapshot, missed, plan_history
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshots
from cdc_assets.planning.verdict import silver_hold


class Due(StrEnum):
    """Why a silver table has work."""

    NO_POSITION = "no_position"
    NEW_SNAPSHOT = "new_snapshot"
    NEW_CHANGES = "new_changes"
    NEW_WAVES = "new_waves"
    NEW_VERDICT = "new_verdict"
    MADE_OTHERWISE = "made_otherwise"
    HISTORY_BEHIND = "history_behind"


@dataclass(frozen=True, slots=True)
class Pending:
    """A silver table with work, the bronze LSN that it would reach, and the wave if one is due."""

    table: str
    due: Due
    lsn: str
    wave: int | None = None


def pending_work(
    table: str,
    bronze: ControlRow | None,
    silver: ControlRow | None,
    snapshots: Snapshots,
    newest_change: str | None,
    newest_wave: int | None = None,
) -> Pending | None:
    """Whether one silver table has work.

    `newest_change` is the facts' largest change LSN: they are written before control, so a sync
    that died between the two is seen all the same. `newest_wave` is the last one that they tell
    of the open chunked snapshot. Of a stream without any snapshot the changes alone count.
    """
    complete, opened = snapshots.complete, snapshots.open_chunked
    first = complete or opened
    s = str(first.at.lsn) if first is not None else ""
    changed = max(newest_change or s, (bronze.changed_lsn if bronze else None) or s, s)
    if first is None and (snapshots.open is not None or not _has_changes(bronze, snapshots)):
        return None
    if silver is None or silver.applied_lsn is None:
        return Pending(table, Due.NO_POSITION, changed)
    if first is not None and (silver.snapshot_lsn or silver.open_snapshot_lsn) is None:
        return Pending(table, Due.NO_POSITION, changed)
    if complete is not None and (silver.snapshot_lsn or "") < str(complete.at.lsn):
        return Pending(table, Due.NEW_SNAPSHOT, changed)
    if silver.applied_lsn < changed:
        return Pending(table, Due.NEW_CHANGES, changed)
    if opened is not None and newest_wave is not None:
        is_followed = silver.open_snapshot_lsn == str(opened.at.lsn)
        applied = silver.snapshot_wave if is_followed else None
        if applied is None or applied < newest_wave:
            return Pending(table, Due.NEW_WAVES, changed, newest_wave)
    if bronze is not None and _verdict_waits(bronze, silver, snapshots):
        return Pending(table, Due.NEW_VERDICT, bronze.end_lsn or changed)
    return None


def _has_changes(bronze: ControlRow | None, snapshots: Snapshots) -> bool:
    """Whether control knows of changes in a bronze that no reset has given up."""
    if bronze is None or bronze.table_id in snapshots.discarded:
        return False
    return bronze.changed_lsn is not None


def pending_history(
    table: str,
    bronze: ControlRow | None,
    history: ControlRow | None,
    snapshots: Snapshots,
    taken: Sequence[TakenSnapshot],
) -> Pending | None:
    """Whether a history has work that can be done: silver may have none, as on a quiet table.

    What waits for a snapshot is not due: nothing but that ends it. A verdict is, where a call moves
    it: as a rule the sync has done so.
    """
    end = bronze.end if bronze is not None else None
    position = HistoryPosition.of(history)
    opened = snapshots.open.at.lsn if snapshots.open is not None else None
    if missed(position, taken) is not None and end is not None:
        return Pending(table, Due.HISTORY_BEHIND, str(end.lsn))
    work = plan_history(position, taken, opened, end)
    if work is None or bronze is None or end is None:
        return None
    has_changes = work.upto == end.lsn and (bronze.changed_lsn or "") > str(work.above)
    waits = history is not None and _verdict_waits(bronze, history, snapshots)
    if work.at is None and work.passed is None and not has_changes and not waits:
        return None
    return Pending(table, Due.HISTORY_BEHIND, str(work.upto))


def _verdict_waits(bronze: ControlRow, silver: ControlRow, snapshots: Snapshots) -> bool:
    if bronze.finalized_until is None or silver_hold(bronze, silver, snapshots) is not None:
        return False
    return silver.finalized_until is None or silver.finalized_until < bronze.finalized_until


def lowest_applied(rows: Mapping[str, ControlRow], silver_names: list[str]) -> str | None:
    """The LSN that every one of these silver tables has applied; None when one has nothing."""
    applied = [rows[name].applied_lsn if name in rows else None for name in silver_names]
    return None if None in applied else min((a for a in applied if a), default=None)
