"""How control rows move: forward only, and never before the data they speak of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow, Identity
from cdc_assets.planning.snapshots import Snapshots
from cdc_assets.planning.verdict import finalized_until, later, silver_hold


@dataclass(frozen=True, slots=True)
class BronzeProgress:
    """What a sync knows of one bronze table once its data and facts are written.

    `changed_lsn` and `table_id` are None where nothing was written: the old ones stand.
    """

    table_name: str
    end: Offset
    identity: Identity
    granularity: str
    changed_lsn: Lsn | None = None
    table_id: str | None = None


def advance_bronze(old: ControlRow | None, progress: BronzeProgress) -> ControlRow:
    """Bronze's control row after a sync; a row that is further already keeps its position.

    Its verdict speaks of changes. Rows of a further snapshot, and of waves, may come with times
    below it: those that they are as of (decision 0019). Silver's waits for them.
    """
    row = old or ControlRow(progress.table_name)
    changed = max(filter(None, (row.changed_lsn, _text(progress.changed_lsn))), default=None)
    row = replace(row, changed_lsn=changed, table_id=progress.table_id or row.table_id)
    if row.end is not None and row.end.lsn > progress.end.lsn:
        return row
    end = progress.end if row.end is None else progress.end.no_earlier_than(row.end.commit_ts)
    return replace(
        row,
        finalized_until=later(
            row.finalized_until, finalized_until(end.commit_ts, progress.granularity)
        ),
        end_lsn=str(end.lsn),
        end_commit_ts=end.commit_ts,
        source_object_id=progress.identity.source_object_id,
        change_object_id=progress.identity.change_object_id,
        instance_name=progress.identity.instance_name,
        instance_created_at=progress.identity.created_at,
    )


def claimed(row: ControlRow, end: Offset, granularity: str) -> ControlRow:
    """A row whose writer says that all up to an offset is in its table: forward only.

    Position and verdict move together, when a period is complete (seed 0019).
    """
    until = finalized_until(end.commit_ts, granularity)
    if row.finalized_until is not None and until <= row.finalized_until:
        return row
    return replace(row, finalized_until=until, end_lsn=str(end.lsn), end_commit_ts=end.commit_ts)


def follow_bronze(
    silver: ControlRow,
    bronze: ControlRow,
    snapshots: Snapshots,
    version: int | None = None,
    granularity: str | None = None,
) -> ControlRow:
    """Silver's control row with bronze's verdict, where nothing holds it back; else unchanged.

    `version` is silver's Delta version at this verdict; None leaves it: the sync moves the
    verdict of a quiet table without touching silver. `granularity` is silver's own, where it has
    one: bronze is complete up to its end.
    """
    if silver_hold(bronze, silver, snapshots) is not None:
        return silver
    if (
        silver.end_lsn is not None
        and bronze.end_lsn is not None
        and silver.end_lsn > bronze.end_lsn
    ):
        return silver
    until = bronze.finalized_until
    if granularity is not None and bronze.end_commit_ts is not None:
        until = finalized_until(bronze.end_commit_ts, granularity)
    return replace(
        silver,
        finalized_until=later(silver.finalized_until, until),
        end_lsn=bronze.end_lsn,
        end_commit_ts=bronze.end_commit_ts,
        verdict_version=silver.verdict_version if version is None else version,
    )


def _text(lsn: Lsn | None) -> str | None:
    return None if lsn is None else str(lsn)
