"""One look of a run that keeps polling: bronze follows what has moved, and silver bronze."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_assets.engines.database import Database
from cdc_assets.ingest.sync import SyncReport, sync
from cdc_assets.quality.moving import source_moved
from cdc_assets.quality.pending import pending_tables
from cdc_assets.silver.apply import apply_tables
from cdc_assets.silver.outcome import ApplyOutcome


@dataclass(frozen=True, slots=True)
class Turn:
    """What one look has led to; `report` is None where the source had not moved."""

    report: SyncReport | None = None
    applied: Mapping[str, ApplyOutcome] = field(default_factory=dict)


def take_turn(database: Database) -> Turn:
    """Ask the source whether it has moved, and do what is due; raises the connection's errors.

    A quiet source costs one short statement and a look at the small tables. What silver has missed
    is due as well, whoever brought it into bronze: a backfill beside, or a run that died.
    """
    moved = source_moved(database)
    # Where capture has never run, a sync says so, and opens the first snapshots all the same.
    behind = moved.behind if moved.max_lsn is not None else tuple(database.settings.active)
    report = sync(database, behind) if behind else None
    failed = {outcome.table for outcome in report.failed} if report else set()
    due = [work.table for work in pending_tables(database) if work.table not in failed]
    applied = apply_tables(database, due) if due else {}
    return Turn(report, applied)
