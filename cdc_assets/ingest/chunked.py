"""What a chunked snapshot is besides its rows: one mode at a time, and changes from its open on."""

from __future__ import annotations

from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.contract import SnapshotMode
from cdc_assets.engines.database import Database
from cdc_assets.errors import SnapshotModeError
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.prepared import PreparedSnapshot, changes_start, column_warnings
from cdc_assets.names import Command, TableName
from cdc_assets.planning.snapshots import Snapshot


def check_mode(
    bronze: DeltaTable, table: TableName, opened: Snapshot | None, mode: SnapshotMode
) -> None:
    """Raise `SnapshotModeError` where a snapshot of the other mode is open and not yet read."""
    if opened is None or opened.mode is mode:
        return
    if opened.is_chunked or bronze.transaction_version(table.snapshot_app(opened.at.lsn)) is None:
        raise mode_conflict(table, opened)


def mode_conflict(table: TableName, opened: Snapshot) -> SnapshotModeError:
    """That a snapshot of another mode is open, and how it is finished."""
    finish = (
        f"run {table.command(Command.BACKFILL)} until done"
        if opened.is_chunked
        else f"run {table.command(Command.SYNC)}"
    )
    return SnapshotModeError(
        f"its {opened.mode} snapshot at {opened.at.lsn} is open, and a table has one at a time",
        where=str(table),
        hint=f"To finish it set `snapshot: {opened.mode}` and {finish}; to give it up:"
        f" {table.command(Command.RESET)}.",
    )


def start_changes(database: Database, opened: PreparedSnapshot) -> TableOutcome:
    """The outcome of a chunked snapshot that is open: the changes go on from it at once."""
    table, snapshot = opened.table, opened.snapshot
    if opened.extent is not None:
        database.lake.plans.store_extent(table, snapshot.at.lsn, opened.extent)
    name = str(table).replace(".", " ", 1)
    told = (
        f"Its snapshot at {snapshot.at.lsn} is open; its rows are read in chunks by cdc-assets"
        f" backfill {name}, and its changes from now on by every sync."
    )
    return TableOutcome(
        table=table.key,
        work=Work.OPENED,
        start=snapshot.at,
        end=snapshot.at,
        started_at=utc_now(),
        engine=str(opened.choice),
        warnings=(*column_warnings(database, opened), told),
        progress=changes_start(database, opened),
    )
